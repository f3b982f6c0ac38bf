//! What an arrival is answered: the exit code, the words, and the claim for the envelope.

use std::io;

use super::Arrival;
use crate::domain::claim::{Claim, Stream};
use crate::domain::event::EventKind;
use crate::exit::{self, NoResult};
use crate::process::Outlet;
use crate::view::envelope::{Envelope, ErrorFields, Output};
use crate::view::words::{self, Words};

/// An arrival's answer.
pub(super) struct Answer {
    pub(super) code: u8,
    pub(super) envelope: Envelope,
    pub(super) words: Words,
    /// How the words are said on stderr.
    pub(super) tone: Tone,
}

/// How an answer's words are said on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// Not at all: the envelope has them.
    Silent,
    /// As a note, which `--quiet` silences.
    Note,
    /// Always.
    Error,
    /// They were said already.
    Said,
}

impl Answer {
    /// Answers an owner whose output has said it all.
    pub(super) fn silent(code: u8) -> Answer {
        let words = Words { message: String::new(), hint: None };
        Answer { code, envelope: Envelope::default(), words, tone: Tone::Silent }
    }

    /// Answers an owner whose command ran and whose end is recorded.
    pub(super) fn ran(code: u8, claim: &Claim, words: Words, output: Option<Output>, tone: Tone) -> Answer {
        Answer::of(code, claim, words, output.or(Some(Output::default())), tone).with_advice()
    }

    /// Answers an owner whose command never started.
    pub(super) fn not_started(code: u8, claim: &Claim, words: Words) -> Answer {
        let kind = match code {
            exit::NOT_FOUND => NoResult::CommandNotFound,
            exit::NOT_EXECUTABLE => NoResult::CommandNotExecutable,
            exit::OWN => NoResult::System,
            _ => NoResult::Interrupted,
        };
        Answer::of(code, claim, words, Some(Output::default()), Tone::Error).with_error(kind)
    }

    /// Answers an owner whose end could not be recorded.
    pub(super) fn lost(code: u8, claim: Option<Claim>, words: Words, output: Option<Output>) -> Answer {
        Answer::not_recorded(code, claim, words, output).with_error(NoResult::Unrecorded)
    }

    /// Answers an owner whose end is kept until the store takes it.
    pub(super) fn pending(code: u8, claim: Option<Claim>, words: Words, output: Option<Output>) -> Answer {
        Answer::not_recorded(code, claim, words, output).with_error(NoResult::Pending)
    }

    fn not_recorded(code: u8, claim: Option<Claim>, words: Words, output: Option<Output>) -> Answer {
        match claim {
            Some(claim) => Answer::of(code, &claim, words, output, Tone::Error),
            None => Answer {
                code,
                envelope: Envelope {
                    message: words.message.clone(),
                    output: output.map(Into::into).unwrap_or_default(),
                    ..Envelope::default()
                },
                words,
                tone: Tone::Error,
            },
        }
    }

    /// Replays a claim: its note, then its output in order to the streams that it came from.
    pub(super) fn replay(arrival: &mut Arrival<'_>, claim: &Claim) -> anyhow::Result<Answer> {
        let words = words::replay(claim);
        // Before the output, so that it stands within no line of it.
        arrival.ui.note(&words.message);
        let mut outlets = arrival.outlets(Outlet::patient);
        let mut output = arrival.wants_output.then(Output::default);
        arrival.store.replay(claim.id, &arrival.actor, &mut |stream, bytes| {
            pass(&mut outlets, stream, bytes);
            if let Some(output) = &mut output {
                output.push(stream, bytes);
            }
            io::Result::Ok(())
        })??;
        arrival.ui.after_output(outlets[0].open_line(), outlets[1].open_line());
        for (outlet, name) in outlets.iter().zip(["stdout", "stderr"]) {
            if let Some(error) = outlet.failure() {
                let hint = format!("`idem show {} --{name}` prints it again", claim.id);
                arrival.ui.error(&format!("the replayed output could not be written to {name}: {error}"), Some(&hint));
            }
        }
        let code = claim.exit_status().and_then(|status| u8::try_from(status).ok()).unwrap_or(exit::OWN);
        let mut answer = Answer::of(code, claim, words, output, Tone::Said).with_advice();
        answer.envelope.idempotent = true;
        Ok(answer)
    }

    /// Answers 121.
    pub(super) fn held(arrival: &mut Arrival<'_>, claim: &Claim) -> Answer {
        let words = words::held(claim, &arrival.unknown(claim));
        Answer::turned_away(arrival, claim, (EventKind::Held, NoResult::Held), exit::HELD, words)
    }

    /// Answers an arrival that was told to end while it asked the target.
    pub(super) fn stopped(arrival: &mut Arrival<'_>, claim: &Claim, signal: i32) -> Answer {
        let code = u8::try_from(128 + signal).unwrap_or(exit::OWN);
        let output = arrival.recorded_output(claim);
        let words = words::stopped_while_asking(claim, signal);
        Answer::of(code, claim, words, output, Tone::Error).with_error(NoResult::Interrupted)
    }

    /// Answers 120.
    pub(super) fn busy(arrival: &mut Arrival<'_>, claim: &Claim, waited: bool) -> Answer {
        let words = words::busy(claim, waited);
        Answer::turned_away(arrival, claim, (EventKind::Busy, NoResult::Busy), exit::BUSY, words)
    }

    /// Answers 122.
    pub(super) fn mismatch(arrival: &mut Arrival<'_>, claim: &Claim) -> Answer {
        // Nothing of another command's result is given back.
        arrival.wants_group = false;
        arrival.log(claim, EventKind::Mismatch);
        let words = words::mismatch(claim);
        Answer::of(exit::MISMATCH, claim, words, None, Tone::Error).with_error(NoResult::Mismatch)
    }

    /// Answers a call that is inside itself.
    pub(super) fn inside_itself(arrival: &mut Arrival<'_>, claim: &Claim) -> Answer {
        let words = words::inside_itself(claim);
        Answer::turned_away(arrival, claim, (EventKind::InsideItself, NoResult::InsideItself), exit::OWN, words)
    }

    fn turned_away(
        arrival: &mut Arrival<'_>,
        claim: &Claim,
        (event, kind): (EventKind, NoResult),
        code: u8,
        words: Words,
    ) -> Answer {
        arrival.log(claim, event);
        let output = arrival.recorded_output(claim);
        Answer::of(code, claim, words, output, Tone::Error).with_error(kind)
    }

    fn of(code: u8, claim: &Claim, words: Words, output: Option<Output>, tone: Tone) -> Answer {
        Answer { code, envelope: Envelope::of_claim(claim, words.message.clone(), output), words, tone }
    }

    /// Puts what to do next into the envelope's message, where there is no error that has it as its hint.
    fn with_advice(mut self) -> Answer {
        if let Some(hint) = &self.words.hint {
            self.envelope.message = format!("{}; {hint}", self.words.message);
        }
        self
    }

    fn with_error(mut self, kind: NoResult) -> Answer {
        let Words { message, hint } = self.words.clone();
        self.envelope.error = Some(ErrorFields { kind: kind.as_str(), message, hint });
        self
    }
}

fn pass(outlets: &mut [Outlet; 2], stream: Stream, bytes: &[u8]) {
    match stream {
        Stream::Stdout => outlets[0].pass(bytes),
        Stream::Stderr => outlets[1].pass(bytes),
    }
}
