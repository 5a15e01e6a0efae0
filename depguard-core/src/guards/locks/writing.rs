//! Lock table as a [`SharedObject`]: locks are recorded in it, so that reviews find them.

use super::table::{Entry, KIND, LockTable, PLURAL, TableError, TableName};
use crate::model::names::LogicalCluster;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::response_error::something_else;
use crate::protocol::shared_object::{SharedObject, SharedWrite};

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

/// Write of the entries of any number of reviews to one table. A note for which there is no room keeps no other note out.
pub type TableWrite = SharedWrite<LockTable>;

impl SharedObject for LockTable {
    type Name = TableName;
    type Note = Vec<Entry>;
    type Outcome = Result<(), Unresolved>;

    const KIND: &'static str = KIND;
    const PLURAL: &'static str = PLURAL;
    const RIGHTS: &'static str = "get, create and update locktables of dependencies.opendefense.cloud";
    const NOT_SERVED: &'static str = "failed: the API server does not serve locktables; apply the manifests of locks";

    fn collection() -> String {
        TableName::collection()
    }

    fn from_stored(body: &[u8]) -> Result<Self, Unresolved> {
        Self::parse(body).map_err(|error| match error {
            TableError::Other => something_else(),
            error => {
                let why = format!("was answered with {error}; delete the table, and try again");
                Unresolved::new(Cause::LockTableUnusable, why)
            }
        })
    }

    fn absent(name: &TableName) -> Result<Self, Unresolved> {
        Ok(Self::new(name))
    }

    fn name(&self) -> &TableName {
        self.name()
    }

    fn is_stored(&self) -> bool {
        self.resource_version().is_some()
    }

    fn with_notes(&self, notes: &[Vec<Entry>]) -> (Option<Self>, Vec<Result<(), Unresolved>>) {
        if let Ok(table) = self.with(&notes.concat()) {
            return (Some(table), notes.iter().map(|_| Ok(())).collect());
        }
        let mut fuller = None;
        let outcomes = notes.iter().map(|entries| {
            let table = fuller.as_ref().unwrap_or(self).with(entries);
            table
                .map(|table| fuller = Some(table))
                .map_err(|full| Unresolved::new(Cause::LockTableUnusable, format!("is refused: {full}")))
        });
        let outcomes = outcomes.collect();
        (fuller, outcomes)
    }

    fn to_body(&self) -> Vec<u8> {
        self.to_value().to_string().into_bytes()
    }

    fn failed(why: Unresolved, _: bool) -> Result<(), Unresolved> {
        Err(why)
    }

    fn about(
        outcome: Result<(), Unresolved>,
        sentence: impl FnOnce(Unresolved) -> Unresolved,
    ) -> Result<(), Unresolved> {
        outcome.map_err(sentence)
    }
}
