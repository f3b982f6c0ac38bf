//! `idem policy`: what is wrong with the operator's policy, and what applies to a tool.

use super::policed;
use crate::cli::{Global, PolicyArgs, PolicyCheckArgs, PolicyShowArgs, PolicyVerb};
use crate::exit::{self, Failure, Kind};
use crate::policy::{self, PolicyError, PolicyPlace};
use crate::ui;
use crate::view::policy as view;

/// Does what `idem policy` is asked for.
pub(super) fn policy(global: &Global, args: &PolicyArgs) -> anyhow::Result<u8> {
    match &args.verb {
        PolicyVerb::Check(args) => check(global, args),
        PolicyVerb::Show(args) => show(global, args),
    }
}

/// Prints every problem with its line; exit code 1 where there are some.
fn check(global: &Global, args: &PolicyCheckArgs) -> anyhow::Result<u8> {
    let place = policed::place(global, args.path.as_ref())?;
    match policy::load(&place) {
        Ok(Some(policy)) => {
            ui::print(&view::sound(&place.path, &policy))?;
            Ok(exit::DONE)
        }
        Ok(None) => Err(none(&place).into()),
        Err(PolicyError::Wrong(path, problems)) => {
            ui::print(&view::problems(&path, &problems))?;
            Ok(exit::NOTHING)
        }
        Err(error @ (PolicyError::ForeignOwner(_) | PolicyError::WritableByOthers(_))) => {
            // A run would refuse it: a problem of the file as much as one within.
            Err(Failure::new(Kind::Refused, error.to_string()).hint(error.hint()).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Prints what applies to a tool, and from where.
fn show(global: &Global, args: &PolicyShowArgs) -> anyhow::Result<u8> {
    let place = policed::place(global, None)?;
    let Some(policy) = policy::load(&place)? else { return Err(none(&place).into()) };
    let rules = policy.rules_for(&args.tool);
    let rules = rules.map_err(|problem| PolicyError::Wrong(place.path.clone(), vec![problem]))?;
    let shown = if args.json {
        view::json(&args.tool, &place.path, &rules)
    } else {
        view::table(&args.tool, &place.path, &rules)
    };
    ui::print(&shown)?;
    Ok(exit::DONE)
}

fn none(place: &PolicyPlace) -> Failure {
    Failure::new(Kind::Nothing, format!("there is no policy {}: calls are as their options say", place.path.display()))
}
