//! One verb a file: each takes parsed arguments, does its work by `domain`, `store`, `process` and `liveness`, and
//! returns the exit code.

mod agreeing;
mod asking;
mod clear;
mod completions;
mod doctor;
mod emit;
mod environment;
mod finding;
mod group;
mod key;
mod list;
mod mark;
mod pending;
mod policed;
mod policy;
mod prune;
mod reconcile;
mod resolve;
mod run;
mod settle;
mod show;
mod stats;

use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};

use crate::cli::{Parsed, Verb};
use crate::exit::{self, Failure, Kind, Of};
use crate::ui::{self, Ui};

/// Does what the command line says. Returns the exit code.
pub fn dispatch(parsed: Parsed) -> u8 {
    let global = parsed.global;
    let result = match parsed.verb {
        // It answers its own errors: an envelope may be wanted on stdout and in a file.
        Verb::Run(args) => return run::run(&global, &args),
        Verb::Key(args) => key::key(&global, &args),
        Verb::List(args) => list::list(&global, &args),
        Verb::Show(args) => show::show(&global, &args),
        Verb::Clear(args) => clear::clear(&global, &args),
        Verb::Resolve(args) => resolve::resolve(&global, &args),
        Verb::Reconcile(args) => reconcile::reconcile(&global, &args),
        Verb::Prune(args) => prune::prune(&global, &args),
        Verb::Stats(args) => stats::stats(&global, &args),
        Verb::Doctor(args) => doctor::doctor(&global, &args),
        Verb::Mark(args) => mark::mark(&global, &args),
        Verb::Emit(args) => emit::emit(&global, &args),
        Verb::Completions(args) => completions::completions(&args),
        Verb::CompleteValues(args) => completions::values(&global, &args),
        Verb::Policy(args) => policy::policy(&global, &args),
    };
    result.unwrap_or_else(|error| say_failed(&Failure::from_error(error), Of::Other))
}

/// Says what went wrong. Returns its exit code.
fn say_failed(failure: &Failure, of: Of) -> u8 {
    Ui::new(false).error(&failure.message, failure.hint.as_deref());
    failure.kind.code(of)
}

/// Answers a command line that clap could not parse, or that asks for help. Returns the exit code.
pub fn not_parsed(args: &[OsString], error: &clap::Error) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A reader that went away (`| head`) has what it wanted.
        let _ = error.print();
        return exit::DONE;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return exit::USAGE;
    }
    let of =
        if args.iter().skip(1).take_while(|arg| *arg != "--").any(|arg| arg == "run") { Of::Run } else { Of::Other };
    let rendered = error.render().to_string();
    let rendered = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    let (message, usage) = rendered.split_once("\n\n").unwrap_or((rendered, ""));
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let failure = match of {
        Of::Run => Failure::new(Kind::Usage, format!("{message}; nothing was run")),
        Of::Other => Failure::new(Kind::Usage, message),
    };
    // Before `--` a word that isn't an option is where the command was to begin, and what clap would say of `--` makes an
    // option the command.
    let is_word = error.get(ContextKind::InvalidArg).is_some_and(|arg| !arg.to_string().starts_with('-'));
    let lacks_dashes = error.kind() == ErrorKind::UnknownArgument && is_word && args.iter().all(|arg| arg != "--");
    let dashes =
        (of == Of::Run && lacks_dashes).then(|| "put `--` before the command: `idem run … -- COMMAND`".to_owned());
    let useless = |line: &str| line.is_empty() || (of == Of::Run && line.starts_with("tip: to pass"));
    let usage = usage.lines().map(str::trim).filter(|line| !useless(line)).map(str::to_owned);
    let usage = dashes.into_iter().chain(usage).collect::<Vec<_>>().join("; ");
    let failure = if usage.is_empty() { failure } else { failure.hint(usage) };
    if of == Of::Run && wants_json(args) {
        let _ = ui::print(&crate::view::envelope::Envelope::of_failure(&failure).line());
    }
    say_failed(&failure, of)
}

fn wants_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}
