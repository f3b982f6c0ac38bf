//! Text from a call, made safe for a terminal (design §10, messages).

use std::borrow::Cow;
use std::fmt::Write;

/// Replaces everything that could move a cursor, change a colour or reorder a line by an escape that can be read.
///
/// Control characters (C0, DEL, C1), line and paragraph separators, and the marks that change the direction of text.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            char if is_unsafe(char) => {
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(char));
            }
            char => escaped.push(char),
        }
    }
    Cow::Owned(escaped)
}

/// The same for lines of output: the line breaks stay.
pub fn escape_lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_terminal_gets_through() {
        for (raw, shown) in [
            ("plain ü 漢", "plain ü 漢"),
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("\u{202e}evil", "\\u{202e}evil"),
        ] {
            assert_eq!(escape(raw), shown);
        }
        assert_eq!(escape_lines("a\nb\x07"), "a\nb\\u{7}");
    }
}
