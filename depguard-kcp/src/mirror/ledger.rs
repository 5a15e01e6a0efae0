//! What is known of each endpoint and resource, and what follows from it: pure, so that every order of events can be
//! tried.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::heard::Watches;
use super::objects::Objects;
use super::state::{Failure, MirrorState, Mirrored, MirroredObject, ObjectKey, Readiness, Watched};
use crate::slices::{Named, Ours};

/// What is watched by one task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// The endpoint slices in depguard's own workspace.
    Slices,
    /// A watched resource, by its index, at an endpoint.
    Resource { origin: Arc<str>, index: usize },
}

/// What a watch tells.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A complete list: what is not in it is gone.
    Listed(Objects),
    /// An object is there, or is different.
    Applied(ObjectKey, Arc<Value>),
    /// An object is gone.
    Deleted(ObjectKey),
    /// The watch is broken and will be tried again.
    Failed {
        /// What failed.
        why: String,
        /// Whether the API server doesn't show this resource at all: 403 or 404.
        hidden: bool,
    },
}

/// Everything known, endpoint by endpoint.
#[derive(Debug)]
pub(crate) struct Ledger {
    watched: Vec<Watched>,
    endpoints: Endpoints,
    shelves: BTreeMap<(usize, Arc<str>), Shelf>,
    /// What was last made of each resource; none where something changed since.
    made: Vec<Option<Arc<Mirrored>>>,
    watches: Watches,
}

/// Where the resources are watched.
#[derive(Debug)]
enum Endpoints {
    /// In a plain cluster, which is all there is.
    Fixed(Arc<str>),
    /// At what the slices of our export name.
    Sliced {
        ours: Ours,
        slices: Box<Shelf>,
        /// What was named when that could last be told.
        followed: Named,
        /// Why it can't be told now.
        unknown: Option<String>,
    },
}

/// What is known of one watch.
#[derive(Debug, Default)]
struct Shelf {
    objects: Objects,
    loaded: bool,
    hidden: bool,
    failure: Option<Failure>,
}

impl Ledger {
    /// For a plain cluster.
    pub(crate) fn of_cluster(watched: Vec<Watched>, url: &str) -> Self {
        let mut ledger = Self::new(watched, Endpoints::Fixed(Arc::from(url)));
        ledger.settle();
        ledger
    }

    /// For kcp, where the endpoints are yet to be learnt.
    pub(crate) fn of_slices(watched: Vec<Watched>, ours: Ours) -> Self {
        let unknown = Some("the APIExportEndpointSlices have not been read yet".to_owned());
        let sliced = Endpoints::Sliced { ours, slices: Box::default(), followed: Named::default(), unknown };
        Self::new(watched, sliced)
    }

    fn new(watched: Vec<Watched>, endpoints: Endpoints) -> Self {
        Self {
            made: vec![None; watched.len()],
            watched,
            endpoints,
            shelves: BTreeMap::new(),
            watches: Watches::default(),
        }
    }

    /// Everything that must be watched for this to go on.
    pub(crate) fn sources(&self) -> BTreeSet<Source> {
        let slices = matches!(self.endpoints, Endpoints::Sliced { .. }).then_some(Source::Slices);
        let resources = self.shelves.keys();
        slices
            .into_iter()
            .chain(resources.map(|(index, origin)| Source::Resource { origin: origin.clone(), index: *index }))
            .collect()
    }

    /// When each watch was last heard of: who runs them says so.
    pub(crate) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Takes in what a watch tells that was heard of at that time.
    pub(crate) fn change(&mut self, source: &Source, change: Change, heard: Instant) {
        match source {
            Source::Slices => {
                if let Endpoints::Sliced { slices, .. } = &mut self.endpoints {
                    slices.change(change, true, heard);
                }
                self.settle();
            }
            Source::Resource { origin, index } => {
                let required = self.watched.get(*index).is_some_and(|watched| watched.required);
                let shelf = self.shelves.get_mut(&(*index, origin.clone()));
                if shelf.is_some_and(|shelf| shelf.change(change, required, heard))
                    && let Some(made) = self.made.get_mut(*index)
                {
                    *made = None;
                }
            }
        }
    }

