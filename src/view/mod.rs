//! A claim as others see it: the JSON envelope, the table, the story, the sentences. Returns text and writes none.

pub mod care;
pub mod columns;
pub mod envelope;
pub mod escape;
pub mod findings;
pub mod group;
pub mod history;
pub mod policy;
pub mod story;
pub mod table;
pub mod words;
