//! Objects of one resource, from a watch of their metadata. Only two kinds of objects are kept: those that a group may
//! select, and those that some GroupOwner owns.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use depguard_core::GroupVersionResource;
use depguard_core::owners::Entry;
use depguard_kcp::{ApiError, Endpoint, Metadata, MetadataEvent, MetadataForm};
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::owners::group::Selection;
use crate::owners::snapshot::{Listing, Object, OwnerSnapshot};
use crate::runtime::backoff::Retries;

/// Maximum number of objects that are kept of a resource.
const MAX_OBJECTS: usize = 200_000;
/// First pause after a failure: short, since a new right counts only after a moment.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Duration of a working watch after which the waits begin with short ones again.
const STEADY: Duration = Duration::from_secs(10);

/// Watch that ends when it is dropped.
pub(crate) struct MetadataWatch {
    entries: Vec<Entry>,
    shown: Arc<Mutex<WatchedObjects>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct WatchedObjects {
    kind: String,
    objects: BTreeMap<(Option<String>, String), Arc<Object>>,
    state: State,
}

#[derive(Default, Clone, PartialEq, Eq)]
enum State {
    #[default]
    Pending,
    Loaded,
    NotServed(String),
    Unreadable(String),
}

impl MetadataWatch {
    /// Begins to watch the objects that these groups may select. Each change notifies `news`.
    pub(crate) fn start(
        endpoint: Endpoint,
        resource: GroupVersionResource,
        entries: Vec<Entry>,
        news: Arc<Notify>,
    ) -> Self {
        let shown = Arc::<Mutex<WatchedObjects>>::default();
        let watch = Watch { endpoint, resource, entries: entries.clone(), shown: Arc::clone(&shown), news };
        Self { entries, shown, task: tokio::spawn(watch.run()) }
    }

    /// Returns true if the watch was begun for these entries.
    pub(crate) fn is_for(&self, entries: &[Entry]) -> bool {
        self.entries == entries
    }

    /// Returns the objects that the watch has shown so far.
    pub(crate) fn listing(&self) -> Listing {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        match &shown.state {
            State::Pending => Listing::Pending,
            State::NotServed(why) => Listing::NotServed(why.clone()),
            State::Unreadable(why) => Listing::Unwatched(why.clone()),
            State::Loaded => Listing::Objects {
                kind: shown.kind.clone(),
                objects: shown.objects.values().cloned().collect(),
                consistent: false,
            },
        }
    }

    /// Takes in the metadata that a write showed, before the watch shows it. The watch may already be ahead: an object
    /// that it has reported as gone is not put back, or a removal would wait for the object until the next list.
    pub(crate) fn saw(&self, metadata: Metadata) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if is_ahead(&shown.objects, &metadata) {
            take_in(&mut shown.objects, &self.entries, metadata);
        }
    }

    /// Takes in that an object is gone.
    pub(crate) fn lost(&self, metadata: &Metadata) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (metadata.namespace.clone(), metadata.name.clone());
        if shown.objects.get(&key).is_some_and(|object| object.uid() == metadata.uid) {
            shown.objects.remove(&key);
        }
    }
}

impl Drop for MetadataWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Lists the objects of a resource in all namespaces, as they are now: those that a group may select, and those that
/// some GroupOwner owns.
pub(crate) async fn list(endpoint: &Endpoint, resource: &GroupVersionResource, observed: &OwnerSnapshot) -> Listing {
    let kind = match kind(endpoint, resource).await {
        Ok(kind) => kind,
        Err(listing) => return listing,
    };
    let keep = |metadata: Metadata| {
        let is_of_interest = observed.is_of_interest(resource, &metadata);
        Some(Object::from_metadata(metadata)).filter(|object| is_of_interest || object.is_owned()).map(Arc::new)
    };
    match endpoint.list_metadata(&format!("{}/{}", resource.root(), resource.resource), keep).await {
        Ok(objects) => Listing::Objects { kind, objects, consistent: true },
        Err(error) => Listing::Unreadable(format!("{} can't be listed: {error}", resource.group_resource())),
    }
}

struct Watch {
    endpoint: Endpoint,
    resource: GroupVersionResource,
    entries: Vec<Entry>,
    shown: Arc<Mutex<WatchedObjects>>,
    news: Arc<Notify>,
}

impl Watch {
    async fn run(self) {
        let mut retries = Retries::after(FIRST_PAUSE);
        loop {
            let begun = Instant::now();
            let state = self.follow().await;
            self.show(|shown| {
                let is_news = shown.state != state;
                shown.state = state;
                shown.objects.clear();
                (is_news, ())
            });
            if begun.elapsed() > STEADY {
                retries.done(&());
            }
            retries.failed((), 0, Instant::now());
            sleep_until(retries.next().unwrap_or(begun)).await;
        }
    }

