//! Watch of one resource: kube's watcher, begun anew after every error, reported as changes.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::{ControlPlane, LogicalCluster, api};
use futures::{Stream, StreamExt};
use kube_client::core::{ApiResource, DynamicObject, Status, TypeMeta};
use kube_client::{Api, Error as KubeError};
use kube_runtime::watcher::{self, Event, watcher};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::allowance::Allowance;
use super::objects::Objects;
use super::snapshot::{ObjectKey, Watched};
use super::staleness::LastUnderstood;
use super::store::{Change, Source};
use crate::http::endpoint::{Endpoint, with_causes};
use crate::http::small_pages::SmallPages;

/// Duration of a watch request. kube gives a watch up as dead if it is silent for 5 s longer.
const WATCH_SECONDS: u32 = 25;

/// Maximum silence of a watch. A watch that is silent for longer is begun anew, with a list: a connection may have
/// broken unnoticed, and kcp's virtual workspaces can keep a watch open that never reports again. A healthy watch may
/// be silent too: a kube-apiserver sends no bookmark as long as no object of a kind was ever written. Then the list is
/// short.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);

/// Maximum silence of a list.
const LIST_SILENCE: Duration = Duration::from_secs(60);

/// Time after which a watch counts as steady: when it breaks later, the waits are short again.
const STEADY: Duration = Duration::from_secs(10);

/// Maximum age of a watch. An older watch is begun anew, with a list, even if it sends bookmarks: they do not prove
/// that the shard behind a virtual workspace reports everything.
const REFRESH: Duration = Duration::from_secs(300);

/// Pauses between attempts, in milliseconds. Many short ones come first: a kcp takes some seconds to serve a new
/// binding, and until then nothing can be decided.
const WAITS: [u64; 13] = [250, 500, 1000, 1000, 2000, 2000, 2000, 2000, 2000, 2000, 2000, 2000, 4000];
/// Maximum pause, in milliseconds: however long a fault lasts, its consequences end soon after.
const MAX_WAIT: u64 = 8000;

/// Change, with the number of the watch that reports it: a watch that was ended may have reported before.
pub(crate) struct Report {
    pub(crate) source: Source,
    pub(crate) watch: u64,
    pub(crate) change: Change,
    /// Time of the last contact with the watch.
    pub(crate) last_understood: Instant,
}

/// Watch to run, and the receiver of its reports.
pub(crate) struct Watch {
    pub(crate) endpoint: Endpoint,
    pub(crate) watched: Watched,
    pub(crate) control_plane: ControlPlane,
    pub(crate) allowance: Allowance,
    pub(crate) source: Source,
    pub(crate) number: u64,
    pub(crate) reports: mpsc::Sender<Report>,
    pub(crate) last_understood: LastUnderstood,
}

/// Reason why a watch is begun anew.
enum WatchEnd {
    /// The watch has reached its maximum age.
    Due,
    /// The watch was silent for too long.
    Silent,
    Broken(Break),
}

/// Failure of a watch.
#[derive(Debug)]
struct Break {
    why: String,
    /// True if the API server doesn't show the resource at all: 403 or 404.
    hidden: bool,
    /// True if the watch broke before a list was read to its end. The present objects are unknown then.
    listing: bool,
}

/// Error: the reflector is gone, so nobody is listening.
struct NoListener;

impl Watch {
    /// Watches until nobody is listening.
    pub(crate) async fn run(self) {
        let mut attempt = 0;
        loop {
            // Each new watcher lists first. kube's own restart would go on from the old state, which after some errors
            // never becomes right again, and which would not prove that the watch works.
            let started = Instant::now();
            let Ok(ended) = self.follow(Box::pin(self.events()), started + REFRESH).await else { return };
            let broken = match ended {
                WatchEnd::Due => {
                    attempt = 0;
                    continue;
                }
                WatchEnd::Silent => {
                    let seconds = SILENCE.as_secs();
                    tracing::debug!(
                        resource = self.watched.plural,
                        url = self.endpoint.url(),
                        "the watch was silent for {seconds} s: beginning again"
                    );
                    continue;
                }
                WatchEnd::Broken(broken) => broken,
            };
            tracing::debug!(resource = self.watched.plural, url = self.endpoint.url(), ?broken, "watch broke");
            self.note_failing(&broken);
            let Break { why, hidden, .. } = broken;
            if self.report(Change::Failed { why, hidden }).await.is_err() {
                return;
            }
            attempt = if started.elapsed() > STEADY { 0 } else { attempt };
            tokio::time::sleep(wait(attempt)).await;
            attempt = attempt.saturating_add(1);
        }
    }

