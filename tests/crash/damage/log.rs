//! How much of a write-ahead log SQLite takes for written: told by the log's own checksums, and not by asking SQLite.

/// The log's own header, and the one before each page.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The first word of a log, but for its last bit: that tells the order of bytes that the checksums are made in.
const MAGIC: u32 = 0x377f_0682;

/// Returns where each of a log's transactions ends, in bytes, up to the first frame that is not as it was written.
///
/// A frame's checksum goes on from the one before it, so nothing behind a wrong one is ever right.
pub(super) fn commits(log: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let Some(header) = log.get(..HEADER) else { return ends };
    let page = usize::try_from(word(header, 8)).expect("a size");
    if word(header, 0) & !1 != MAGIC || !page.is_power_of_two() || !(512..=65536).contains(&page) {
        return ends;
    }
    let read = if word(header, 0) & 1 == 1 { u32::from_be_bytes } else { u32::from_le_bytes };
    let mut sum = add((0, 0), &header[..24], read);
    if sum != (word(header, 24), word(header, 28)) {
        return ends;
    }
    for (number, frame) in log[HEADER..].chunks_exact(FRAME_HEADER + page).enumerate() {
        sum = add(add(sum, &frame[..8], read), &frame[FRAME_HEADER..], read);
        // The salt is another one in what is left of an earlier log.
        let right = frame[8..16] == header[16..24] && word(frame, 0) > 0 && sum == (word(frame, 16), word(frame, 20));
        if !right {
            break;
        }
        if word(frame, 4) > 0 {
            ends.push(HEADER + (number + 1) * (FRAME_HEADER + page));
        }
    }
    ends
}

/// How many frames of the log are in the store already, as the shared memory has it.
pub(super) fn taken_in(shared_memory: &[u8]) -> u32 {
    u32::from_ne_bytes(shared_memory[96..100].try_into().expect("four bytes"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn add(mut sum: (u32, u32), bytes: &[u8], read: fn([u8; 4]) -> u32) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let [first, second] = [0, 4].map(|at| read(pair[at..at + 4].try_into().expect("four bytes")));
        sum.0 = sum.0.wrapping_add(first).wrapping_add(sum.1);
        sum.1 = sum.1.wrapping_add(second).wrapping_add(sum.0);
    }
    sum
}
