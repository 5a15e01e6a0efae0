//! Watches: one JSON object a line, bookmarks, and a 410 for revisions that are too old.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::protocol::json::set_annotation;
use crate::protocol::reply::{self, Reply};
use crate::protocol::routes::Query;
use crate::protocol::status::{ApiError, ApiResult};
use crate::read;
use crate::read::selectors::Selector;
use crate::request::view::{self, Reach, Target};
use crate::store::{Ask, Change, ExpiredRevision, Range};
use crate::world::World;
use crate::world::faults::{Fault, FaultId};
use crate::world::shards::Outage;

const BOOKMARK_EVERY: Duration = Duration::from_secs(1);
/// Maximum duration of a watch, and its duration if the client names none, as in an API server.
const MAX_DURATION: Duration = Duration::from_secs(30 * 60);

/// Opens a watch. `path` is the request's path, by which faults select their requests.
pub(crate) fn open(world: &Arc<World>, target: Target, path: &str, query: &Query) -> ApiResult<Reply> {
    let selector = Selector::of_list(query, &target)?;
    let asked = query.value("resourceVersion").unwrap_or("0");
    let revision: u64 =
        asked.parse().map_err(|_| ApiError::bad_request(format!("invalid resource version \"{asked}\"")))?;
    let lasts = query.number("timeoutSeconds").map_or(MAX_DURATION, Duration::from_secs).min(MAX_DURATION);
    let shard = match &target.reach {
        Reach::One(cluster) => world.shards.asked(target.shard, cluster),
        Reach::Every(_) => target.shard,
    };
    let mut watch = Watch {
        outage: world.shards.outage(shard),
        revisions: world.store.subscribe(),
        disturbed: world.faults.subscribe(),
        path: path.to_owned(),
        faults: BTreeMap::new(),
        world: Arc::clone(world),
        selector,
        bookmarks: query.is_true("allowWatchBookmarks"),
        next_bookmark: Instant::now() + BOOKMARK_EVERY,
        ends: Instant::now() + lasts,
        at: revision,
        clusters: BTreeSet::new(),
        over: false,
        target,
    };
    // Without a revision, the watch begins with the present objects.
    let first = if revision == 0 { watch.catch_up() } else { watch.start_at() };
    Ok(reply::stream(
        stream::iter(first).map(Ok).chain(
            stream::unfold(watch, |mut watch| async move {
                let lines = watch.next().await?;
                Some((stream::iter(lines), watch))
            })
            .flatten(),
        ),
    ))
}

struct Watch {
    world: Arc<World>,
    revisions: Receiver<u64>,
    disturbed: Receiver<u64>,
    /// Outage of the shard that this watch reads.
    outage: Option<Receiver<Option<Outage>>>,
    path: String,
    /// Faults that have met this watch, each with true if it hits the watch.
    faults: BTreeMap<FaultId, bool>,
    target: Target,
    selector: Selector,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    /// Revision up to which events were sent.
    at: u64,
    /// Logical clusters seen through a wildcard so far.
    clusters: BTreeSet<String>,
    over: bool,
}

impl Watch {
    /// Returns the next lines, or `None` at the end.
    async fn next(&mut self) -> Option<Vec<io::Result<Bytes>>> {
        if self.over {
            return None;
        }
        loop {
            self.disturbed.mark_unchanged();
            #[expect(clippy::disallowed_methods, reason = "the outage is copied at once")]
            let outage = self.outage.as_mut().and_then(|outage| *outage.borrow_and_update());
            match outage {
                Some(Outage::Killed) => {
                    self.over = true;
                    return Some(vec![Err(reply::reset())]);
                }
                // A client gives the watch up long before its end.
                Some(Outage::Hung) => {
                    changed(&mut self.outage).await;
                    continue;
                }
                None => {}
            }
            match self.world.faults.strike_watch(&self.path, &mut self.faults) {
                Some(Fault::WatchSilent) => {
                    let _ = timeout_at(self.ends, self.disturbed.changed()).await;
                    if Instant::now() < self.ends {
                        continue;
                    }
                    self.over = true;
                    return Some(Vec::new());
                }
                Some(fault) => {
                    self.over = true;
                    let dropped = fault == Fault::WatchDropped;
                    return Some(vec![if dropped { Err(reply::reset()) } else { Ok(too_old(self.at)) }]);
                }
                None => {}
            }
            self.revisions.mark_unchanged();
            let lines = match self.world.store.changes_since(self.at) {
                Ok((changes, reached)) => {
                    self.at = reached.max(self.at);
                    self.tell(&changes)
                }
                Err(ExpiredRevision) => {
                    self.over = true;
                    return Some(vec![Ok(too_old(self.at))]);
                }
            };
            if !lines.is_empty() {
                return Some(lines.into_iter().map(Ok).collect());
            }
            tokio::select! {
                changed = self.revisions.changed() => if changed.is_err() {
                    // The store is gone with the testbed.
                    sleep_until(self.ends).await;
                },
                _ = self.disturbed.changed() => continue,
                () = changed(&mut self.outage) => continue,
                () = sleep_until(self.ends.min(self.next_bookmark)) => {}
            }
            let now = Instant::now();
            if now >= self.ends {
                self.over = true;
                return Some(Vec::new());
            }
            if now >= self.next_bookmark {
                self.next_bookmark = now + BOOKMARK_EVERY;
                if self.bookmarks {
                    return Some(vec![Ok(self.bookmark())]);
                }
            }
        }
    }

