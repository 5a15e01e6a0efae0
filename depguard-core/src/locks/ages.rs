//! For how long no lock has asked for entries of tables, for whoever cleans tables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::table::{Entry, LockTable, TableName};
use crate::names::Namespace;

/// How long an entry must have been missed, and unchanged, before it may be asked whether its lock is there: longer than any
/// request to an API server lives, and any review.
///
/// Admission writes the entry before the lock is stored. Whoever looks for the lock in between finds none. And a review
/// reads one table after another: one lock may come after the first was read, and another one go before the second is.
/// While that one's entry stays, the review sees that something changed, and looks again.
pub const CLEAN_AFTER: Duration = Duration::from_secs(5 * 60);

/// Since when each entry has been missed, with the revision that it has.
#[derive(Debug, Clone)]
pub struct Ages {
    after: Duration,
    seen: BTreeMap<TableName, Seen>,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    /// A table that was deleted and made anew counts its revisions from the beginning.
    uid: Option<String>,
    /// Those that are missed, by lock and namespace: the revision, and since when.
    entries: BTreeMap<(String, Option<Namespace>), (u64, Duration)>,
}

impl Ages {
    /// Lets an entry be cleaned that was missed for so long; see [`CLEAN_AFTER`].
    pub fn new(after: Duration) -> Self {
        Self { after, seen: BTreeMap::new() }
    }

    /// Takes note of a table as it is stored now, and of its entries for which no lock is seen that asks for them. Says which
    /// have been missed, and as they are, for long enough: for each, the lock is to be read *now*, and the table then [cleaned](LockTable::cleaned) as it was given here, by its
    /// `resourceVersion`.
    ///
    /// `now` is the time of any clock that never goes back, and is the caller's own.
    pub fn ripe(&mut self, table: &LockTable, now: Duration, is_missed: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let before = self.seen.remove(table.name()).unwrap_or_default();
        let is_same = before.uid.is_some() && before.uid.as_deref() == table.uid();
        let mut seen = Seen { uid: table.uid().map(str::to_owned), entries: BTreeMap::new() };
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

    /// Forgets the tables that are not among these.
    pub fn keep_only(&mut self, tables: &BTreeSet<TableName>) {
        self.seen.retain(|name, _| tables.contains(name));
    }
}
