//! Which tools a section speaks of: a name, or a glob.

use std::str::FromStr;

/// A tool's name, in which `*` stands for any characters, none included, and `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    chars: Vec<char>,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a tool's name is not empty".to_owned());
        }
        // Whoever writes "git{hub,lab}.*" or "[ab]" means more than these characters, and would be left without a policy.
        if let Some(char) = text.chars().find(|char| "[]{}\\".contains(*char)) {
            return Err(format!("'{char}' has no meaning in a tool's name: use * and ?, or a section for each name"));
        }
        Ok(Pattern { text: text.to_owned(), chars: text.chars().collect() })
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    /// Tells whether a tool fits.
    pub fn fits(&self, tool: &str) -> bool {
        let tool: Vec<char> = tool.chars().collect();
        // Its characters are themselves here, whatever they mean in a pattern.
        meet(&self.chars, &tool, |char| char == '*', |_| false, |a, b| a == '?' || a == b)
    }

    /// Returns how exact it is, by which the most exact one wins: a name above every glob, then by what stands before the
    /// first `*` or `?`.
    pub fn exactness(&self) -> (bool, usize) {
        let literal = self.chars.iter().take_while(|char| !is_wild(**char)).count();
        (literal == self.chars.len(), literal)
    }

    /// Tells whether some tool fits both of two globs that are equally exact.
    pub fn ties_with(&self, other: &Pattern) -> bool {
        let star = |char| char == '*';
        let same = |a, b| a == '?' || b == '?' || a == b;
        self.exactness() == other.exactness() && meet(&self.chars, &other.chars, star, star, same)
    }

    /// Returns the shortest name that fits.
    pub fn sample(&self) -> String {
        self.chars.iter().filter(|char| **char != '*').map(|char| if *char == '?' { 'x' } else { *char }).collect()
    }
}

fn is_wild(char: char) -> bool {
    char == '*' || char == '?'
}

/// Tells whether two patterns have a text in common, by one row after the other of the table "this much of `a` and that
/// much of `b` can be the same text". `star_a`, `star_b`: which characters of each stand for any text.
fn meet(
    a: &[char],
    b: &[char],
    star_a: impl Fn(char) -> bool,
    star_b: impl Fn(char) -> bool,
    same: impl Fn(char, char) -> bool,
) -> bool {
    // above[j]: the first i of `a` and the first j of `b`.
    let mut above = vec![true];
    for &in_b in b {
        above.push(above[above.len() - 1] && star_b(in_b));
    }
    for &in_a in a {
        let mut row = vec![above[0] && star_a(in_a)];
        for (j, &in_b) in b.iter().enumerate() {
            let by_star = (star_a(in_a) || star_b(in_b)) && (above[j + 1] || row[j]);
            let by_one = !star_a(in_a) && !star_b(in_b) && same(in_a, in_b) && above[j];
            row.push(by_star || by_one);
        }
        above = row;
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().expect(text)
    }

    #[test]
    fn names_and_globs() {
        for (glob, tool, fits) in [
            ("mail.send", "mail.send", true),
            ("mail.send", "mail.sender", false),
            ("mail.send", "Mail.send", false),
            ("github.*", "github.", true),
            ("github.*", "github.pr.open", true),
            ("github.*", "github", false),
            ("*", "anything", true),
            ("*.delete", "s3.bucket.delete", true),
            ("*.delete", "s3.delete.bucket", false),
            ("a*b*c", "aXbYbc", true),
            ("a*b*c", "aXcYb", false),
            ("a?c", "abc", true),
            ("a?c", "aäc", true),
            ("a?c", "ac", false),
            ("abc", "a*c", false),
            ("a*c", "a*c", true),
            ("a?", "a*", true),
        ] {
            assert_eq!(pattern(glob).fits(tool), fits, "{glob} {tool}");
        }
    }

    #[test]
    fn a_glob_of_many_stars_is_judged_in_no_time() {
        let glob = pattern(&"*a".repeat(200));
        assert!(!glob.fits(&"a".repeat(199)));
        assert!(glob.fits(&"a".repeat(200)));
    }

    #[test]
    fn a_sample_fits() {
        for glob in ["a", "a*b?c", "*", "?"] {
            assert!(pattern(glob).fits(&pattern(glob).sample()), "{glob}");
        }
    }

    #[test]
    fn what_looks_like_another_kind_of_glob_is_refused() {
        for bad in ["", "git{hub,lab}.*", "[ab]", r"a\*"] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad}");
        }
    }
}
