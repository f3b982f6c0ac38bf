//! Which statement of idem's is which. The only place where these tests know what its SQL looks like.

/// The statement that claims.
pub(crate) fn claims(statement: &str) -> bool {
    has(statement, "insert into idem.claim ") || has(statement, "insert into idem.claim(")
}

/// The statement that records an attempt's end.
pub(crate) fn finishes(statement: &str) -> bool {
    has(statement, "update idem.claim") && has(statement, "finished_at") && !claims(statement)
}

/// Whatever the white space and the case.
fn has(statement: &str, words: &str) -> bool {
    let statement = statement.to_ascii_lowercase().replace('"', "");
    let statement = statement.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    format!("{statement} ").contains(words)
}
