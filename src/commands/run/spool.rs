//! Inputs that become part of the key: read once, digested, and standard input kept for the command (`--bind-stdin`).

use std::fs::File;
use std::io::{self, Read, Seek, Write};

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::exit::{Failure, Kind};

/// How much standard input is bound at the most, in bytes.
const MAX: u64 = 1 << 30;

/// How much is read at once, in bytes.
const BLOCK: usize = 64 * 1024;

/// Reads all of an input into a file that has no name and goes away with the process. Returns it at its beginning, with
/// the SHA-256 of what it holds in lower-case hex.
pub(super) fn spool(input: impl Read) -> anyhow::Result<(File, String)> {
    let mut file = tempfile::tempfile().context("there is no place to keep standard input in (see TMPDIR)")?;
    let mut size = 0;
    let digest = read_all(&mut input.take(MAX + 1), |block| {
        size += block.len() as u64;
        file.write_all(block)
    });
    let digest = digest.context("standard input can't be read and kept (see TMPDIR)")?;
    if size > MAX {
        let message = format!("standard input is over {} MiB, too much to bind", MAX >> 20);
        return Err(Failure::new(Kind::Usage, message).hint("bind a file with --bind-file instead").into());
    }
    file.rewind().context("standard input can't be read again")?;
    Ok((file, digest))
}

/// Returns the SHA-256 of all that an input holds, in lower-case hex.
pub(super) fn digest(input: &mut impl Read) -> io::Result<String> {
    read_all(input, |_| Ok(()))
}

fn read_all(input: &mut impl Read, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK];
    loop {
        match input.read(&mut block) {
            Ok(0) => break,
            Ok(count) => {
                hash.update(&block[..count]);
                each(&block[..count])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_can_be_read_again() {
        let bytes: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let (mut file, spooled) = spool(bytes.as_slice()).expect("spooled");
        let mut again = Vec::new();
        file.read_to_end(&mut again).expect("readable");
        assert!(again == bytes);
        assert_eq!(spooled, digest(&mut bytes.as_slice()).expect("digested"));
    }

    #[test]
    fn the_digest_is_sha_256_in_hex() {
        let empty = digest(&mut io::empty()).expect("digested");
        assert_eq!(empty, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