    fn events(&self) -> impl Stream<Item = watcher::Result<Event<DynamicObject>>> + Send + use<> {
        let Watched { group, version, plural, kind, names, .. } = self.watched;
        let type_meta = self.type_meta();
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: type_meta.api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let mut config = watcher::Config::default().timeout(WATCH_SECONDS);
        if let (ControlPlane::Kubernetes, Some(name)) = (self.control_plane, names) {
            config = config.fields(&format!("metadata.name={name}"));
        }
        let last_understood = self.last_understood.clone();
        let note = move || last_understood.note();
        let pages = SmallPages::new(self.watched.annotations());
        watcher(Api::all_with(self.endpoint.client_noting_bookmarks(note, pages), &resource), config)
    }

    /// Reports the watcher's events until its first error, or until another reason to begin anew.
    async fn follow(
        &self,
        mut events: impl Stream<Item = watcher::Result<Event<DynamicObject>>> + Unpin,
        end: Instant,
    ) -> Result<WatchEnd, NoListener> {
        // While a list is read, this holds its objects so far. They count only once the list is complete.
        let mut listed = Some(Objects::new(self.allowance));
        loop {
            let patience = match listed {
                Some(_) => Instant::now() + LIST_SILENCE,
                None => end.min(self.last_understood.last() + SILENCE),
            };
            let broken = |why: &str, status| Ok(WatchEnd::Broken(self.broken(why, status, listed.is_some())));
            let event = match tokio::time::timeout_at(patience, events.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(error))) => {
                    let (why, status) = said_by(&error);
                    return broken(&why, status);
                }
                Ok(None) => return broken("the watch ended", None),
                Err(_) if listed.is_some() => {
                    return broken(&format!("no answer within {} s", LIST_SILENCE.as_secs()), None);
                }
                Err(_) if Instant::now() >= end => return Ok(WatchEnd::Due),
                // Bookmarks are no events, but they show that the watch works.
                Err(_) if Instant::now() < self.last_understood.last() + SILENCE => continue,
                Err(_) => return Ok(WatchEnd::Silent),
            };
            // The objects of a list show nothing before its end.
            if matches!(event, Event::Apply(_) | Event::Delete(_)) {
                self.last_understood.note();
            }
            match event {
                Event::Init => listed = Some(Objects::new(self.allowance)),
                Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) if !self.wants(&object) => {}
                Event::InitApply(object) => {
                    let (key, value) = self.read(object);
                    listed.get_or_insert_with(|| Objects::new(self.allowance)).insert(key, value);
                }
                Event::InitDone => {
                    self.note_well();
                    let objects = listed.take().unwrap_or_default();
                    self.report(Change::Listed(objects)).await?;
                }
                Event::Apply(object) => {
                    let (key, value) = self.read(object);
                    self.report(Change::Applied(key, value)).await?;
                }
                Event::Delete(object) => {
                    let (key, _) = self.read(object);
                    self.report(Change::Deleted(key)).await?;
                }
            }
        }
    }

    fn wants(&self, object: &DynamicObject) -> bool {
        self.watched.names.is_none_or(|name| object.metadata.name.as_deref() == Some(name))
    }

    /// Returns an object's key and JSON. In a list of a built-in kind, the objects have no type of their own.
    fn read(&self, mut object: DynamicObject) -> (ObjectKey, Arc<Value>) {
        object.types.get_or_insert_with(|| self.type_meta());
        object.metadata.managed_fields = None;
        self.prune(&mut object);
        let annotations = object.metadata.annotations.as_ref();
        // In a plain cluster, any tenant can write this annotation.
        let cluster = match self.control_plane {
            ControlPlane::Kcp => annotations
                .and_then(|annotations| annotations.get(api::CLUSTER_ANNOTATION))
                .and_then(|cluster| LogicalCluster::parse(cluster).ok()),
            ControlPlane::Kubernetes => None,
        };
        let name = object.metadata.name.clone().unwrap_or_default();
        let name = match &object.metadata.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name,
        };
        // This could fail only for a map with other keys than strings, which JSON does not have.
        let value = serde_json::to_value(object).unwrap_or_default();
        ((cluster, name), Arc::new(value))
    }

    /// Drops the annotations that depguard does not need. Objects that are written back as a whole keep theirs.
    fn prune(&self, object: &mut DynamicObject) {
        if let Some(kept) = self.watched.annotations()
            && let Some(annotations) = &mut object.metadata.annotations
        {
            annotations.retain(|name, _| kept.contains(&name.as_str()));
        }
    }

    fn type_meta(&self) -> TypeMeta {
        let Watched { group, version, kind, .. } = self.watched;
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        TypeMeta { api_version, kind: kind.to_owned() }
    }

    fn broken(&self, why: &str, status: Option<u16>, listing: bool) -> Break {
        let why = format!("cannot watch {} at {}: {why}", self.watched.full_name(), self.endpoint.url());
        Break { why, hidden: matches!(status, Some(403 | 404)), listing }
    }

    /// Reports once that the present objects can't be listed, unless the resource may be hidden.
    fn note_failing(&self, Break { why, hidden, listing }: &Break) {
        let may_be = *hidden && !self.watched.required;
        if *listing && !may_be && self.last_understood.set_failing(true) {
            tracing::warn!(resource = self.watched.plural, "not followed any more: {why}");
        }
    }

    /// Reports once that the objects were listed again.
    fn note_well(&self) {
        self.last_understood.note();
        if self.last_understood.set_failing(false) {
            tracing::info!(resource = self.watched.plural, url = self.endpoint.url(), "followed again");
        }
    }

    async fn report(&self, change: Change) -> Result<(), NoListener> {
        let last_understood = self.last_understood.last();
        let report = Report { source: self.source.clone(), watch: self.number, change, last_understood };
        self.reports.send(report).await.map_err(|_| NoListener)
    }
}

