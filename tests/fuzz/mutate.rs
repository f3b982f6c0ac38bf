//! Makes one input out of another: bytes, pieces and words of the input's language come, go and change places.

use crate::rng::Rng;

/// How long an input may become; beyond it, size is a subject of its own (`linear.rs`).
const LONGEST: usize = 4096;

/// What an input's language is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Language<'a> {
    /// The bytes between its parts, the one that joins parts first.
    pub(crate) breaks: &'a [u8],
    /// Whole parts.
    pub(crate) parts: &'a [&'a [u8]],
    /// Words, wherever they may stand.
    pub(crate) words: &'a [&'a [u8]],
}

/// Returns an input made of one of the `pool`.
pub(crate) fn mutate(pool: &[Vec<u8>], language: Language<'_>, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = pool[rng.below(pool.len())].clone();
    // Most often one change: what is wrong in two places is refused for the first.
    let most = 1 + rng.below(4);
    for _ in 0..1 + rng.below(most) {
        if rng.one_in(3) {
            once(&mut bytes, pool, language.words, rng);
        } else {
            by_parts(&mut bytes, language, rng);
        }
    }
    bytes.truncate(LONGEST);
    bytes
}

/// Changes, takes away, repeats or adds a part.
fn by_parts(bytes: &mut Vec<u8>, Language { breaks, parts, .. }: Language<'_>, rng: &mut Rng) {
    let at = rng.below(bytes.len() + 1);
    let is_break = |byte: &u8| breaks.contains(byte);
    let start = bytes[..at].iter().rposition(is_break).map_or(0, |place| place + 1);
    let end = bytes[at..].iter().position(is_break).map_or(bytes.len(), |place| at + place);
    let part = rng.pick(parts);
    match rng.below(5) {
        0 => drop(bytes.drain(start..(end + 1).min(bytes.len()))),
        1 => {
            let twice = [&bytes[start..end], &breaks[..1]].concat();
            bytes.splice(start..start, twice);
        }
        2 | 3 => drop(bytes.splice(start..end, part.iter().copied())),
        _ => drop(bytes.splice(start..start, [part, &breaks[..1]].concat())),
    }
}

fn once(bytes: &mut Vec<u8>, pool: &[Vec<u8>], words: &[&[u8]], rng: &mut Rng) {
    let at = rng.below(bytes.len() + 1);
    let end = at + rng.below((bytes.len() - at).min(16) + 1);
    match rng.below(11) {
        0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
        1 if at < bytes.len() => bytes[at] = rng.next() as u8,
        2 => drop(bytes.drain(at..end)),
        3 => bytes.insert(at, rng.next() as u8),
        4 => {
            // Once more, or so often that counts and depths come to their limits.
            let piece = bytes[at..end].repeat(if rng.one_in(8) { 1 + rng.below(120) } else { 1 });
            bytes.splice(at..at, piece);
        }
        5 => {
            let piece: Vec<u8> = bytes.drain(at..end).collect();
            let there = rng.below(bytes.len() + 1);
            bytes.splice(there..there, piece);
        }
        6 => {
            let other = &pool[rng.below(pool.len())];
            let from = rng.below(other.len() + 1);
            let to = from + rng.below(other.len() - from + 1);
            bytes.splice(at..end, other[from..to].iter().copied());
        }
        7 if rng.one_in(4) => bytes.truncate(at),
        8 => {
            let digits = rng.pick(&["0", "1", "-1", "9", "21", "22", "00", "255", "256", "999999999", "1000000000"]);
            bytes.splice(at..end, digits.bytes());
        }
        9 => drop(bytes.splice(at..end, rng.pick(words).iter().copied())),
        _ => drop(bytes.splice(at..at, rng.pick(words).iter().copied())),
    }
}
