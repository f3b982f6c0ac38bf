//! What is searched: who arrives with which options, and how much may go wrong.

use super::world::{Faults, Guard, Profile, REFUSED, Scenario, blank};
use idem::domain::arrival::Terms;
use idem::domain::claim::Effect;
use idem::domain::end::EndTerms;

/// A call without options.
pub(crate) const LOCAL: Profile = Profile {
    name: "local",
    terms: Terms {
        effect: Effect::Local,
        no_wait: false,
        allow_command_change: false,
        rerun_if_interrupted: false,
        probe: false,
    },
    marks: false,
    resend: false,
    host: 0,
};
pub(crate) const LOCAL_RERUN: Profile = Profile {
    name: "local --rerun-if-interrupted",
    terms: Terms { rerun_if_interrupted: true, ..LOCAL.terms },
    ..LOCAL
};
pub(crate) const LOCAL_NO_WAIT: Profile =
    Profile { name: "local --no-wait", terms: Terms { no_wait: true, ..LOCAL.terms }, ..LOCAL };
pub(crate) const LOCAL_PROBE: Profile =
    Profile { name: "local --probe", terms: Terms { probe: true, ..LOCAL.terms }, ..LOCAL };
pub(crate) const EXTERNAL: Profile =
    Profile { name: "--external", terms: Terms { effect: Effect::External, ..LOCAL.terms }, ..LOCAL };
pub(crate) const NO_WAIT: Profile =
    Profile { name: "--external --no-wait", terms: Terms { no_wait: true, ..EXTERNAL.terms }, ..LOCAL };
pub(crate) const PROBE: Profile =
    Profile { name: "--external --probe", terms: Terms { probe: true, ..EXTERNAL.terms }, ..LOCAL };
pub(crate) const MARKS: Profile = Profile { name: "--external --marks", marks: true, ..EXTERNAL };
pub(crate) const RESEND: Profile = Profile { name: "--external --resend-within", resend: true, ..EXTERNAL };
pub(crate) const PROBE_RESEND: Profile = Profile { name: "--external --probe --resend-within", resend: true, ..PROBE };
pub(crate) const MARKS_RESEND: Profile = Profile { name: "--external --marks --resend-within", resend: true, ..MARKS };
pub(crate) const PROBE_MARKS: Profile = Profile { name: "--external --probe --marks", marks: true, ..PROBE };
pub(crate) const LOCAL_MARKS: Profile = Profile { name: "local --marks", marks: true, ..LOCAL };

/// Every set of options that is searched.
pub(crate) const ALL: [Profile; 13] = [
    LOCAL,
    LOCAL_RERUN,
    LOCAL_NO_WAIT,
    LOCAL_PROBE,
    LOCAL_MARKS,
    EXTERNAL,
    NO_WAIT,
    PROBE,
    MARKS,
    RESEND,
    PROBE_RESEND,
    MARKS_RESEND,
    PROBE_MARKS,
];

/// Nothing goes wrong.
pub(crate) const NONE: Faults = Faults { deaths: 0, unseen: 0, words: 0, closed: 0, refusals: 0, time: false };

/// The same call on another host.
pub(crate) fn far(profile: Profile) -> Profile {
    Profile { host: 1, ..profile }
}

/// A search of a store in a file.
pub(crate) fn beside(profiles: &[Profile], faults: Faults) -> Scenario {
    let end = |profile: &Profile| EndTerms {
        effect: profile.terms.effect,
        landed_exit: Default::default(),
        not_landed_exit: REFUSED.to_string().parse().expect("a code"),
        keep_failure: false,
        marks: profile.marks,
    };
    Scenario {
        ends: profiles.iter().map(end).collect(),
        profiles: profiles.to_vec(),
        shared: false,
        faults,
        guard: None,
        blank: blank(),
    }
}

/// A search of a store that hosts share.
pub(crate) fn shared(profiles: &[Profile], faults: Faults) -> Scenario {
    Scenario { shared: true, ..beside(profiles, faults) }
}

impl Scenario {
    /// The same without one of the program's guards.
    pub(crate) fn without(self, guard: Guard) -> Scenario {
        Scenario { guard: Some(guard), ..self }
    }
}
