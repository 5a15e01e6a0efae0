//! Upkeep of tables: finds missing entries, and entries that no lock asks for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use depguard_core::LogicalCluster;
use depguard_core::locks::{Entry, TableGc, TableName, tables_of};
use depguard_kcp::Connection;
use futures::StreamExt;
use tokio::time::Instant;

use crate::locks::plan::{LockKey, PlanInput};
use crate::locks::snapshot::SeenTable;
use crate::locks::table_repair;
use crate::runtime::apply::endpoint;
use crate::runtime::round::in_time;

/// Writes missing entries into the tables. For a lock whose status does not say that it is programmed, the stored
/// tables are read; for other locks the reflector is enough. Returns the failures by lock.
pub(super) async fn repair(
    connection: &Connection,
    input: &PlanInput<'_>,
    stored: &[SeenTable<'_>],
) -> BTreeMap<LockKey, String> {
    let tables: HashMap<_, _> = stored.iter().map(|seen| ((&seen.cluster, seen.table.name()), &seen.table)).collect();
    let mut due: BTreeMap<(Option<LogicalCluster>, TableName), Due<'_>> = BTreeMap::new();
    for seen in input.locks.iter().filter(|seen| input.counts(&seen.lock)) {
        let is_programmed = seen.is_programmed;
        for (name, entries) in tables_of(&seen.lock) {
            let table = tables.get(&(&seen.key.cluster, &name));
            if is_programmed && table.is_some_and(|table| table_repair::says(table, &entries)) {
                continue;
            }
            let due = due.entry((seen.key.cluster.clone(), name)).or_default();
            due.origin = seen.origin;
            due.required.extend(entries);
            due.locks.insert(&seen.key);
        }
    }
    // A write for which no time is left counts as failed.
    let all = due.values().flat_map(|due| &due.locks).map(|lock| ((*lock).clone(), Vec::new()));
    let mut failed: BTreeMap<LockKey, Vec<String>> = all.collect();
    let mut left: BTreeSet<_> = due.keys().cloned().collect();
    let jobs = due.iter().map(|(key, due)| async move {
        let (cluster, name) = key;
        let done = match endpoint(connection, due.origin, cluster.as_ref()) {
            Ok(endpoint) => table_repair::ensure(&endpoint, name, &due.required).await,
            Err(why) => Err(why),
        };
        (key, due, done)
    });
    let jobs: Vec<_> = jobs.collect();
    let mut jobs = in_time(jobs);
    let mut tell = |due: &Due<'_>, why: String| {
        for lock in &due.locks {
            failed.entry((*lock).clone()).or_default().push(why.clone());
        }
    };
    while let Some((key, due, done)) = jobs.next().await {
        left.remove(key);
        if let Err(why) = done {
            tracing::warn!(table = %key.1, "could not write a lock into its table, trying again: {why}");
            tell(due, why);
        }
    }
    for key in left {
        if let Some(due) = due.get(&key) {
            tell(due, "earlier writes took all the time of this round; this write follows in the next one".to_owned());
        }
    }
    failed.into_iter().filter_map(|(lock, why)| Some((lock, why.into_iter().next()?))).collect()
}

/// Entries that a table may lack, and the locks that need them.
#[derive(Default)]
struct Due<'w> {
    origin: &'w str,
    required: Vec<Entry>,
    locks: BTreeSet<&'w LockKey>,
}

/// State of the cleaning of tables from one round to the next.
#[derive(Debug)]
pub(super) struct TableUpkeep {
    after: Duration,
    began: Instant,
    table_gc: HashMap<Option<LogicalCluster>, TableGc>,
}

impl TableUpkeep {
    pub(super) fn new(after: Duration) -> Self {
        Self { after, began: Instant::now(), table_gc: HashMap::new() }
    }

    /// Takes out of the tables what no lock asks for any more. Returns the time until the next look, if something is to
    /// be taken out.
    pub(super) async fn clean(
        &mut self,
        connection: &Connection,
        input: &PlanInput<'_>,
        stored: &[SeenTable<'_>],
    ) -> Option<Duration> {
        let mut asked: BTreeMap<(&Option<LogicalCluster>, TableName), Vec<Entry>> = BTreeMap::new();
        for seen in &input.locks {
            for (name, entries) in tables_of(&seen.lock) {
                asked.entry((&seen.key.cluster, name)).or_default().extend(entries);
            }
        }
        let now = self.began.elapsed();
        let mut tables: HashMap<&Option<LogicalCluster>, BTreeSet<TableName>> = HashMap::new();
        let mut again = None;
        for SeenTable { cluster, origin, table } in stored {
            tables.entry(cluster).or_default().insert(table.name().clone());
            let required = asked.get(&(cluster, table.name().clone())).map(Vec::as_slice).unwrap_or_default();
            let is_stale = |entry: &Entry| !required.iter().any(|required| required.says(entry));
            let table_gc = self.table_gc.entry(cluster.clone()).or_insert_with(|| TableGc::new(self.after));
            let ripe = table_gc.ripe(table, now, is_stale);
            if !ripe.is_empty() {
                let done = match endpoint(connection, origin, cluster.as_ref()) {
                    Ok(endpoint) => {
                        table_repair::clean(&endpoint, table, &ripe).await.map_err(|error| error.to_string())
                    }
                    Err(why) => Err(why),
                };
                match done {
                    Ok(true) => tracing::debug!(table = %table.name(), "removed entries without a lock from the table"),
                    Ok(false) => {}
                    Err(why) => tracing::warn!(table = %table.name(), "could not clean the table, trying again: {why}"),
                }
            }
            if table.entries().any(is_stale) || table.is_empty() {
                again = Some(self.after);
            }
        }
        self.table_gc.retain(|cluster, table_gc| match tables.get(cluster) {
            Some(tables) => {
                table_gc.keep_only(tables);
                true
            }
            None => false,
        });
        again
    }
}
