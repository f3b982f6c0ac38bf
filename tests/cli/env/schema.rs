//! The published schema of the envelope: every envelope that a test reads is held against it.

use std::path::Path;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

static VALIDATOR: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::draft202012::new(&envelope_schema()).expect("a schema that can be used"));

/// `docs/envelope.schema.json`.
pub(crate) fn envelope_schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/envelope.schema.json");
    let text = std::fs::read_to_string(path).expect("the schema");
    serde_json::from_str(&text).expect("JSON")
}

/// What the schema has against an envelope; nothing where it fits.
pub(crate) fn objections(envelope: &Value) -> Vec<String> {
    VALIDATOR.iter_errors(envelope).map(|error| format!("{error:?}")).collect()
}

/// Fails unless the envelope is as its schema says.
#[track_caller]
pub(crate) fn fits_schema(envelope: &Value) {
    let objections = objections(envelope);
    assert!(objections.is_empty(), "docs/envelope.schema.json: {}\n{envelope:#}", objections.join("\n"));
}
