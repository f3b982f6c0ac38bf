//! The table of `idem list`.

use unicode_width::UnicodeWidthStr;

use super::escape::escape;
use super::words;
use crate::domain::claim::State;
use crate::domain::store::Listed;
use crate::domain::timestamp::Timestamp;

/// The columns; numbers are set to the right.
const COLUMNS: [(&str, bool); 9] = [
    ("ID", true),
    ("STATE", false),
    ("EFFECT", false),
    ("WHO", false),
    ("CONV", false),
    ("TOOL", false),
    ("AGE", true),
    ("EXIT", true),
    ("ARRIVALS", true),
];

/// Returns the table, one claim a line below a line of headings; empty for no claims.
pub fn table(claims: &[Listed], now: Timestamp, colored: bool) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let heading = COLUMNS.map(|(name, _)| name.to_owned());
    let rows: Vec<[String; 9]> = std::iter::once(heading).chain(claims.iter().map(|listed| row(listed, now))).collect();
    let widths: Vec<usize> =
        (0..COLUMNS.len()).map(|column| rows.iter().map(|row| row[column].width()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let state = number.checked_sub(1).map(|claim| claims[claim].claim.state);
        text += &line(row, &widths, state.filter(|_| colored));
        text.push('\n');
    }
    text
}

fn row(listed: &Listed, now: Timestamp) -> [String; 9] {
    let claim = &listed.claim;
    [
        claim.id.to_string(),
        claim.state.to_string(),
        claim.effect.to_string(),
        escape(&claim.who).into_owned(),
        escape(&claim.conv).into_owned(),
        escape(&claim.tool).into_owned(),
        words::age(claim.created_at.age(now)),
        claim.exit_status().map_or("-".to_owned(), |status| status.to_string()),
        listed.arrivals.to_string(),
    ]
}

fn line(row: &[String; 9], widths: &[usize], state: Option<State>) -> String {
    let mut cells = Vec::with_capacity(row.len());
    for (column, ((cell, width), (_, right))) in row.iter().zip(widths).zip(COLUMNS).enumerate() {
        let padding = " ".repeat(width.saturating_sub(cell.width()));
        let cell = match state {
            Some(state) if column == 1 => format!("{}{cell}\x1b[0m", color(state)),
            _ => cell.clone(),
        };
        cells.push(if right { format!("{padding}{cell}") } else { format!("{cell}{padding}") });
    }
    cells.join("  ").trim_end().to_owned()
}

/// Held claims must not be missed: white on red.
fn color(state: State) -> &'static str {
    match state {
        State::Held => "\x1b[1;97;41m",
        State::Running => "\x1b[33m",
        State::Completed => "\x1b[32m",
        State::Released | State::Cleared | State::Expired => "\x1b[2m",
    }
}
