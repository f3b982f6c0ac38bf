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

/// The columns that a call names: they are cut where the line is too long, the longest first.
const NAMES: std::ops::Range<usize> = 3..6;

/// What a name keeps at least, in cells.
const LEAST: usize = 8;

/// What ends the line of a held claim, in whatever colour: it waits for a person.
const HELD: &str = "  <== held";

/// How a table is to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether states have colours.
    pub colored: bool,
    /// The terminal's width in cells, where it is shown on one.
    pub width: Option<usize>,
}

/// Returns the table, one claim a line below a line of headings; empty for no claims.
pub fn table(claims: &[Listed], now: Timestamp, look: Look) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let heading = COLUMNS.map(|(name, _)| name.to_owned());
    let rows: Vec<[String; 9]> = std::iter::once(heading).chain(claims.iter().map(|listed| row(listed, now))).collect();
    let mut widths: [usize; 9] =
        std::array::from_fn(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0));
    if let Some(limit) = look.width {
        let held = claims.iter().any(|listed| listed.claim.state == State::Held);
        fit(&mut widths, limit.saturating_sub(if held { HELD.len() } else { 0 }));
    }
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let state = number.checked_sub(1).map(|claim| claims[claim].claim.state);
        text += &line(row, &widths, state, look);
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

/// Takes from the widest names what is too much.
fn fit(widths: &mut [usize; 9], limit: usize) {
    let gaps = 2 * (COLUMNS.len() - 1);
    while widths.iter().sum::<usize>() + gaps > limit {
        let Some(widest) = widths[NAMES].iter_mut().max().filter(|width| **width > LEAST) else { return };
        *widest -= 1;
    }
}

fn line(row: &[String; 9], widths: &[usize; 9], state: Option<State>, look: Look) -> String {
    let mut cells = Vec::with_capacity(row.len());
    for (column, ((cell, &most), (_, right))) in row.iter().zip(widths).zip(COLUMNS).enumerate() {
        let cell = cut(cell, most);
        let padding = " ".repeat(most.saturating_sub(width(&cell)));
        let cell = match state {
            Some(state) if column == 1 && look.colored => format!("{}{cell}\x1b[0m", color(state)),
            // Elsewhere nothing is added to a name: somebody may search for it.
            _ if look.width.is_some() && cell.chars().any(is_right_to_left) => format!("\u{2068}{cell}\u{2069}"),
            _ => cell,
        };
        cells.push(if right { format!("{padding}{cell}") } else { format!("{cell}{padding}") });
    }
    let mut line = cells.join("  ");
    match state {
        Some(State::Held) if look.colored => line += &format!("  {}{}\x1b[0m", color(State::Held), HELD.trim_start()),
        Some(State::Held) => line += HELD,
        _ => line.truncate(line.trim_end().len()),
    }
    line
}

/// The cells that a text takes on a terminal.
///
/// Terminals give Arabic lam and alef a cell each, though some fonts draw one shape: so each lam is measured by itself.
fn width(text: &str) -> usize {
    text.split_inclusive('\u{644}').map(UnicodeWidthStr::width).sum()
}

/// Cuts a text to so many cells, the last of them an ellipsis.
fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let ends = text.char_indices().map(|(start, _)| start);
    let end = ends.take_while(|&end| width(&text[..end]) < most).last().unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Tells whether a character is of a script that runs from right to left. On a terminal such a name is isolated: two of
/// them side by side would change places.
fn is_right_to_left(char: char) -> bool {
    matches!(char, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_measured_in_cells_and_cut_by_them() {
        for (text, cells) in
            [("abc", 3), ("漢字", 4), ("e\u{301}", 1), ("a\u{200b}b", 2), ("\u{644}\u{627}", 2), ("שלום", 4)]
        {
            assert_eq!(width(text), cells, "{text:?}");
        }
        for (text, most, shown) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("漢字漢", 5, "漢字…"),
            ("漢字漢", 4, "漢…"),
            ("ae\u{301}iou", 3, "ae\u{301}…"),
        ] {
            assert_eq!(cut(text, most), shown);
        }
    }

    #[test]
    fn the_widest_names_give_first_and_none_gives_all() {
        let mut widths = [2, 9, 8, 40, 10, 4, 3, 4, 8];
        fit(&mut widths, 80);
        assert_eq!(widths, [2, 9, 8, 16, 10, 4, 3, 4, 8]);
        fit(&mut widths, 20);
        assert_eq!(widths, [2, 9, 8, 8, 8, 4, 3, 4, 8]);
    }
}
