//! Recording of locks in one table, so that reviews find them.

use std::collections::BTreeMap;

use super::reading::TableState;
use super::request_queue::Ask;
use super::table::{Entry, LockTable, TableName};
use crate::model::names::LogicalCluster;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Query, QueryId, Send, Verb};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, response, unanswered};

/// The most attempts to write a table that others write at the same time.
const MAX_TRIES: u32 = 16;

/// The entries that a review must record in one table before its lock is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct TableNote {
    /// The logical cluster of the table; `None` on plain Kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// The table.
    pub table: TableName,
    /// The entries that the table must have.
    pub entries: Vec<Entry>,
}

/// The write of one table: a read, then a write by the version that was read. If that version was outdated, both are
/// repeated.
///
/// It writes the [notes](TableNote) of any number of reviews. Each note has its own result: a note for which there is
/// no room keeps no other note out.
#[derive(Debug)]
pub struct TableWrite {
    name: TableName,
    notes: Vec<Vec<Entry>>,
    /// The reasons why notes are not in the stored table, by note.
    refused: BTreeMap<usize, Unresolved>,
    tries: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Reading,
    Storing(Verb, LockTable),
    /// Another writer writes the table.
    Handed,
    Done,
    /// The end of a sentence.
    Failed(Unresolved),
    /// Another writer reported this failure, as a whole sentence.
    Reported(Unresolved),
}

/// The next request.
pub(super) enum Step {
    Get(String),
    Send(Verb, String, Vec<u8>),
}

impl TableWrite {
    /// Begins to write these notes.
    pub fn new(name: TableName, notes: Vec<Vec<Entry>>) -> Self {
        Self { name, notes, refused: BTreeMap::new(), tries: 0, state: State::Reading }
    }

    /// Returns the next request, for this logical cluster; `None` if the write has ended.
    pub fn ask(&self, cluster: Option<&LogicalCluster>) -> Option<Ask> {
        let (id, cluster) = (QueryId(0), cluster.cloned());
        Some(match self.next()? {
            Step::Get(path) => Ask::Get(Query { id, cluster, export: None, path, accept: Accept::Json }),
            Step::Send(verb, path, body) => Ask::Send(Send { id, cluster, verb, path, body }),
        })
    }

    /// Takes the answer to the last request.
    pub fn answer(&mut self, answer: Answer<'_>) {
        let verb = match &self.state {
            State::Reading => {
                self.state = self.read(answer);
                return;
            }
            State::Storing(verb, _) => *verb,
            State::Handed | State::Done | State::Failed(_) | State::Reported(_) => return,
        };
        self.state = match response(answer) {
            Ok((200 | 201, _)) => State::Done,
            // Another writer wrote, created or deleted the table first.
            Ok((status, _)) if status == 409 || (status == 404 && verb == Verb::Replace) => {
                self.tries += 1;
                match self.tries < MAX_TRIES {
                    true => State::Reading,
                    false => State::Failed(Unresolved::new(
                        Cause::Contended,
                        "failed: other writers changed the table each time; retry later",
                    )),
                }
            }
            Ok((404, _)) => State::Failed(not_served()),
            Ok((status, body)) => {
                State::Failed(failure(status, body, "create and update locktables of dependencies.opendefense.cloud"))
            }
            Err(why) => State::Failed(why),
        };
    }

    /// Returns `Ok` if the note of this number is in the table. The error is a whole sentence.
    pub fn outcome(&self, note: usize) -> Result<(), Unresolved> {
        let why = match (&self.state, self.refused.get(&note)) {
            (State::Done, None) => return Ok(()),
            (State::Reported(why), _) => return Err(why.clone()),
            (State::Done | State::Storing(..), Some(why)) | (State::Failed(why), _) => why.clone(),
            (State::Reading | State::Storing(..) | State::Handed, _) => unanswered(),
        };
        Err(why.about(format_args!("the write of LockTable {}", self.name)))
    }

    /// Returns the next request; `None` if the write has ended.
    pub(super) fn next(&self) -> Option<Step> {
        match &self.state {
            State::Reading => Some(Step::Get(self.name.path())),
            State::Storing(verb, table) => {
                let path = match verb {
                    Verb::Create => TableName::collection(),
                    Verb::Replace | Verb::Merge => self.name.path(),
                };
                Some(Step::Send(*verb, path, table.to_value().to_string().into_bytes()))
            }
            State::Handed | State::Done | State::Failed(_) | State::Reported(_) => None,
        }
    }

    /// Hands the write over to another writer, who [reports](Self::noted) the result. `None` unless the table is
    /// still to be read.
    pub(super) fn hand_over(&mut self) -> Option<(TableName, Vec<Entry>)> {
        if !matches!(self.state, State::Reading) {
            return None;
        }
        self.state = State::Handed;
        Some((self.name.clone(), self.notes.iter().flatten().cloned().collect()))
    }

    /// Takes the result of a write that was handed over.
    pub(super) fn noted(&mut self, table: &TableName, outcome: &Result<(), Unresolved>) {
        if self.name == *table && matches!(self.state, State::Handed) {
            self.state = match outcome {
                Ok(()) => State::Done,
                Err(why) => State::Reported(why.clone()),
            };
        }
    }

    fn read(&mut self, answer: Answer<'_>) -> State {
        match TableState::from_answer(&self.name, answer) {
            TableState::Absent => self.store(Verb::Create, &LockTable::new(&self.name)),
            TableState::Known(table) => self.store(Verb::Replace, &table),
            TableState::NotServed => State::Failed(not_served()),
            TableState::Broken(error) => {
                let why = format!("was answered with {error}; delete the table, and try again");
                State::Failed(Unresolved::new(Cause::LockTableUnusable, why))
            }
            TableState::Unread(why) => State::Failed(why),
        }
    }

    /// Returns the table with all notes, or with each note for which there is room.
    fn store(&mut self, verb: Verb, table: &LockTable) -> State {
        self.refused.clear();
        let all: Vec<Entry> = self.notes.iter().flatten().cloned().collect();
        if let Ok(table) = table.with(&all) {
            return State::Storing(verb, table);
        }
        let mut fuller = None;
        for (note, entries) in self.notes.iter().enumerate() {
            match fuller.as_ref().unwrap_or(table).with(entries) {
                Ok(table) => fuller = Some(table),
                Err(full) => {
                    let why = Unresolved::new(Cause::LockTableUnusable, format!("is refused: {full}"));
                    self.refused.insert(note, why);
                }
            }
        }
        fuller.map_or(State::Done, |table| State::Storing(verb, table))
    }
}

fn not_served() -> Unresolved {
    let why = "failed: the API server does not serve locktables; apply the manifests of locks";
    Unresolved::new(Cause::KindNotServed, why)
}
