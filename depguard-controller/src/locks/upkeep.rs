//! Which tables lack something, and which say too much.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use depguard_core::LogicalCluster;
use depguard_core::locks::{Ages, Entry, TableName, tables_of};
use depguard_kcp::Connection;
use futures::StreamExt;
use tokio::time::Instant;

use super::plan::{LockKey, World};
use super::status::is_programmed;
use super::tables;
use super::world::SeenTable;
use crate::install::endpoint;
use crate::rounds::in_time;

/// Writes into the tables what is missing there. A lock whose status does not say that it is programmed is looked for in
/// the tables as they are stored now; for others what is mirrored is enough. Gives what failed, by lock.
pub(super) async fn repair(
    connection: &Connection,
    world: &World<'_>,
    stored: &[SeenTable<'_>],
) -> BTreeMap<LockKey, String> {
    let mirrored: HashMap<_, _> = stored.iter().map(|seen| ((&seen.cluster, seen.table.name()), &seen.table)).collect();
    let mut due: BTreeMap<(Option<LogicalCluster>, TableName), Due<'_>> = BTreeMap::new();
    for seen in world.locks.iter().filter(|seen| world.counts(&seen.lock)) {
        let is_programmed = is_programmed(seen);
        for (name, entries) in tables_of(&seen.lock) {
            let table = mirrored.get(&(&seen.key.cluster, &name));
            if is_programmed && table.is_some_and(|table| tables::says(table, &entries)) {
                continue;
            }
            let due = due.entry((seen.key.cluster.clone(), name)).or_default();
            due.origin = seen.origin;
            due.wanted.extend(entries);
            due.locks.insert(&seen.key);
        }
    }
    // What there is no time for is not done.
    let all = due.values().flat_map(|due| &due.locks).map(|lock| ((*lock).clone(), Vec::new()));
    let mut failed: BTreeMap<LockKey, Vec<String>> = all.collect();
    let mut left: BTreeSet<_> = due.keys().cloned().collect();
    let jobs = due.iter().map(|(key, due)| async move {
        let (cluster, name) = key;
        let done = match endpoint(connection, due.origin, cluster.as_ref()) {
            Ok(endpoint) => tables::ensure(&endpoint, name, &due.wanted).await,
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
            tracing::warn!(table = %key.1, "a lock could not be noted in its table, trying again: {why}");
            tell(due, why);
        }
    }
    for key in left {
        if let Some(due) = due.get(&key) {
            tell(due, "the writes before it took too long; it is next".to_owned());
        }
    }
    failed.into_iter().filter_map(|(lock, why)| Some((lock, why.into_iter().next()?))).collect()
}

/// What a table lacks, and which locks miss it.
#[derive(Default)]
struct Due<'w> {
    origin: &'w str,
    wanted: Vec<Entry>,
    locks: BTreeSet<&'w LockKey>,
}

/// What is remembered of tables.
#[derive(Debug)]
pub(super) struct Keeping {
    after: Duration,
    began: Instant,
    ages: HashMap<Option<LogicalCluster>, Ages>,
}

impl Keeping {
    pub(super) fn new(after: Duration) -> Self {
        Self { after, began: Instant::now(), ages: HashMap::new() }
    }

    /// Takes from the tables what no lock asks for any more. Gives when to look again, where something is to be taken.
    pub(super) async fn clean(
        &mut self,
        connection: &Connection,
        world: &World<'_>,
        stored: &[SeenTable<'_>],
    ) -> Option<Duration> {
        let mut asked: BTreeMap<(&Option<LogicalCluster>, TableName), Vec<Entry>> = BTreeMap::new();
        for seen in &world.locks {
            for (name, entries) in tables_of(&seen.lock) {
                asked.entry((&seen.key.cluster, name)).or_default().extend(entries);
            }
        }
        let now = self.began.elapsed();
        let mut tables: HashMap<&Option<LogicalCluster>, BTreeSet<TableName>> = HashMap::new();
        let mut again = None;
        for SeenTable { cluster, origin, table } in stored {
            tables.entry(cluster).or_default().insert(table.name().clone());
            let wanted = asked.get(&(cluster, table.name().clone())).map(Vec::as_slice).unwrap_or_default();
            let is_stale = |entry: &Entry| !wanted.iter().any(|wanted| wanted.says(entry));
            let ages = self.ages.entry(cluster.clone()).or_insert_with(|| Ages::new(self.after));
            let ripe = ages.ripe(table, now, is_stale);
            if !ripe.is_empty() {
                let done = match endpoint(connection, origin, cluster.as_ref()) {
                    Ok(endpoint) => tables::clean(&endpoint, table, &ripe).await.map_err(|error| error.to_string()),
                    Err(why) => Err(why),
                };
                match done {
                    Ok(true) => tracing::debug!(table = %table.name(), "what no lock asks for is out of the table"),
                    Ok(false) => {}
                    Err(why) => tracing::warn!(table = %table.name(), "could not clean the table, trying again: {why}"),
                }
            }
            if table.entries().any(is_stale) || table.is_empty() {
                again = Some(self.after);
            }
        }
        self.ages.retain(|cluster, ages| match tables.get(cluster) {
            Some(tables) => {
                ages.keep_only(tables);
                true
            }
            None => false,
        });
        again
    }
}
