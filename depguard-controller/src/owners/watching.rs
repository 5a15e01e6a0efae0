//! The objects of one resource, as a watch of their metadata shows them: only those are kept that a group may select,
//! or that some GroupOwner owns.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use depguard_core::GroupVersionResource;
use depguard_kcp::{ApiError, Endpoint, Metadata, MetadataEvent};
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::observed::{Listing, Object, Observed};
use super::spec::Entry;

/// The most objects that are kept of a resource.
const MOST_OBJECTS: usize = 200_000;
/// How long a list may be silent.
const LIST_SILENCE: Duration = Duration::from_secs(60);
/// A watch is begun anew, with a list, after so long: what it may have missed is found then.
const REFRESH: Duration = Duration::from_secs(300);
/// Waits between attempts: short ones first, since a new right counts only after a moment.
const WAITS: [u64; 6] = [250, 500, 1000, 2000, 4000, 8000];
const LONGEST_WAIT: u64 = 30_000;
/// A watch that worked for so long begins with short waits again when it breaks.
const STEADY: Duration = Duration::from_secs(10);

/// A watch that ends when it is dropped.
pub(crate) struct Watching {
    entries: Vec<Entry>,
    shown: Arc<Mutex<Shown>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shown {
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

impl Watching {
    /// Begins to watch what these groups may select; whatever is new notifies.
    pub(crate) fn start(
        endpoint: Endpoint,
        resource: GroupVersionResource,
        entries: Vec<Entry>,
        news: Arc<Notify>,
    ) -> Self {
        let shown = Arc::<Mutex<Shown>>::default();
        let watch = Watch { endpoint, resource, entries: entries.clone(), shown: Arc::clone(&shown), news };
        Self { entries, shown, task: tokio::spawn(watch.run()) }
    }

    /// Whether it keeps what these groups may select.
    pub(crate) fn is_for(&self, entries: &[Entry]) -> bool {
        self.entries == entries
    }

    /// What there is.
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

    /// Takes in what a write showed, before the watch tells it. The watch may be ahead already: what it has told to be
    /// gone is not put back, or it would be waited for until the next list.
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

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Lists the objects of a resource that a group may select, or that some GroupOwner owns, in all namespaces, as they are
/// now.
pub(crate) async fn list(endpoint: &Endpoint, resource: &GroupVersionResource, observed: &Observed) -> Listing {
    let kind = match kind(endpoint, resource).await {
        Ok(kind) => kind,
        Err(listing) => return listing,
    };
    let keep = |metadata: Metadata| {
        let is_of_interest = observed.is_of_interest(resource, &metadata);
        Some(Object::of(metadata)).filter(|object| is_of_interest || object.is_owned()).map(Arc::new)
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
    shown: Arc<Mutex<Shown>>,
    news: Arc<Notify>,
}

impl Watch {
    async fn run(self) {
        let mut attempt = 0_usize;
        loop {
            let started = Instant::now();
            match self.follow(started + REFRESH).await {
                Ok(()) => attempt = 0,
                Err(state) => {
                    self.show(|shown| {
                        let is_news = shown.state != state;
                        shown.state = state;
                        shown.objects.clear();
                        (is_news, ())
                    });
                    attempt = if started.elapsed() > STEADY { 0 } else { attempt };
                    sleep(Duration::from_millis(WAITS.get(attempt).copied().unwrap_or(LONGEST_WAIT))).await;
                    attempt = attempt.saturating_add(1);
                }
            }
        }
    }

    /// Follows the resource until it is time to begin anew, or until it can't be followed.
    async fn follow(&self, end: Instant) -> Result<(), State> {
        let resource = &self.resource;
        let kind = kind(&self.endpoint, resource).await.map_err(|listing| match listing {
            Listing::NotServed(why) => State::NotServed(why),
            Listing::Unwatched(why) | Listing::Unreadable(why) => State::Unreadable(why),
            Listing::Pending | Listing::Objects { .. } => State::Pending,
        })?;
        let unreadable =
            |why: &str| State::Unreadable(format!("{} can't be watched: {why}", resource.group_resource()));
        let mut events = Box::pin(self.endpoint.watch_metadata(resource, &kind));
        let mut listed = Some(BTreeMap::new());
        loop {
            let patience = if listed.is_some() { Instant::now() + LIST_SILENCE } else { end };
            let event = match timeout_at(patience, events.next()).await {
                Ok(Some(Ok(event))) => event,
                Ok(Some(Err(why))) => return Err(unreadable(&why)),
                Ok(None) => return Err(unreadable("the watch ended")),
                Err(_) if listed.is_some() => return Err(unreadable("no answer came")),
                Err(_) => return Ok(()),
            };
            match event {
                MetadataEvent::Listing => listed = Some(BTreeMap::new()),
                MetadataEvent::Listed(metadata) => {
                    let objects = listed.get_or_insert_default();
                    take_in(objects, &self.entries, metadata);
                    if objects.len() > MOST_OBJECTS {
                        return Err(unreadable(&format!("more than {MOST_OBJECTS} objects are selected")));
                    }
                }
                MetadataEvent::Complete => {
                    let objects = listed.take().unwrap_or_default();
                    self.show(|shown| {
                        *shown = Shown { kind: kind.clone(), objects, state: State::Loaded };
                        (true, ())
                    });
                }
                MetadataEvent::Changed(metadata) => {
                    let full = self.show(|shown| {
                        let news = take_in(&mut shown.objects, &self.entries, metadata);
                        (news, shown.objects.len() > MOST_OBJECTS)
                    });
                    if full {
                        return Err(unreadable(&format!("more than {MOST_OBJECTS} objects are selected")));
                    }
                }
                MetadataEvent::Gone(metadata) => {
                    let key = (metadata.namespace, metadata.name);
                    self.show(|shown| (shown.objects.remove(&key).is_some(), ()));
                }
            }
        }
    }

    /// Changes what is shown, and tells of it where the change says that it is news: most objects are nobody's.
    fn show<T>(&self, change: impl FnOnce(&mut Shown) -> (bool, T)) -> T {
        let (is_news, result) = change(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner));
        if is_news {
            self.news.notify_one();
        }
        result
    }
}

/// Whether metadata tells more of an object that is known than is known of it.
fn is_ahead(objects: &BTreeMap<(Option<String>, String), Arc<Object>>, metadata: &Metadata) -> bool {
    let Some(known) = objects.get(&(metadata.namespace.clone(), metadata.name.clone())) else { return false };
    let revision = |metadata: &Metadata| metadata.resource_version.parse::<u64>().ok();
    let is_behind = revision(metadata).zip(revision(&known.metadata)).is_some_and(|(new, old)| new < old);
    known.uid() == metadata.uid && !is_behind
}

/// Keeps an object where it is of any interest, and forgets it where it is not any more. Whether that changed anything.
fn take_in(
    objects: &mut BTreeMap<(Option<String>, String), Arc<Object>>,
    entries: &[Entry],
    metadata: Metadata,
) -> bool {
    let key = (metadata.namespace.clone(), metadata.name.clone());
    let is_of_interest = entries.iter().any(|entry| entry.selects(&metadata) || entry.names(&metadata));
    let object = Object::of(metadata);
    if is_of_interest || object.is_owned() {
        objects.insert(key, Arc::new(object));
        true
    } else {
        objects.remove(&key).is_some()
    }
}

/// The kind of a resource, by discovery.
///
/// An API server that is just starting may not know yet what it serves, and one that serves other versions has the objects
/// all the same. So there is no such resource only where there is no CustomResourceDefinition of it, and no version of its
/// API group has it.
async fn kind(endpoint: &Endpoint, resource: &GroupVersionResource) -> Result<String, Listing> {
    let unreadable =
        |error: &ApiError| Listing::Unreadable(format!("{} can't be discovered: {error}", resource.group_resource()));
    if let Some(kind) = served(endpoint, &resource.root(), resource).await.map_err(|error| unreadable(&error))? {
        return Ok(kind);
    }
    let not_served = Listing::NotServed(format!("{resource} is not served: install it, or take it out of the spec"));
    if resource.group.is_core() {
        return Err(not_served);
    }
    let otherwise = Listing::Unreadable(format!("{resource} is not served: name a version in which it is"));
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

/// The kind of a resource, where this version of its API group has it.
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
        assert!(!is_ahead(&objects, &object("1", "9")), "the watch told that it is gone");
        objects.insert((None, "a".to_owned()), Arc::new(Object::of(object("1", "9"))));
        for (uid, revision, ahead) in [("1", "8", false), ("1", "10", true), ("1", "x", true), ("2", "10", false)] {
            assert_eq!(is_ahead(&objects, &object(uid, revision)), ahead, "{uid} {revision}");
        }
    }
}