    fn catch_up(&mut self) -> Vec<Bytes> {
        let (stored, revision) = self.world.store.list(read::range(&self.target));
        self.at = revision;
        self.clusters = self.reached();
        let stored = read::visible(&self.world, &self.target, stored);
        let selected = stored.iter().filter(|stored| self.selector.matches(&stored.object));
        selected.map(|stored| self.line("ADDED", &stored.object)).collect()
    }

    /// Starts at a revision with the clusters that were bound then. Later bindings are found among the changes.
    fn start_at(&mut self) -> Vec<Bytes> {
        if let Reach::Every(export) = &self.target.reach {
            let bindings = Range { group: "apis.kcp.io", resource: "apibindings", cluster: None, namespace: None };
            let mut then = BTreeSet::new();
            let ask = Ask { revision: Some(self.at), limit: 0, unfiltered: false, ..Ask::all(bindings) };
            let read = self.world.store.page(&ask, |key, binding| {
                if view::binds(&binding.value(), export) {
                    then.insert(key.cluster.clone());
                }
                false
            });
            if read.is_ok() {
                self.clusters = &self.reached() & &then;
            }
        }
        Vec::new()
    }

    /// Returns the events of these changes for this watch.
    fn tell(&mut self, changes: &[Change]) -> Vec<Bytes> {
        let target = self.target.clone();
        let range = read::range(&target);
        let mut lines = Vec::new();
        let told = self.clusters.clone();
        let wildcard = matches!(self.target.reach, Reach::Every(_));
        let touches_bindings =
            |change: &Change| change.key.resource == "apibindings" || change.key.resource == "apiexports";
        if wildcard && changes.iter().any(touches_bindings) {
            lines.extend(self.follow_clusters());
        }
        for change in changes.iter().filter(|change| range.contains(&change.key)) {
            let cluster = &change.key.cluster;
            // A new cluster was reported as a whole. Of a cluster that has gone, only deletions are reported, because
            // its objects were reported as deleted.
            let stays = self.clusters.contains(cluster) || change.object.is_none();
            if wildcard && !(stays && told.contains(cluster)) {
                continue;
            }
            let (now, previous) = (change.object.as_ref(), change.previous.as_ref());
            let (now, previous) = (now.map(|object| object.value()), previous.map(|object| object.value()));
            let is_selected = |object: &Option<Arc<Value>>| object.as_ref().is_some_and(|object| self.selects(object));
            let last = |object: &Value| {
                let mut object = object.clone();
                object["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                object
            };
            match (&previous, &now) {
                (previous, Some(object)) if is_selected(&now) => {
                    let kind = if is_selected(previous) { "MODIFIED" } else { "ADDED" };
                    lines.push(self.line(kind, object));
                }
                (Some(gone), _) if is_selected(&previous) => {
                    lines.push(self.line("DELETED", &last(gone)));
                }
                _ => {}
            }
        }
        lines
    }

    /// Follows the clusters that a wildcard reaches. Clusters come and go with their bindings, and their objects with
    /// them.
    fn follow_clusters(&mut self) -> Vec<Bytes> {
        let now = self.reached();
        let mut lines = Vec::new();
        for (clusters, kind) in [(&now - &self.clusters, "ADDED"), (&self.clusters - &now, "DELETED")] {
            for cluster in clusters {
                let range = Range { cluster: Some(&cluster), ..read::range(&self.target) };
                let (stored, _) = self.world.store.list(range);
                let selected = stored.iter().filter(|stored| self.selects(&stored.object));
                lines.extend(selected.map(|stored| self.line(kind, &stored.object)));
            }
        }
        self.clusters = now;
        lines
    }

    fn reached(&self) -> BTreeSet<String> {
        view::reached(&self.world, &self.target).unwrap_or_default()
    }

    fn selects(&self, object: &Value) -> bool {
        read::is_visible(&self.target, object) && self.selector.matches(object)
    }

    fn line(&self, kind: &str, object: &Value) -> Bytes {
        event(kind, &read::present(&self.target.resource, object))
    }

    fn bookmark(&self) -> Bytes {
        let mut object = json!({
            "kind": self.target.resource.kind, "apiVersion": self.target.resource.api_version(),
            "metadata": {"resourceVersion": self.at.to_string(), "creationTimestamp": null},
        });
        if let Reach::One(cluster) = &self.target.reach
            && !cluster.is_empty()
        {
            set_annotation(&mut object, crate::world::CLUSTER, cluster);
        }
        event("BOOKMARK", &object)
    }
}

/// Waits until a shard goes or comes back. Without a shard, waits for ever.
async fn changed(outage: &mut Option<Receiver<Option<Outage>>>) {
    if let Some(outage) = outage
        && outage.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

fn too_old(revision: u64) -> Bytes {
    event("ERROR", &ApiError::expired(&format!("too old resource version: {revision}")).status)
}

fn event(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}
