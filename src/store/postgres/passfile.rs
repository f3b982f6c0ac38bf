//! The password file, `~/.pgpass`, by libpq's rules.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns the password that the file has for this server, database and user.
///
/// A file that others can read is ignored, as libpq does, and so is one that isn't there.
pub(super) fn password(file: &Path, host: &str, port: u16, dbname: &str, user: &str) -> Option<String> {
    let mut file = File::open(file).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o077 != 0 {
        return None;
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    find(&String::from_utf8_lossy(&text), &[host, &port.to_string(), dbname, user])
}

/// Returns the password of the first line whose fields fit.
fn find(text: &str, wanted: &[&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let rest = wanted.iter().try_fold(line, |rest, wanted| after_field(rest, wanted))?;
        let password = unescape(rest);
        (!password.is_empty()).then_some(password)
    })
}

/// Returns what follows the line's first field, if that is `*` or says what is wanted.
fn after_field<'line>(line: &'line str, wanted: &str) -> Option<&'line str> {
    if let Some(rest) = line.strip_prefix("*:") {
        return Some(rest);
    }
    let mut escaped = false;
    let end = line.find(|char: char| {
        let ends = char == ':' && !escaped;
        escaped = char == '\\' && !escaped;
        ends
    })?;
    (unescape(&line[..end]) == wanted).then(|| &line[end + 1..])
}

/// Takes the backslashes away that keep `:` and `\` from meaning anything.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        plain.push(if char == '\\' { chars.next().unwrap_or(char) } else { char });
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn the_first_line_that_fits_counts() {
        let rows: &[(&str, Option<&str>)] = &[
            ("", None),
            ("h:1:d:u:p", Some("p")),
            ("h:1:d:u:p\r\n", Some("p")),
            ("h:1:d:u:", None),
            ("h:1:d:u", None),
            ("h:2:d:u:p", None),
            ("H:1:d:u:p", None),
            ("x:1:d:u:wrong\nh:1:d:u:right\nh:1:d:u:late", Some("right")),
            ("*:*:*:*:any", Some("any")),
            ("*:1:*:u:p", Some("p")),
            ("**:1:d:u:p", None),
            ("#h:1:d:u:p", None),
            ("# a note\n\nh:1:d:u:p", Some("p")),
            (r"h:1:d:u:a\:b\\c:d", Some(r"a:b\c:d")),
            (r"h\::1:d:u:p", None),
            (r"h:1:d:u:*", Some("*")),
        ];
        for (text, password) in rows {
            assert_eq!(find(text, &["h", "1", "d", "u"]).as_deref(), *password, "{text:?}");
        }
        assert_eq!(find(r"\:\:1:1:d:u\\x:p", &["::1", "1", "d", r"u\x"]).as_deref(), Some("p"));
        assert_eq!(find("/run/pg:1:d:u:p", &["/run/pg", "1", "d", "u"]).as_deref(), Some("p"));
    }

    #[test]
    fn a_file_that_others_can_read_is_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pgpass");
        assert_eq!(password(&file, "h", 1, "d", "u"), None, "not there");
        fs::write(&file, "h:1:d:u:p\n").expect("written");
        for (mode, expected) in [(0o600, Some("p")), (0o400, Some("p")), (0o640, None), (0o604, None), (0o620, None)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).expect("changed");
            assert_eq!(password(&file, "h", 1, "d", "u").as_deref(), expected, "{mode:o}");
        }
        assert_eq!(password(folder.path(), "h", 1, "d", "u"), None, "a folder");
    }
}