/// Returns the wait after this many failed attempts.
fn wait(attempt: usize) -> Duration {
    Duration::from_millis(WAITS.get(attempt).copied().unwrap_or(MAX_WAIT))
}

/// Returns the text of a watcher's error, and its HTTP status if there was one.
pub(crate) fn said_by(error: &watcher::Error) -> (String, Option<u16>) {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            KubeError::Api(status) => (said(status), Some(status.code)),
            KubeError::Service(error) => (with_causes(error.as_ref()), None),
            other => (with_causes(other), None),
        },
        watcher::Error::WatchError(status) => (said(status), Some(status.code)),
        watcher::Error::NoResourceVersion => {
            ("the list has no metadata.resourceVersion, so it may be incomplete".to_owned(), None)
        }
    }
}

fn said(status: &Status) -> String {
    // kube uses this reason for an answer that is no metav1.Status, such as a bare `404 page not found`.
    let reason = if status.reason == "Failed to parse error data" { "" } else { status.reason.as_str() };
    let message: String = status.message.trim().chars().take(1000).collect();
    format!("{} {reason}: {message}", status.code).replace(" :", ":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_short_at_first_and_never_longer_than_what_follows_from_a_fault_may_last() {
        assert!((0..12).all(|attempt| wait(attempt) <= Duration::from_secs(2)));
        assert!((0..40).all(|attempt| wait(attempt) <= wait(attempt + 1)));
        assert_eq!(wait(13), Duration::from_secs(8));
        assert_eq!(wait(usize::MAX), Duration::from_secs(8));
    }

    #[test]
    fn an_answer_that_is_no_status_is_told_without_kubes_words() {
        let plain = Status::failure("404 page not found\n", "Failed to parse error data").with_code(404);
        assert_eq!(said(&plain), "404: 404 page not found");
        assert_eq!(said(&Status::failure("no", "Forbidden").with_code(403)), "403 Forbidden: no");
    }
}
