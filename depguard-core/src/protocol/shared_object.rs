//! Write of notes to one shared object: a read, then a write by the version that was read.
//!
//! Evaluations leave notes in small objects of depguard's own, which several replicas write at the same time. Such an
//! object is never written unread: each note is judged against the object as it will be written, and the API server
//! refuses the write if another writer was faster.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::marker;

use crate::model::names::LogicalCluster;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Ask, Query, QueryId, Send, Verb};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, is_object_missing, response, something_else, unanswered};

/// The most attempts to write an object that others write at the same time.
const MAX_TRIES: u32 = 16;

/// Object of depguard's own in which evaluations leave notes: its schema, and what a note does to it.
pub trait SharedObject: Clone + marker::Send + Sync + 'static {
    /// Identity of the object, which prints its name.
    type Name: Clone + Debug + Display + Ord + Hash + marker::Send + Sync + 'static;
    /// Wish of one evaluation.
    type Note: Clone + Debug + PartialEq + marker::Send + Sync + 'static;
    /// Result of a note.
    type Outcome: Clone + Debug + Ord + Hash + marker::Send + Sync + 'static;

    /// The kind.
    const KIND: &'static str;
    /// The resource.
    const PLURAL: &'static str;
    /// The rights that a writer needs.
    const RIGHTS: &'static str;
    /// The end of a sentence about an API server that doesn't serve the kind.
    const NOT_SERVED: &'static str;

    /// Returns the path of all objects of the kind.
    fn collection() -> String;

    /// Reads an object as an API server returns it. An error is the end of a sentence.
    fn from_stored(body: &[u8]) -> Result<Self, Unresolved>;

    /// Creates the object where it is absent. An error is the end of a sentence: another program creates it.
    fn absent(name: &Self::Name) -> Result<Self, Unresolved>;

    /// Returns the object's name.
    fn name(&self) -> &Self::Name;

    /// Returns true if the object was read from an API server.
    fn is_stored(&self) -> bool;

    /// Returns the object to write, and the outcome of each note for the case that the write succeeds. `None`: nothing
    /// needs to be written, and the outcomes hold.
    fn with_notes(&self, notes: &[Self::Note]) -> (Option<Self>, Vec<Self::Outcome>);

    /// Returns the body of a write.
    fn to_body(&self) -> Vec<u8>;

    /// Creates the outcome of a note that could not be written, for this reason: a whole sentence. With
    /// `is_unknown` the note may be written all the same, now or later.
    fn failed(why: Unresolved, is_unknown: bool) -> Self::Outcome;

    /// Adds what the object is to the reason of an outcome.
    fn about(outcome: Self::Outcome, sentence: impl FnOnce(Unresolved) -> Unresolved) -> Self::Outcome;
}

/// Write of the notes of any number of evaluations to one shared object. If the version that was read is outdated, or
/// the answer to the write is lost, the write begins anew; after 16 attempts it fails.
///
/// Carry out each [request](Self::request), pass on the [answer](Self::answer), and repeat that until no request is left.
/// Then each note has an [outcome](Self::outcome).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedWrite<T: SharedObject> {
    name: T::Name,
    notes: Vec<T::Note>,
    tries: u32,
    /// The reason why the result of an earlier attempt is unknown.
    unknown: Option<Unresolved>,
    state: State<T>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum State<T: SharedObject> {
    Reading,
    /// The object to write, and the outcomes if the write succeeds.
    Writing(T, Vec<T::Outcome>),
    Done(Vec<T::Outcome>),
    Failed(Unresolved),
}

