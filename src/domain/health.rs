//! What a look at a store's health found.

use super::store::StoreError;

/// How a finding is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Fine,
    /// Worth knowing.
    Note,
    /// Somebody should do something.
    Attention,
    /// The store can't be used at all.
    Unusable,
}

impl Level {
    /// Returns the level's word, as the JSON spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Fine => "fine",
            Level::Note => "note",
            Level::Attention => "attention",
            Level::Unusable => "unusable",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in one word.
    pub check: &'static str,
    /// How it is to be taken.
    pub level: Level,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Finding {
    /// Makes a finding without anything to do.
    pub fn new(check: &'static str, level: Level, message: impl Into<String>) -> Finding {
        Finding { check, level, message: message.into(), hint: None }
    }

    /// Makes one that is as it should be.
    pub fn fine(check: &'static str, message: impl Into<String>) -> Finding {
        Finding::new(check, Level::Fine, message)
    }

    /// Makes one that somebody should do something about.
    pub fn attention(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding::new(check, Level::Attention, message).hint(hint)
    }

    /// Makes one of the reason why a store can't be used.
    pub fn unusable(error: &StoreError) -> Finding {
        Finding::new("store", Level::Unusable, error.to_string()).hint(error.hint())
    }

    /// Adds what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Finding {
        self.hint = Some(hint.into());
        self
    }
}

/// How much of a store is read to see whether it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// All of it.
    Full,
    /// All pages, but not the indexes against their rows.
    Quick,
    /// Nothing.
    None,
}
