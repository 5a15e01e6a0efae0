//! Known state of each endpoint and resource, and the conclusions from it. Pure, so that tests can try every order of
//! events.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::objects::Objects;
use super::snapshot::{Failure, ObjectKey, Readiness, Snapshot, Watched, WatchedObject, WatchedResource};
use super::staleness::Watches;
use crate::tenancy::endpoint_slices::{EndpointSlices, Named};

/// Subject of one watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// Endpoint slices in depguard's own workspace.
    Slices,
    /// Watched resource, by its index, at an endpoint.
    Resource { origin: Arc<str>, index: usize },
}

/// Change that a watch reports.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Complete list. Objects that are not in it are gone.
    Listed(Objects),
    /// Object that is new or different.
    Applied(ObjectKey, Arc<Value>),
    /// Object that is gone.
    Deleted(ObjectKey),
    /// Failure of the watch, which will be tried again.
    Failed {
        /// Error of the watch.
        why: String,
        /// True if the API server doesn't show this resource at all: 403 or 404.
        hidden: bool,
    },
}

/// Known state of all endpoints.
#[derive(Debug)]
pub(crate) struct Store {
    watched: Vec<Watched>,
    endpoints: Endpoints,
    stores: BTreeMap<(usize, Arc<str>), ResourceStore>,
    /// Last snapshot of each resource; `None` if something changed since.
    made: Vec<Option<Arc<WatchedResource>>>,
    watches: Watches,
}

/// Endpoints at which the resources are watched.
#[derive(Debug)]
enum Endpoints {
    /// The plain cluster is the only endpoint.
    Fixed(Arc<str>),
    /// The slices of our export name the endpoints.
    Sliced {
        ours: EndpointSlices,
        slices: Box<ResourceStore>,
        /// Content of the slices when it was last known.
        followed: Named,
        /// Reason why the content is unknown now.
        unknown: Option<String>,
    },
}

/// Known state of one watch.
#[derive(Debug, Default)]
struct ResourceStore {
    objects: Objects,
    loaded: bool,
    hidden: bool,
    failure: Option<Failure>,
}

impl Store {
    /// Makes a store for a plain cluster.
    pub(crate) fn of_cluster(watched: Vec<Watched>, url: &str) -> Self {
        let mut store = Self::new(watched, Endpoints::Fixed(Arc::from(url)));
        store.follow_endpoints();
        store
    }

    /// Makes a store for kcp, whose endpoints are not known yet.
    pub(crate) fn of_slices(watched: Vec<Watched>, ours: EndpointSlices) -> Self {
        let unknown = Some("depguard has not read the APIExportEndpointSlices yet".to_owned());
        let sliced = Endpoints::Sliced { ours, slices: Box::default(), followed: Named::default(), unknown };
        Self::new(watched, sliced)
    }

    fn new(watched: Vec<Watched>, endpoints: Endpoints) -> Self {
        Self {
            made: vec![None; watched.len()],
            watched,
            endpoints,
            stores: BTreeMap::new(),
            watches: Watches::default(),
        }
    }

    /// Returns all sources that must be watched from now on.
    pub(crate) fn sources(&self) -> BTreeSet<Source> {
        let slices = matches!(self.endpoints, Endpoints::Sliced { .. }).then_some(Source::Slices);
        let resources = self.stores.keys();
        slices
            .into_iter()
            .chain(resources.map(|(index, origin)| Source::Resource { origin: origin.clone(), index: *index }))
            .collect()
    }

    /// Returns the watches, with the time of the last contact with each. The tasks that run the watches note the time.
    pub(crate) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Applies a watch's change. `last_understood` is the time when the watch was last last_understood of.
    pub(crate) fn change(&mut self, source: &Source, change: Change, last_understood: Instant) {
        match source {
            Source::Slices => {
                if let Endpoints::Sliced { slices, .. } = &mut self.endpoints {
                    slices.change(change, true, last_understood);
                }
                self.follow_endpoints();
            }
            Source::Resource { origin, index } => {
                let required = self.watched.get(*index).is_some_and(|watched| watched.required);
                let store = self.stores.get_mut(&(*index, origin.clone()));
                if store.is_some_and(|store| store.change(change, required, last_understood))
                    && let Some(made) = self.made.get_mut(*index)
                {
                    *made = None;
                }
            }
        }
    }

    /// Returns the state as it is known now.
    pub(crate) fn state(&mut self) -> Snapshot {
        let mut resources = Vec::with_capacity(self.watched.len());
        for (index, watched) in self.watched.iter().enumerate() {
            let made = self.made.get(index).cloned().flatten();
            let made = made.unwrap_or_else(|| Arc::new(self.watched_resource(index, *watched)));
            resources.push(made);
        }
        self.made = resources.iter().cloned().map(Some).collect();
        let slices_error = match &self.endpoints {
            Endpoints::Sliced { slices, .. } if slices.loaded => slices.failure.clone(),
            Endpoints::Sliced { .. } | Endpoints::Fixed(_) => None,
        };
        Snapshot { resources, slices_error, watches: self.watches.clone() }
    }

