//! How locks are recorded in one table, so that they will be found.

use std::collections::BTreeMap;

use super::desk::{Ask, Send, Verb};
use super::reading::TableState;
use super::table::{Entry, LockTable, TableName};
use crate::answers::{UNANSWERED, failure, response};
use crate::names::LogicalCluster;
use crate::query::{Accept, Answer, Query, QueryId};

/// How often somebody else may write the table between our read and our write.
const MOST_TRIES: u32 = 16;

/// What a review is to note in one table before its lock is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct TableNote {
    /// The logical cluster of the table; `None` in home kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// The table.
    pub table: TableName,
    /// What it must say.
    pub entries: Vec<Entry>,
}

/// The write of one table: a read, then a write by the version that was read, from the beginning where that was outdated.
///
/// It takes what any number of reviews have to [note](TableNote) there. Each is answered by itself: one for which there is
/// no room keeps no other out.
#[derive(Debug)]
pub struct TableWrite {
    name: TableName,
    notes: Vec<Vec<Entry>>,
    /// By note, why it is not in what is stored.
    refused: BTreeMap<usize, String>,
    tries: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Reading,
    Storing(Verb, LockTable),
    /// Somebody else writes it.
    Handed,
    Done,
    Failed(String),
}

/// What is to be sent next.
pub(super) enum Step {
    Get(String),
    Send(Verb, String, Vec<u8>),
}

impl TableWrite {
    /// Begins to write what each of these notes says.
    pub fn new(name: TableName, notes: Vec<Vec<Entry>>) -> Self {
        Self { name, notes, refused: BTreeMap::new(), tries: 0, state: State::Reading }
    }

    /// What is to be sent next, to this logical cluster; `None`: it has ended.
    pub fn ask(&self, cluster: Option<&LogicalCluster>) -> Option<Ask> {
        let (id, cluster) = (QueryId(0), cluster.cloned());
        Some(match self.next()? {
            Step::Get(path) => Ask::Get(Query { id, cluster, export: None, path, accept: Accept::Json }),
            Step::Send(verb, path, body) => Ask::Send(Send { id, cluster, verb, path, body }),
        })
    }

    /// Takes the answer to what was asked last.
    pub fn answer(&mut self, answer: Answer<'_>) {
        let verb = match &self.state {
            State::Reading => {
                self.state = self.read(answer);
                return;
            }
            State::Storing(verb, _) => *verb,
            State::Handed | State::Done | State::Failed(_) => return,
        };
        self.state = match response(answer) {
            Ok((200 | 201, _)) => State::Done,
            // Somebody else was faster: to write it, to make it, or to delete it.
            Ok((status, _)) if status == 409 || (status == 404 && verb == Verb::Replace) => {
                self.tries += 1;
                match self.tries < MOST_TRIES {
                    true => State::Reading,
                    false => State::Failed("was written by others again and again; retry later".to_owned()),
                }
            }
            Ok((404, _)) => State::Failed(NOT_SERVED.to_owned()),
            Ok((status, body)) => {
                State::Failed(failure(status, body, "create and update locktables of dependencies.opendefense.cloud"))
            }
            Err(why) => State::Failed(why),
        };
    }

    /// Whether the note of this number is in the table; else why not, as a whole sentence.
    pub fn outcome(&self, note: usize) -> Result<(), String> {
        let why = match (&self.state, self.refused.get(&note)) {
            (State::Done, None) => return Ok(()),
            (State::Done | State::Storing(..), Some(why)) | (State::Failed(why), _) => why.as_str(),
            (State::Reading | State::Storing(..) | State::Handed, _) => UNANSWERED,
        };
        Err(format!("the write of LockTable {} {why}", self.name))
    }

    /// What is to be sent next; `None`: it has ended.
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
            State::Handed | State::Done | State::Failed(_) => None,
        }
    }

    /// Leaves the write of what nothing was done about yet to somebody else, who [tells](Self::noted) what came of it.
    pub(super) fn hand_over(&mut self) -> Option<(TableName, Vec<Entry>)> {
        if !matches!(self.state, State::Reading) {
            return None;
        }
        self.state = State::Handed;
        Some((self.name.clone(), self.notes.iter().flatten().cloned().collect()))
    }

    /// Takes what came of what was handed over.
    pub(super) fn noted(&mut self, table: &TableName, outcome: &Result<(), String>) {
        if self.name == *table && matches!(self.state, State::Handed) {
            self.state = match outcome {
                Ok(()) => State::Done,
                Err(why) => State::Failed(why.clone()),
            };
        }
    }

    fn read(&mut self, answer: Answer<'_>) -> State {
        match TableState::of(&self.name, answer) {
            TableState::Absent => self.store(Verb::Create, &LockTable::new(&self.name)),
            TableState::Known(table) => self.store(Verb::Replace, &table),
            TableState::NotServed => State::Failed(NOT_SERVED.to_owned()),
            TableState::Broken(error) => {
                State::Failed(format!("was answered with {error}; delete the table, and try again"))
            }
            TableState::Unread(why) => State::Failed(why),
        }
    }

    /// The table with all notes, or with each for which there is room.
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
                Err(full) => _ = self.refused.insert(note, format!("is refused: {full}")),
            }
        }
        fuller.map_or(State::Done, |table| State::Storing(verb, table))
    }
}

const NOT_SERVED: &str = "failed, since no locktables are served: apply the manifests of locks";
