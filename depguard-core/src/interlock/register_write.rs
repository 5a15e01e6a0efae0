//! Write of notes to one register: a read, then a write by the version that was read.

use super::note::{Note, Outcome};
use super::object_key::RegisterName;
use super::register::Register;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::response_error::{something_else, unanswered};

/// The most attempts to write a register that others write at the same time.
const MAX_TRIES: u32 = 16;

/// Write of the [notes](Note) of any number of evaluations to one register. If the version that was read is outdated,
/// the write begins anew; after 16 attempts it fails.
///
/// Carry out each [step](Self::step), pass on the answer, and repeat that until no step is left. Then each note has an
/// [outcome](Self::outcome).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisterWrite {
    name: RegisterName,
    notes: Vec<Note>,
    tries: u32,
    /// The reason why the result of an earlier attempt is unknown.
    unknown: Option<Unresolved>,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum State {
    Reading,
    /// The register to write, and the outcomes if the write succeeds.
    Writing(Register, Vec<Outcome>),
    Done(Vec<Outcome>),
    Failed(Unresolved),
}

/// Request of a [`RegisterWrite`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller handles each variant")]
pub enum RegisterStep<'a> {
    /// GET of the register, sent after the write began.
    Read(RegisterName),
    /// PUT of the register, by its `resourceVersion`.
    Write(&'a Register),
}

/// Answer to the GET of a register.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a GET ends in one of these ways")]
pub enum RegisterRead {
    /// The stored register.
    Stored(Box<Register>),
    /// The register doesn't exist. Only the controller creates it.
    Absent,
    /// The register could not be read, or not understood, for this reason: the end of a sentence.
    Unknown(Unresolved),
}

/// Answer to the PUT of a register.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a PUT ends in one of these ways")]
pub enum WriteResult {
    /// The register was stored.
    Stored,
    /// The register was not stored and never will be: it has another version, or doesn't exist.
    Conflict,
    /// The register was not stored and never will be, for this reason: the end of a sentence.
    Refused(Unresolved),
    /// It is unknown if the register was or will be stored, for this reason: the end of a sentence.
    Unknown(Unresolved),
}

impl RegisterWrite {
    /// Begins to record these notes.
    pub fn new(name: RegisterName, notes: Vec<Note>) -> Self {
        Self { name, notes, tries: 0, unknown: None, state: State::Reading }
    }

    /// Returns the request without an answer; `None` if the write has ended.
    pub fn step(&self) -> Option<RegisterStep<'_>> {
        match &self.state {
            State::Reading => Some(RegisterStep::Read(self.name)),
            State::Writing(register, _) => Some(RegisterStep::Write(register)),
            State::Done(_) | State::Failed(_) => None,
        }
    }

    /// Takes the answer to the GET.
    pub fn read(&mut self, answer: RegisterRead) {
        if !matches!(self.state, State::Reading) {
            return;
        }
        self.state = match answer {
            RegisterRead::Stored(register) if register.name() == self.name => match register.with(&self.notes) {
                (Some(next), outcomes) => State::Writing(next, outcomes),
                (None, outcomes) => State::Done(outcomes),
            },
            RegisterRead::Stored(_) => State::Failed(something_else()),
            RegisterRead::Absent => State::Failed(Unresolved::new(Cause::ReadFailed, ABSENT)),
            RegisterRead::Unknown(why) => State::Failed(why),
        };
    }

    /// Takes the answer to the PUT.
    pub fn written(&mut self, result: WriteResult) {
        let State::Writing(_, outcomes) = &mut self.state else { return };
        self.tries += 1;
        self.state = match result {
            WriteResult::Stored => State::Done(std::mem::take(outcomes)),
            WriteResult::Conflict | WriteResult::Unknown(_) if self.tries < MAX_TRIES => State::Reading,
            WriteResult::Refused(ref why) => State::Failed(why.clone()),
            WriteResult::Conflict => State::Failed(Unresolved::new(Cause::Contended, CONFLICT)),
            WriteResult::Unknown(ref why) => State::Failed(why.clone()),
        };
        // The next read shows if the note is recorded. Until then nobody knows.
        if let WriteResult::Unknown(why) = result {
            self.unknown = Some(why);
        }
    }

    /// Returns the outcome of the note with this number.
    pub fn outcome(&self, note: usize) -> Outcome {
        let why = match &self.state {
            State::Done(outcomes) => match outcomes.get(note) {
                Some(Outcome::Failed(why)) => return Outcome::Failed(self.sentence(why.clone())),
                Some(outcome) => return outcome.clone(),
                None => unanswered(),
            },
            State::Reading | State::Writing(..) => unanswered(),
            State::Failed(why) => why.clone(),
        };
        let why = self.sentence(why);
        match (&self.state, &self.unknown) {
            (State::Writing(..), _) | (_, Some(_)) => Outcome::Unknown(why),
            (_, None) => Outcome::Failed(why),
        }
    }

    fn sentence(&self, why: Unresolved) -> Unresolved {
        why.about(format_args!("the write of ReferenceRegister {}", self.name))
    }
}

const ABSENT: &str = "found no such register; the controller makes one anew";
const CONFLICT: &str = "failed: others changed the register each time; retry later";
