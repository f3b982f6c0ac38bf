//! `--subst`: the key in the command's arguments, without a shell (design §9).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::domain::claim::ClaimId;
use crate::domain::key::Key;

/// Replaces `{idem.key}`, `{idem.uuid}`, `{idem.short}`, `{idem.id}` and `{idem.attempt}` in every argument.
///
/// Arguments are bytes, and what else is in braces stays as it is. Values contain no braces: one pass is all.
pub(super) fn substitute(args: &[OsString], key: &Key, id: ClaimId, attempt: i64) -> Vec<OsString> {
    let names: [(&[u8], String); 5] = [
        (b"{idem.key}", key.to_string()),
        (b"{idem.uuid}", key.uuid()),
        (b"{idem.short}", key.short()),
        (b"{idem.id}", id.to_string()),
        (b"{idem.attempt}", attempt.to_string()),
    ];
    args.iter().map(|arg| one(arg, &names)).collect()
}

fn one(arg: &OsStr, names: &[(&[u8], String)]) -> OsString {
    let mut rest = arg.as_bytes();
    let mut done = Vec::with_capacity(rest.len());
    while let Some(first) = rest.first() {
        let named = if *first == b'{' { names.iter().find(|(name, _)| rest.starts_with(name)) } else { None };
        match named {
            Some((name, value)) => {
                done.extend_from_slice(value.as_bytes());
                rest = &rest[name.len()..];
            }
            None => {
                done.push(*first);
                rest = &rest[1..];
            }
        }
    }
    OsString::from_vec(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_five_and_nothing_else() {
        let key = Key::of("x");
        let args: Vec<OsString> = vec![
            "Idempotency-Key: {idem.key}".into(),
            "{idem.id}{idem.attempt}/{idem.short}".into(),
            "{idem.uuid}".into(),
            "{idem.keys} {idem {{idem.id}} {}".into(),
            OsString::from_vec(b"\xff{idem.id}\xfe".to_vec()),
        ];
        let done = substitute(&args, &key, 7, 2);
        assert_eq!(done[0], OsString::from(format!("Idempotency-Key: {key}")));
        assert_eq!(done[1], OsString::from(format!("72/{}", key.short())));
        assert_eq!(done[2], OsString::from(key.uuid()));
        assert_eq!(done[3], OsString::from("{idem.keys} {idem {7} {}"));
        assert_eq!(done[4], OsString::from_vec(b"\xff7\xfe".to_vec()));
    }
}