/// Request of a [`SharedWrite`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller handles each variant")]
pub enum WriteStep<'a, T: SharedObject> {
    /// GET of the object, sent after the write began.
    Read(&'a T::Name),
    /// PUT of the object by its `resourceVersion`, or its creation.
    Write(&'a T),
}

/// Answer to the GET of a shared object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a GET ends in one of these ways")]
pub enum StoredRead<T> {
    /// The stored object.
    Stored(Box<T>),
    /// The object doesn't exist.
    Absent,
    /// The object could not be read, or not understood, for this reason: the end of a sentence.
    Unknown(Unresolved),
}

/// Answer to the write of a shared object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a write ends in one of these ways")]
pub enum WriteResult {
    /// The object was stored.
    Stored,
    /// The object was not stored and never will be: another version is stored, or none.
    Conflict,
    /// The object was not stored and never will be, for this reason: the end of a sentence.
    Refused(Unresolved),
    /// It is unknown if the object was or will be stored, for this reason: the end of a sentence.
    Unknown(Unresolved),
}

impl<T: SharedObject> SharedWrite<T> {
    /// Begins to write these notes.
    pub fn new(name: T::Name, notes: Vec<T::Note>) -> Self {
        Self { name, notes, tries: 0, unknown: None, state: State::Reading }
    }

    /// Returns the request without an answer; `None` if the write has ended.
    pub fn step(&self) -> Option<WriteStep<'_, T>> {
        match &self.state {
            State::Reading => Some(WriteStep::Read(&self.name)),
            State::Writing(object, _) => Some(WriteStep::Write(object)),
            State::Done(_) | State::Failed(_) => None,
        }
    }

    /// Returns the request without an answer, for this logical cluster. A GET must be a consistent read, and is never
    /// shared.
    pub fn request(&self, cluster: Option<&LogicalCluster>) -> Option<Ask> {
        let (id, cluster) = (QueryId(0), cluster.cloned());
        Some(match self.step()? {
            WriteStep::Read(name) => {
                Ask::Get(Query { id, cluster, export: None, path: path::<T>(name), accept: Accept::Json })
            }
            WriteStep::Write(object) => {
                let (verb, path) = match object.is_stored() {
                    true => (Verb::Replace, path::<T>(object.name())),
                    false => (Verb::Create, T::collection()),
                };
                Ask::Send(Send { id, cluster, verb, path, body: object.to_body() })
            }
        })
    }

    /// Returns the name and the notes, if the object is still to be read.
    #[cfg(feature = "locks")]
    pub(crate) fn unread(&self) -> Option<(&T::Name, &[T::Note])> {
        matches!(self.state, State::Reading).then_some((&self.name, &self.notes))
    }

    /// Takes the answer to the request.
    pub fn answer(&mut self, answer: Answer<'_>) {
        match self.step() {
            Some(WriteStep::Read(name)) => self.read(read(name, answer)),
            Some(WriteStep::Write(object)) => self.written(written(object, answer)),
            None => {}
        }
    }

    /// Takes the answer to the GET.
    pub fn read(&mut self, answer: StoredRead<T>) {
        if !matches!(self.state, State::Reading) {
            return;
        }
        let object = match answer {
            StoredRead::Stored(object) if *object.name() == self.name => Ok(*object),
            StoredRead::Stored(_) => Err(something_else()),
            StoredRead::Absent => T::absent(&self.name),
            StoredRead::Unknown(why) => Err(why),
        };
        self.state = match object.map(|object| object.with_notes(&self.notes)) {
            Ok((Some(next), outcomes)) => State::Writing(next, outcomes),
            Ok((None, outcomes)) => State::Done(outcomes),
            Err(why) => State::Failed(why),
        };
    }

    /// Takes the answer to the write.
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
        // The next read shows if the notes are written. Until then nobody knows.
        if let WriteResult::Unknown(why) = result {
            self.unknown = Some(why);
        }
    }

    /// Returns true if each note was judged, and the notes that were recorded are stored.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// Returns the outcome of the note with this number.
    pub fn outcome(&self, note: usize) -> T::Outcome {
        let why = match &self.state {
            State::Done(outcomes) => match outcomes.get(note) {
                Some(outcome) => return T::about(outcome.clone(), |why| self.sentence(why)),
                None => unanswered(),
            },
            State::Reading | State::Writing(..) => unanswered(),
            State::Failed(why) => why.clone(),
        };
        T::failed(self.sentence(why), matches!(self.state, State::Writing(..)) || self.unknown.is_some())
    }

    fn sentence(&self, why: Unresolved) -> Unresolved {
        why.about(format_args!("the write of {} {}", T::KIND, self.name))
    }
}

const CONFLICT: &str = "failed: others changed it each time; retry later";

fn path<T: SharedObject>(name: &T::Name) -> String {
    format!("{}/{name}", T::collection())
}

fn read<T: SharedObject>(name: &T::Name, answer: Answer<'_>) -> StoredRead<T> {
    match response(answer) {
        Ok((200, body)) => match T::from_stored(body) {
            Ok(object) => StoredRead::Stored(Box::new(object)),
            Err(why) => StoredRead::Unknown(why),
        },
        Ok((404, body)) if is_object_missing(body, T::PLURAL, &name.to_string()) => StoredRead::Absent,
        Ok((404, _)) => StoredRead::Unknown(Unresolved::new(Cause::KindNotServed, T::NOT_SERVED)),
        Ok((status, body)) => StoredRead::Unknown(failure(status, body, T::RIGHTS)),
        Err(why) => StoredRead::Unknown(why),
    }
}

fn written<T: SharedObject>(object: &T, answer: Answer<'_>) -> WriteResult {
    match response(answer) {
        Ok((200 | 201, _)) => WriteResult::Stored,
        // Another version is stored, or none: the next read shows which.
        Ok((409, _)) => WriteResult::Conflict,
        Ok((404, _)) if object.is_stored() => WriteResult::Conflict,
        Ok((404, _)) => WriteResult::Refused(Unresolved::new(Cause::KindNotServed, T::NOT_SERVED)),
        Ok((status @ (400 | 401 | 403 | 405 | 413 | 415 | 422), body)) => {
            WriteResult::Refused(failure(status, body, T::RIGHTS))
        }
        Ok((status, body)) => WriteResult::Unknown(failure(status, body, T::RIGHTS)),
        Err(why) => WriteResult::Unknown(why),
    }
}
