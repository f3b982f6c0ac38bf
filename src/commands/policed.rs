//! What the operator's policy makes of a call: options that it adds, and those that it doesn't let pass.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::{Global, Identity, RunArgs};
use crate::domain::canonical::Json;
use crate::domain::claim::Effect;
use crate::domain::policy::{Place, Rules, Stated, Weakening};
use crate::domain::size::Size;
use crate::exit::{Failure, Kind};
use crate::policy::{self, PolicyError, PolicyPlace};
use crate::settings;

/// A call's tool under the policy.
#[derive(Debug)]
pub(super) struct Policed {
    place: PolicyPlace,
    rules: Rules,
}

impl Policed {
    /// Reads the policy. `None`: there is none. A call without a tool, which is refused anyway, has the defaults.
    pub(super) fn of(global: &Global, tool: Option<&OsStr>) -> anyhow::Result<Option<Policed>> {
        let Some(place) = settings::policy(global)? else { return Ok(None) };
        let Some(policy) = policy::load(&place)? else { return Ok(None) };
        let rules = policy.rules_for(tool.and_then(OsStr::to_str).unwrap_or_default());
        let rules = rules.map_err(|problem| PolicyError::Wrong(place.path.clone(), vec![problem]))?;
        Ok(Some(Policed { place, rules }))
    }

    /// Returns the policy's path where it was named: steps of the call are under it too.
    pub(super) fn named_path(&self) -> Option<&Path> {
        self.place.named.then_some(&self.place.path)
    }

    /// Returns the options of a run under the policy.
    pub(super) fn run(&self, args: &RunArgs) -> anyhow::Result<RunArgs> {
        let stated = stated(args).under(&self.rules).map_err(|weakening| self.refusal(&weakening))?;
        Ok(with(args.clone(), stated))
    }

    /// Returns what identifies a call, under the policy.
    pub(super) fn identity(&self, identity: &Identity) -> anyhow::Result<Identity> {
        let stated = Stated { ignore_params: identity.ignore_param.clone(), ..Stated::default() };
        let stated = stated.under(&self.rules).map_err(|weakening| self.refusal(&weakening))?;
        Ok(Identity { ignore_param: stated.ignore_params, ..identity.clone() })
    }

    /// Fails where a param that the policy requires isn't there.
    pub(super) fn check_params(&self, params: &Json<'_>) -> anyhow::Result<()> {
        let Some((missing, place)) = self.rules.missing_param(params) else { return Ok(()) };
        let message = format!("the params have no {missing}, which the policy {} requires", self.at(place));
        Err(Failure::new(Kind::Policy, message).hint("call again with the whole params").into())
    }

    fn refusal(&self, weakening: &Weakening) -> Failure {
        let Weakening { option, key, said, place, why } = weakening;
        let message = format!("{option} would weaken the policy: {} says {key} = {said} for this tool", self.at(place));
        Failure::new(Kind::Policy, message)
            .hint(format!("{why}; call again without the option, or ask the person who keeps the policy"))
    }

    fn at(&self, place: &Place) -> String {
        format!("{}:{}", self.place.path.display(), place.line)
    }
}

/// What the arguments state.
fn stated(args: &RunArgs) -> Stated {
    let effect = match (args.local, args.external) {
        (_, true) => Some(Effect::External),
        (true, _) => Some(Effect::Local),
        _ => None,
    };
    Stated {
        effect,
        landed_exit: args.landed_exit.clone(),
        not_landed_exit: args.not_landed_exit.clone(),
        keep_failure: args.keep_failure,
        rerun_if_interrupted: args.rerun_if_interrupted,
        probe: args.probe.clone(),
        probe_delay: args.probe_delay,
        probe_timeout: args.probe_timeout,
        marks: args.marks,
        timeout: args.timeout,
        kill_after: args.kill_after,
        resend_within: args.resend_within,
        ttl: args.ttl,
        wait: args.wait.or(args.no_wait.then_some(Duration::ZERO)),
        ignore_params: args.identity.ignore_param.clone(),
        redact: args.redact.clone(),
        max_output: args.max_output.or(args.no_record_output.then_some(Size(0))),
        allow_command_change: args.allow_command_change,
    }
}

/// The arguments with what applies in the place of what they stated.
fn with(args: RunArgs, stated: Stated) -> RunArgs {
    RunArgs {
        identity: Identity { ignore_param: stated.ignore_params, ..args.identity },
        external: stated.effect == Some(Effect::External),
        landed_exit: stated.landed_exit,
        not_landed_exit: stated.not_landed_exit,
        keep_failure: stated.keep_failure,
        rerun_if_interrupted: stated.rerun_if_interrupted,
        probe: stated.probe,
        probe_delay: stated.probe_delay,
        probe_timeout: stated.probe_timeout,
        marks: stated.marks,
        timeout: stated.timeout,
        kill_after: stated.kill_after,
        resend_within: stated.resend_within,
        ttl: stated.ttl,
        wait: stated.wait.filter(|_| !args.no_wait),
        redact: stated.redact,
        max_output: stated.max_output.filter(|_| !args.no_record_output),
        allow_command_change: stated.allow_command_change,
        ..args
    }
}

/// Where a policy is that `idem policy` is asked about: named there, or the one that a run would use.
pub(super) fn place(global: &Global, path: Option<&PathBuf>) -> anyhow::Result<PolicyPlace> {
    if let Some(path) = path {
        return settings::named_policy(path);
    }
    settings::policy(global)?.ok_or_else(|| {
        let failure =
            Failure::new(Kind::Nothing, "there is no place for a policy: neither XDG_CONFIG_HOME nor HOME is set");
        failure.hint("name the file with --policy or IDEM_POLICY").into()
    })
}