    fn watched_resource(&self, index: usize, watched: Watched) -> WatchedResource {
        let mut objects = BTreeMap::new();
        let (mut further, mut overflown) = (Vec::new(), HashSet::new());
        let mut last_error: Option<Failure> = None;
        let mut missing = self.endpoints.unknown().map(str::to_owned);
        let mut hidden = None;
        for ((_, origin), store) in self.stores.iter().filter(|((of, _), _)| *of == index) {
            for (key, object) in store.objects.iter() {
                let (text, shortened) = (Arc::clone(&object.text), object.shortened);
                objects.insert(key.clone(), WatchedObject { text, shortened, origin: origin.clone() });
            }
            further.extend(store.objects.further().cloned());
            overflown.extend(store.objects.overflown().cloned());
            let failure = store.failure.as_ref();
            let why = || {
                failure.map_or_else(
                    || format!("depguard has not listed {} at {origin} yet", watched.full_name()),
                    |failure| failure.why.clone(),
                )
            };
            if store.hidden {
                hidden.get_or_insert_with(why);
            } else if !store.loaded {
                missing.get_or_insert_with(why);
            } else if let Some(failure) = failure
                && last_error.as_ref().is_none_or(|known| failure.since < known.since)
            {
                last_error = Some(failure.clone());
            }
        }
        let readiness = match (missing, hidden) {
            (Some(why), _) => Readiness::NotLoaded { why },
            (None, Some(why)) => Readiness::Unavailable { why },
            (None, None) => Readiness::Loaded,
        };
        WatchedResource { watched, objects, further, overflown, readiness, last_error }
    }

    /// Makes a store for each endpoint and resource, and removes the stores of endpoints that left.
    fn follow_endpoints(&mut self) {
        self.endpoints.follow_slices();
        let followed = match &self.endpoints {
            Endpoints::Fixed(url) => BTreeSet::from([url.clone()]),
            Endpoints::Sliced { followed, .. } => followed.endpoints.clone(),
        };
        self.stores.retain(|(_, origin), _| followed.contains(origin));
        for origin in &followed {
            for index in 0..self.watched.len() {
                self.stores.entry((index, origin.clone())).or_default();
            }
        }
        self.made.fill(None);
    }
}

impl Endpoints {
    fn unknown(&self) -> Option<&str> {
        match self {
            Self::Fixed(_) => None,
            Self::Sliced { unknown, .. } => unknown.as_deref(),
        }
    }

    /// Follows the endpoints that the slices name. The followed endpoints stay, and nothing counts as loaded, while the
    /// slices have not been read, while none is ours, or while a replaced slice names no endpoint yet.
    fn follow_slices(&mut self) {
        let Self::Sliced { ours, slices, followed, unknown } = self else { return };
        if !slices.loaded {
            if let Some(failure) = &slices.failure {
                *unknown = Some(failure.why.clone());
            }
            return;
        }
        let objects: Vec<_> = slices.objects.iter().map(|(_, object)| object.text.read()).collect();
        let named = ours.named(&objects);
        *unknown = if named.slices.is_empty() {
            Some(format!(
                "the APIExport `{}` has no APIExportEndpointSlice: check its name and the kubeconfig's workspace",
                ours.export
            ))
        } else if named.endpoints.is_empty()
            && !followed.endpoints.is_empty()
            && followed.slices.is_disjoint(&named.slices)
        {
            // kcp fills in the endpoints of a new slice only after a while. Until then a slice without endpoints proves
            // nothing.
            Some(format!(
                "the APIExportEndpointSlice of `{}` was replaced and names no endpoint yet: \
                 restart depguard if nobody binds the export any more",
                ours.export
            ))
        } else {
            *followed = named;
            None
        };
    }
}

impl ResourceStore {
    /// Applies a change of the watch. Returns true if the change brought news.
    fn change(&mut self, change: Change, required: bool, last_understood: Instant) -> bool {
        match change {
            Change::Listed(objects) => {
                let objects = objects.sharing(&self.objects);
                let news = !self.loaded || self.failure.is_some() || self.objects != objects;
                *self = Self { objects, loaded: true, ..Self::default() };
                news
            }
            Change::Applied(key, value) => self.objects.insert(key, value),
            Change::Deleted(key) => self.objects.remove(&key),
            Change::Failed { why, hidden } => {
                let hidden = hidden && !required;
                let known = self.failure.as_ref().is_some_and(|failure| failure.why == why);
                let news = !known || (hidden && !(self.hidden && self.objects.iter().next().is_none()));
                let since = self.failure.as_ref().map_or(last_understood, |failure| failure.since);
                self.failure = Some(Failure { since, why });
                if hidden {
                    *self = Self { hidden, failure: self.failure.take(), ..Self::default() };
                }
                news
            }
        }
    }
}

#[cfg(test)]
mod tests;