    /// What is known now.
    pub(crate) fn state(&mut self) -> MirrorState {
        let mut resources = Vec::with_capacity(self.watched.len());
        for (index, watched) in self.watched.iter().enumerate() {
            let made = self.made.get(index).cloned().flatten();
            let made = made.unwrap_or_else(|| Arc::new(self.mirrored(index, *watched)));
            resources.push(made);
        }
        self.made = resources.iter().cloned().map(Some).collect();
        let slices_error = match &self.endpoints {
            Endpoints::Sliced { slices, .. } if slices.loaded => slices.failure.clone(),
            Endpoints::Sliced { .. } | Endpoints::Fixed(_) => None,
        };
        MirrorState { resources, slices_error, watches: self.watches.clone() }
    }

    fn mirrored(&self, index: usize, watched: Watched) -> Mirrored {
        let mut objects = BTreeMap::new();
        let (mut further, mut overflown) = (Vec::new(), HashSet::new());
        let mut last_error: Option<Failure> = None;
        let mut missing = self.endpoints.unknown().map(str::to_owned);
        let mut hidden = None;
        for ((_, origin), shelf) in self.shelves.iter().filter(|((of, _), _)| *of == index) {
            for (key, object) in shelf.objects.iter() {
                let (value, shortened) = (Arc::clone(&object.value), object.shortened);
                objects.insert(key.clone(), MirroredObject { value, shortened, origin: origin.clone() });
            }
            further.extend(shelf.objects.further().cloned());
            overflown.extend(shelf.objects.overflown().cloned());
            let failure = shelf.failure.as_ref();
            let why = || {
                failure.map_or_else(
                    || format!("{} at {origin} have not been listed yet", watched.full_name()),
                    |failure| failure.why.clone(),
                )
            };
            if shelf.hidden {
                hidden.get_or_insert_with(why);
            } else if !shelf.loaded {
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
        Mirrored { watched, objects, further, overflown, readiness, last_error }
    }

    /// Makes a shelf for each endpoint and resource, and clears away those of endpoints that left.
    fn settle(&mut self) {
        self.endpoints.settle();
        let followed = match &self.endpoints {
            Endpoints::Fixed(url) => BTreeSet::from([url.clone()]),
            Endpoints::Sliced { followed, .. } => followed.endpoints.clone(),
        };
        self.shelves.retain(|(_, origin), _| followed.contains(origin));
        for origin in &followed {
            for index in 0..self.watched.len() {
                self.shelves.entry((index, origin.clone())).or_default();
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

    /// Follows what the slices name, unless they can't be read or there is none of ours: then what was followed
    /// stays, and nothing counts as loaded.
    fn settle(&mut self) {
        let Self::Sliced { ours, slices, followed, unknown } = self else { return };
        if !slices.loaded {
            if let Some(failure) = &slices.failure {
                *unknown = Some(failure.why.clone());
            }
            return;
        }
        let named = ours.named(slices.objects.iter().map(|(_, object)| object.value.as_ref()));
        *unknown = if named.slices.is_empty() {
            Some(format!(
                "no APIExportEndpointSlice is of the APIExport `{}`: check its name and the kubeconfig's workspace",
                ours.export
            ))
        } else if named.endpoints.is_empty()
            && !followed.endpoints.is_empty()
            && followed.slices.is_disjoint(&named.slices)
        {
            // kcp fills in a new slice's endpoints only after a while: until then none says nothing.
            Some(format!(
                "the APIExportEndpointSlice of `{}` was replaced and names no endpoint yet: \
                 start anew if nobody binds the export any more",
                ours.export
            ))
        } else {
            *followed = named;
            None
        };
    }
}

impl Shelf {
    /// Takes in what the watch tells, and says whether that was anything new.
    fn change(&mut self, change: Change, required: bool, heard: Instant) -> bool {
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
                let since = self.failure.as_ref().map_or(heard, |failure| failure.since);
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
