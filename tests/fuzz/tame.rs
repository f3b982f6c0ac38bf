//! What may reach a terminal.

/// Fails where a text for people has a character in it that moves a cursor, changes a colour, or turns a line around.
#[track_caller]
pub(crate) fn tame(text: &str) {
    let wild = |char: char| {
        let turns = matches!(u32::from(char), 0x61c | 0x200e..=0x200f | 0x202a..=0x202e | 0x2066..=0x2069);
        let breaks = matches!(char, '\u{2028}' | '\u{2029}');
        turns || breaks || (char.is_control() && char != '\n')
    };
    let found = text.char_indices().find(|&(_, char)| wild(char));
    assert_eq!(found, None, "{text:?}");
}
