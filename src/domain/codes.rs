//! Lists of exit codes: `--landed-exit` and `--not-landed-exit` (design §12: `6,7,10-19`).

use std::fmt;
use std::str::FromStr;

/// A set of exit codes, 0–255.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitCodes(Vec<(u8, u8)>);

impl ExitCodes {
    /// Tells whether the list has this code.
    pub fn contains(&self, code: i32) -> bool {
        self.0.iter().any(|&(low, high)| (i32::from(low)..=i32::from(high)).contains(&code))
    }

    /// Returns a code that both lists have.
    pub fn common(&self, other: &ExitCodes) -> Option<i32> {
        (0..=255).find(|&code| self.contains(code) && other.contains(code))
    }

    /// Returns a code that the other list doesn't have.
    pub fn beyond(&self, other: &ExitCodes) -> Option<i32> {
        (0..=255).find(|&code| self.contains(code) && !other.contains(code))
    }

    /// Tells whether the list has no code at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the codes of another list.
    pub fn extend(&mut self, other: &ExitCodes) {
        self.0.extend_from_slice(&other.0);
    }
}

/// As it can be parsed again; an empty set is empty text, which can't be.
impl fmt::Display for ExitCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (low, high)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            if low == high {
                write!(f, "{comma}{low}")?;
            } else {
                write!(f, "{comma}{low}-{high}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for ExitCodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let code = |part: &str| -> Result<u8, String> {
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!("'{part}' is not an exit code; write codes as 6,7,10-19"));
            }
            part.parse().map_err(|_| format!("exit code {part} is over 255"))
        };
        let mut ranges = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (code(low)?, code(high)?),
                None => (code(part)?, code(part)?),
            };
            if low > high {
                return Err(format!("the range {part} runs backwards"));
            }
            ranges.push((low, high));
        }
        Ok(ExitCodes(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_ranges() {
        let codes: ExitCodes = "6,7, 10-19".parse().expect("a valid list");
        for (code, there) in [(5, false), (6, true), (7, true), (9, false), (10, true), (19, true), (20, false)] {
            assert_eq!(codes.contains(code), there, "{code}");
        }
        assert!(!ExitCodes::default().contains(0));
        assert_eq!(codes.to_string(), "6,7,10-19");
    }

    #[test]
    fn a_range_may_be_one_code_long() {
        let one: ExitCodes = "6-6".parse().expect("a valid list");
        assert_eq!(one.to_string(), "6");
    }

    #[test]
    fn grows_by_another_list() {
        let mut codes = ExitCodes::default();
        assert!(codes.is_empty());
        codes.extend(&"7-9".parse().expect("a valid list"));
        codes.extend(&"3".parse().expect("a valid list"));
        assert!(!codes.is_empty());
        assert_eq!(codes.to_string(), "7-9,3");
    }

    #[test]
    fn refuses_what_is_no_list() {
        for bad in ["", "x", "6,", "256", "-1", "9-6", "1-2-3", "+6"] {
            assert!(bad.parse::<ExitCodes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn finds_a_code_in_both_lists() {
        let a: ExitCodes = "1-5".parse().expect("valid");
        let b: ExitCodes = "5-9".parse().expect("valid");
        let c: ExitCodes = "6".parse().expect("valid");
        assert_eq!(a.common(&b), Some(5));
        assert_eq!(a.common(&c), None);
        assert_eq!(b.beyond(&a), Some(6));
        assert_eq!(c.beyond(&b), None);
    }
}