    /// Follows the resource until a failure, and returns it.
    async fn follow(&self) -> State {
        let resource = &self.resource;
        let kind = match kind(&self.endpoint, resource).await {
            Ok(kind) => kind,
            Err(Listing::NotServed(why)) => return State::NotServed(why),
            Err(Listing::Unwatched(why) | Listing::Unreadable(why)) => return State::Unreadable(why),
            Err(Listing::Pending | Listing::Objects { .. }) => return State::Pending,
        };
        let unreadable =
            |why: &str| State::Unreadable(format!("{} can't be watched: {why}", resource.group_resource()));
        let path = format!("{}/{}", resource.root(), resource.resource);
        let mut events = pin!(self.endpoint.follow(path, MetadataForm));
        let mut listed = BTreeMap::new();
        while let Some(event) = events.next().await {
            let mut objects = 0;
            match event {
                MetadataEvent::Listing => listed.clear(),
                MetadataEvent::Listed(metadata) => {
                    take_in(&mut listed, &self.entries, metadata);
                    objects = listed.len();
                }
                MetadataEvent::Complete => {
                    let objects = std::mem::take(&mut listed);
                    self.show(|shown| {
                        *shown = WatchedObjects { kind: kind.clone(), objects, state: State::Loaded };
                        (true, ())
                    });
                }
                MetadataEvent::Changed(metadata) => {
                    objects = self.show(|shown| {
                        let news = take_in(&mut shown.objects, &self.entries, metadata);
                        (news, shown.objects.len())
                    });
                }
                MetadataEvent::Gone(metadata) => {
                    let key = (metadata.namespace, metadata.name);
                    self.show(|shown| (shown.objects.remove(&key).is_some(), ()));
                }
                MetadataEvent::Bookmark => {}
                MetadataEvent::Failed(failure) => return unreadable(&failure.why),
            }
            if objects > MAX_OBJECTS {
                return unreadable(&format!("more than {MAX_OBJECTS} objects are selected: narrow the selector"));
            }
        }
        State::Pending
    }

    /// Changes the shown state, and notifies if the change says that it is news: most objects belong to nobody.
    fn show<T>(&self, change: impl FnOnce(&mut WatchedObjects) -> (bool, T)) -> T {
        let (is_news, result) = change(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner));
        if is_news {
            self.news.notify_one();
        }
        result
    }
}

/// Returns true if an object of this UID is known and the metadata is not older than the known metadata.
fn is_ahead(objects: &BTreeMap<(Option<String>, String), Arc<Object>>, metadata: &Metadata) -> bool {
    let Some(known) = objects.get(&(metadata.namespace.clone(), metadata.name.clone())) else { return false };
    let revision = |metadata: &Metadata| metadata.resource_version.parse::<u64>().ok();
    let is_behind = revision(metadata).zip(revision(&known.metadata)).is_some_and(|(new, old)| new < old);
    known.uid() == metadata.uid && !is_behind
}

/// Keeps an object that is of interest, and forgets any other one. Returns true if that changed anything.
fn take_in(
    objects: &mut BTreeMap<(Option<String>, String), Arc<Object>>,
    entries: &[Entry],
    metadata: Metadata,
) -> bool {
    let key = (metadata.namespace.clone(), metadata.name.clone());
    let is_of_interest = entries.iter().any(|entry| entry.selects(&metadata) || entry.names(&metadata));
    let object = Object::from_metadata(metadata);
    if is_of_interest || object.is_owned() {
        objects.insert(key, Arc::new(object));
        true
    } else {
        objects.remove(&key).is_some()
    }
}

/// Returns the kind of a resource, by discovery.
///
/// An API server that is just starting may not know yet what it serves, and objects exist even if the API server serves
/// only other versions. So a resource counts as not served only if it has no CustomResourceDefinition, and no version
/// of its API group has it.
async fn kind(endpoint: &Endpoint, resource: &GroupVersionResource) -> Result<String, Listing> {
    let unreadable =
        |error: &ApiError| Listing::Unreadable(format!("{} can't be discovered: {error}", resource.group_resource()));
    if let Some(kind) = served(endpoint, &resource.root(), resource).await.map_err(|error| unreadable(&error))? {
        return Ok(kind);
    }
    let not_served =
        Listing::NotServed(format!("the API server does not serve {resource}: install it, or remove it from the spec"));
    if resource.group.is_core() {
        return Err(not_served);
    }
    let otherwise =
        Listing::Unreadable(format!("the API server does not serve {resource}: write a version that it serves"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    match endpoint.get_json(&format!("{definitions}/{}.{}", resource.resource, resource.group)).await {
        Ok(_) => return Err(otherwise),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(unreadable(&error)),
    }
    let group = format!("/apis/{}", resource.group);
    let versions = match endpoint.get_json(&group).await {
        Ok(found) => found.get("versions").and_then(Value::as_array).cloned().unwrap_or_default(),
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(unreadable(&error)),
    };
    for version in versions.iter().filter_map(|version| version.get("version")?.as_str()) {
        let root = format!("{group}/{version}");
        if served(endpoint, &root, resource).await.map_err(|error| unreadable(&error))?.is_some() {
            return Err(otherwise);
        }
    }
    Err(not_served)
}

/// Returns the kind of a resource, if this version of its API group has it.
async fn served(endpoint: &Endpoint, root: &str, resource: &GroupVersionResource) -> Result<Option<String>, ApiError> {
    let found = match endpoint.get_json(root).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = |found: &Value, field: &str| found.get(field).and_then(Value::as_str).map(str::to_owned);
    let mut resources = found.get("resources").and_then(Value::as_array).into_iter().flatten();
    let found = resources.find(|found| text(found, "name").as_deref() == Some(resource.resource.as_str()));
    Ok(found.and_then(|found| text(found, "kind")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_after_the_watch_puts_nothing_back() {
        let object = |uid: &str, revision: &str| Metadata {
            name: "a".to_owned(),
            uid: uid.to_owned(),
            resource_version: revision.to_owned(),
            ..Metadata::default()
        };
        let mut objects = BTreeMap::new();
        assert!(!is_ahead(&objects, &object("1", "9")), "the watch reported that it is gone");
        objects.insert((None, "a".to_owned()), Arc::new(Object::from_metadata(object("1", "9"))));
        for (uid, revision, ahead) in [("1", "8", false), ("1", "10", true), ("1", "x", true), ("2", "10", false)] {
            assert_eq!(is_ahead(&objects, &object(uid, revision)), ahead, "{uid} {revision}");
        }
    }
}
