//! The operator's policy: what is known of each tool, so that no caller has to remember it (published in `docs/policy.md`).
//!
//! Invariant: a call's own options add to the policy and never weaken it. To weaken is whatever could let a call run twice
//! that the policy would not, or lose a result or a write. Pure rules over plain values; who reads the file is `policy`.

mod pattern;
mod rules;
mod stated;

pub use pattern::Pattern;
pub use rules::{Entry, KEYS, Place, Problem, Rules, Said, Ttl};
pub use stated::{Stated, Weakening};

/// A section of the policy: what it says of the tools that fit its pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The tools.
    pub pattern: Pattern,
    /// The line of its header.
    pub line: usize,
    /// What it says of them.
    pub rules: Rules,
}

/// The whole policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What applies to every tool of which no section says otherwise.
    pub defaults: Rules,
    /// The sections, in no particular order.
    pub tools: Vec<Section>,
}

impl Policy {
    /// Returns what applies to a tool, key by key: each from the most exact section that has it, else from the defaults.
    ///
    /// *`github.*` says external, and a section for `github.comment` with a time limit is added*: it must not make that tool
    /// local again. Fails where what comes together contradicts itself.
    pub fn rules_for(&self, tool: &str) -> Result<Rules, Problem> {
        let mut fitting: Vec<&Section> = self.tools.iter().filter(|section| section.pattern.fits(tool)).collect();
        fitting.sort_by_key(|section| std::cmp::Reverse(section.pattern.exactness()));
        let mut rules = Rules::default();
        for section in fitting {
            rules = rules.over_less_exact(&section.rules);
        }
        let rules = rules.over_less_exact(&self.defaults);
        match rules.contradiction() {
            None => Ok(rules),
            Some(problem) => Err(problem),
        }
    }

    /// Returns what is wrong with the policy as a whole: sections of which none is the more exact one for some tool, and
    /// what contradicts itself once it comes together. In the order of their lines.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.ties().collect();
        let sections = self.tools.iter().map(|section| &section.rules).chain([&self.defaults]);
        problems.extend(sections.filter_map(Rules::contradiction));
        let sampled = self.tools.iter().filter_map(|section| self.rules_for(&section.pattern.sample()).err());
        problems.extend(sampled);
        problems.sort_by(|a, b| (a.line, &a.text).cmp(&(b.line, &b.text)));
        problems.dedup();
        problems
    }

    fn ties(&self) -> impl Iterator<Item = Problem> {
        self.tools.iter().enumerate().flat_map(|(index, section)| {
            let ties = self.tools[index + 1..].iter().filter(|other| section.pattern.ties_with(&other.pattern));
            ties.map(move |other| {
                let (first, second) = if section.line < other.line { (section, other) } else { (other, section) };
                Problem::new(
                    second.line,
                    format!(
                        "\"{}\" and \"{}\" in line {} fit the same tools and are equally exact: neither would win",
                        second.pattern, first.pattern, first.line
                    ),
                )
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::claim::Effect;
    use crate::domain::codes::ExitCodes;

    fn said<T>(value: T, line: usize) -> Option<Said<T>> {
        Some(Said { value, text: String::new(), place: Place { line, section: String::new() } })
    }

    fn section(pattern: &str, line: usize, rules: Rules) -> Section {
        Section { pattern: pattern.parse().expect(pattern), line, rules }
    }

    fn codes(text: &str) -> ExitCodes {
        text.parse().expect(text)
    }

    #[test]
    fn each_key_comes_from_the_most_exact_section_that_has_it() {
        let time = |line| Rules { timeout: said(std::time::Duration::from_secs(9), line), ..Rules::default() };
        let policy = Policy {
            defaults: Rules { effect: said(Effect::Local, 1), marks: said(true, 2), ..Rules::default() },
            tools: vec![
                section("*", 3, time(4)),
                section("git*", 5, time(6)),
                section("github.*", 7, Rules { effect: said(Effect::External, 8), ..Rules::default() }),
                section("github.comment", 9, time(10)),
            ],
        };
        for (tool, effect, time) in [
            ("mail", 1, Some(4)),
            ("git", 1, Some(6)),
            ("github.", 8, Some(6)),
            ("github.pr", 8, Some(6)),
            ("github.comment", 8, Some(10)),
        ] {
            let rules = policy.rules_for(tool).expect(tool);
            assert_eq!(rules.effect.map(|said| said.place.line), Some(effect), "{tool}");
            assert_eq!(rules.timeout.map(|said| said.place.line), time, "{tool}");
            assert_eq!(rules.marks.map(|said| said.place.line), Some(2), "{tool}");
        }
        assert_eq!(policy.problems(), []);
    }

    #[test]
    fn globs_of_which_none_is_more_exact_are_a_problem_with_both_lines() {
        for (a, b, tie) in [
            ("mail.*", "mail.*d", true),
            ("mail.?*", "mail.*", true),
            ("mail.*", "mail.send", false),
            ("mail.*", "mai*", false),
            ("mail.*a", "mail.*b", false),
            ("*a*", "*b*", true),
            ("a?", "a??", false),
        ] {
            let policy = Policy {
                tools: vec![section(a, 3, Rules::default()), section(b, 5, Rules::default())],
                ..Policy::default()
            };
            let problems = policy.problems();
            assert_eq!(!problems.is_empty(), tie, "{a} {b}: {problems:?}");
            assert!(
                problems.iter().all(|problem| problem.line == 5 && problem.text.contains("line 3")),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn what_contradicts_itself_is_found_within_a_section_and_across() {
        let landed = Rules { landed_exit: said(codes("3-5"), 2), ..Rules::default() };
        let not_landed = Rules { not_landed_exit: said(codes("5"), 7), ..Rules::default() };
        let both = Rules { landed_exit: landed.landed_exit.clone(), ..not_landed.clone() };
        for (defaults, tool, wrong) in [
            (Rules::default(), both, true),
            (landed.clone(), not_landed.clone(), true),
            (landed, Rules::default(), false),
            (Rules::default(), not_landed, false),
        ] {
            let policy = Policy { defaults, tools: vec![section("t*", 6, tool)] };
            assert_eq!(policy.rules_for("tool").is_err(), wrong);
            assert_eq!(policy.problems().len(), usize::from(wrong), "{:?}", policy.problems());
        }
    }
}
