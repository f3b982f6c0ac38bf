//! Asking a person before something is changed (design §12, asking): for the commands that change claims on somebody's word.

use crate::exit;
use crate::ui::{self, Ui};

/// A change that is about to be made.
pub(super) struct Plan<'a> {
    /// What would be changed, a line each: `clear claim 4 (ada / demo-1 / mail), which is held`.
    pub(super) changes: &'a [String],
    /// What a person is asked.
    pub(super) question: &'a str,
    /// Whether a filter chose what is changed: nobody has named it.
    pub(super) by_filter: bool,
    /// `--yes`.
    pub(super) yes: bool,
    /// `--dry-run`.
    pub(super) dry_run: bool,
}

impl Plan<'_> {
    /// Asks, where somebody can be asked. `None`: go on; else nothing is to be changed, and this is the exit code.
    ///
    /// A name is agreement enough where nobody can be asked, a filter isn't.
    pub(super) fn agreed(&self) -> anyhow::Result<Option<u8>> {
        if self.dry_run {
            for change in self.changes {
                ui::print(&format!("would {change}\n"))?;
            }
            return Ok(Some(exit::DONE));
        }
        if self.yes {
            return Ok(None);
        }
        let ask = ui::can_ask();
        if !ask && !self.by_filter {
            return Ok(None);
        }
        let ui = Ui::new(false);
        for change in self.changes {
            ui.error(&format!("would {change}"), None);
        }
        if !ask {
            ui.error("a filter changes nothing without --yes; nothing was changed", None);
            return Ok(Some(exit::USAGE));
        }
        if ui::ask(&format!("idem: {}", self.question))? {
            return Ok(None);
        }
        ui.error("nothing was changed", None);
        Ok(Some(exit::NOTHING))
    }
}
