//! Goals, the table, markdown.

use std::fmt::Write as _;

use crate::sampling::{Ratio, Samples};

const HEAD: [&str; 7] = ["figure", "idem", "yardstick", "ratio", "spread", "goal", ""];

/// All that was measured, in groups, in the order of measuring.
#[derive(Default)]
pub(crate) struct Report {
    /// What the figures were taken on, one fact a line.
    pub(crate) machine: Vec<String>,
    groups: Vec<(&'static str, Vec<Row>)>,
}

/// One figure; cells that don't apply stay empty.
#[derive(Default)]
pub(crate) struct Row {
    figure: String,
    idem: String,
    yardstick: String,
    ratio: Option<Ratio>,
    spread: Option<String>,
    goal: String,
    met: Option<bool>,
}

impl Row {
    pub(crate) fn new(figure: impl Into<String>) -> Self {
        Self { figure: figure.into(), ..Self::default() }
    }

    /// Sets the two values that the ratio is made of, or only idem's.
    pub(crate) fn values(mut self, idem: impl Into<String>, yardstick: impl Into<String>) -> Self {
        (self.idem, self.yardstick) = (idem.into(), yardstick.into());
        self
    }

    pub(crate) fn ratio(mut self, ratio: Ratio) -> Self {
        self.ratio = Some(ratio);
        self
    }

    /// Sets a spread in other words than the ratio's.
    pub(crate) fn spread(mut self, spread: impl Into<String>) -> Self {
        self.spread = Some(spread.into());
        self
    }

    /// Sets a goal for the ratio, where there is one.
    pub(crate) fn at_most(mut self, limit: Option<f64>) -> Self {
        if let Some((limit, ratio)) = limit.zip(self.ratio) {
            self.goal = format!("≤ {limit}");
            self.met = Some(ratio.value <= limit);
        }
        self
    }

    /// Sets a goal in words, and whether it is met.
    pub(crate) fn goal(mut self, goal: impl Into<String>, met: bool) -> Self {
        (self.goal, self.met) = (goal.into(), Some(met));
        self
    }

    fn cells(&self) -> [String; 7] {
        let ratio = |form: &dyn Fn(Ratio) -> String| self.ratio.map_or_else(String::new, form);
        [
            self.figure.clone(),
            self.idem.clone(),
            self.yardstick.clone(),
            ratio(&|ratio| format!("{:.2}", ratio.value)),
            self.spread.clone().unwrap_or_else(|| ratio(&|ratio| format!("{:.2}–{:.2}", ratio.low, ratio.high))),
            self.goal.clone(),
            self.met.map_or("", |met| if met { "met" } else { "missed" }).to_owned(),
        ]
    }
}

impl Report {
    pub(crate) fn push(&mut self, group: &'static str, row: Row) {
        match self.groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, rows)) => rows.push(row),
            None => self.groups.push((group, vec![row])),
        }
    }

    /// The report for a terminal: one aligned table, the groups under headings of their own.
    pub(crate) fn text(&self) -> String {
        let tables: Vec<Vec<[String; 7]>> =
            self.groups.iter().map(|(_, rows)| rows.iter().map(Row::cells).collect()).collect();
        let head = HEAD.map(str::to_owned);
        let widths: [usize; 7] = std::array::from_fn(|column| {
            let cells = tables.iter().flatten().chain([&head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        });
        let line = |cells: &[String; 7]| {
            let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let mut text = self.machine.join("\n") + "\n\n" + &line(&head);
        for ((name, _), rows) in self.groups.iter().zip(&tables) {
            let _ = writeln!(text, "\n{name}");
            text.extend(rows.iter().map(line));
        }
        text + "\n" + &self.summary() + "\n"
    }

    /// The report as docs/benchmarks.md has it.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        for fact in &self.machine {
            let _ = writeln!(text, "- {fact}");
        }
        for (name, rows) in &self.groups {
            let _ = writeln!(text, "\n### {name}\n\n| {} |\n|{}", HEAD.join(" | "), " --- |".repeat(HEAD.len()));
            for row in rows {
                let _ = writeln!(text, "| {} |", row.cells().map(|cell| cell.replace('|', "\\|")).join(" | "));
            }
        }
        text + "\n" + &self.summary() + "\n"
    }

    fn summary(&self) -> String {
        let judged: Vec<(&Row, bool)> =
            self.groups.iter().flat_map(|(_, rows)| rows).filter_map(|row| Some((row, row.met?))).collect();
        let missed: Vec<&str> = judged.iter().filter(|(_, met)| !met).map(|(row, _)| row.figure.as_str()).collect();
        let met = judged.len() - missed.len();
        match missed.as_slice() {
            [] => format!("{met} of {met} goals met."),
            names => format!("{met} of {} goals met; missed: {}.", judged.len(), names.join("; ")),
        }
    }
}

/// Median and spread (p10–p90) of times in milliseconds, in the unit that they are best read in. A single one has no
/// spread.
pub(crate) fn times(samples: &Samples) -> String {
    let (unit, scale) = match samples.median() {
        median if median >= 1e3 => ("s", 1e-3),
        _ if samples.percentile(90.0) < 0.1 => ("µs", 1e3),
        _ => ("ms", 1.0),
    };
    let at = |percent| samples.percentile(percent) * scale;
    match samples.len() {
        1 => format!("{:.2} {unit}, once", at(50.0)),
        _ => format!("{:.2} {unit} ({:.2}–{:.2})", at(50.0), at(10.0), at(90.0)),
    }
}
