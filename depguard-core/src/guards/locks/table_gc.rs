//! Ages of table entries that no lock needs, for the cleaning of tables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::table::{Entry, LockTable, TableName};
use crate::model::names::Namespace;

/// The time for which an entry must be missed and unchanged before its lock is read to clean the table. It is longer
/// than any request to an API server, and longer than any review.
///
/// Admission writes the entry before the lock is stored, so a read of the lock in between finds none. In addition, a
/// review reads one table after another: one lock may be stored after the read of the first table, and another lock
/// may be deleted before the read of the second. As long as the entry of the deleted lock stays, the review sees a
/// change and looks again.
pub const CLEAN_AFTER: Duration = Duration::from_secs(5 * 60);

/// The time since which each entry has been missed, with its revision.
#[derive(Debug, Clone)]
pub struct TableGc {
    after: Duration,
    seen: BTreeMap<TableName, MissedEntries>,
}

#[derive(Debug, Clone, Default)]
struct MissedEntries {
    /// The UID of the table: a table that was deleted and created again restarts its revisions.
    uid: Option<String>,
    /// The missed entries, by lock and namespace: the revision, and the time since which the entry has been missed.
    entries: BTreeMap<(String, Option<Namespace>), (u64, Duration)>,
}

impl TableGc {
    /// Creates the ages. An entry may be cleaned once it has been missed for that time; see [`CLEAN_AFTER`].
    pub fn new(after: Duration) -> Self {
        Self { after, seen: BTreeMap::new() }
    }

    /// Records the stored state of a table, and its entries that no known lock needs. Returns the entries that have
    /// been missed without a change for long enough. For each of them, the caller must read the lock *now*, and then
    /// [clean](LockTable::cleaned) the table in the state given here, by its `resourceVersion`.
    ///
    /// `now` is the caller's time, from any clock that never goes back.
    pub fn ripe(&mut self, table: &LockTable, now: Duration, is_missed: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let before = self.seen.remove(table.name()).unwrap_or_default();
        let is_same = before.uid.is_some() && before.uid.as_deref() == table.uid();
        let mut seen = MissedEntries { uid: table.uid().map(str::to_owned), entries: BTreeMap::new() };
        let mut ripe = Vec::new();
        for entry in table.entries().filter(|entry| is_missed(entry)) {
            let key = (entry.lock.clone(), entry.namespace.clone());
            let since = match before.entries.get(&key) {
                Some((revision, since)) if is_same && *revision == entry.revision => *since,
                _ => now,
            };
            if table.uid().is_some() && now.saturating_sub(since) >= self.after {
                ripe.push(entry.clone());
            }
            seen.entries.insert(key, (entry.revision, since));
        }
        self.seen.insert(table.name().clone(), seen);
        ripe
    }

    /// Forgets all other tables.
    pub fn keep_only(&mut self, tables: &BTreeSet<TableName>) {
        self.seen.retain(|name, _| tables.contains(name));
    }
}
