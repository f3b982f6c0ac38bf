//! Sizes in bytes: `--max-output 64MiB`.

use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// The units, by their names: powers of 1024 with an i, of 1000 without.
const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

impl std::fmt::Display for Size {
    /// Writes it in its largest unit, with one digit after the point: `1.5 MiB`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let units = [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match units.into_iter().find(|(_, unit)| self.0 >= *unit) {
            None => write!(f, "{} bytes", self.0),
            Some((name, unit)) => {
                let tenths = u128::from(self.0) * 10 / u128::from(unit);
                write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
            }
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let wrong = || format!("'{text}' is not a size; write sizes as 64MiB, 500kB or 0");
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        number.checked_mul(*factor).map(Size).ok_or_else(|| format!("{text} is more than can be counted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_their_largest_unit() {
        for (bytes, shown) in [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (u64::MAX, "16777215.9 TiB")] {
            assert_eq!(Size(bytes).to_string(), shown);
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("0", 0), ("17", 17), ("1B", 1), ("64MiB", 64 << 20), ("3kB", 3000), ("2GiB", 2 << 30)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5MiB", "1 MiB", "1mib", "1K", "99999999999999999999", "99999999TiB"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
