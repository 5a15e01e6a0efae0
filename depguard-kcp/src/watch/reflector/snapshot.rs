//! Immutable snapshot of a reflector.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_core::locks::LockKind;
use depguard_core::{ExportName, LogicalCluster, api};
use serde_json::Value;

use super::object_text::ObjectText;
use super::objects::Tenant;
use super::staleness::{Silence, Watches};
use crate::tenancy::endpoint_slices;

/// Resource to watch, in all namespaces that have objects of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Watched {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Name of the resource in URLs.
    pub plural: &'static str,
    /// Kind of the objects.
    pub kind: &'static str,
    /// Set if nothing can be decided without this resource. Another resource may be [`Readiness::Unavailable`].
    pub required: bool,
    /// Name of the only objects to show; `None` shows all. In a plain cluster the API server is asked for this name
    /// only, so that a right to this name suffices. In kcp all objects are listed and the others skipped, because
    /// a virtual workspace shows nothing to a request for one name in all its clusters.
    pub names: Option<&'static str>,
    /// Fields to keep beside the metadata; `None` keeps the whole object. With these fields, only metadata is kept that
    /// identifies the object and its state, so that a change of anything else is no news.
    pub fields: Option<&'static [&'static str]>,
}

impl Watched {
    /// Dependency rules.
    pub const RULES: Self = Self {
        group: api::GROUP,
        version: api::VERSION,
        plural: api::PLURAL,
        kind: api::KIND,
        required: true,
        names: None,
        fields: None,
    };

    /// APIBindings of depguard: each one holds the path and the logical cluster of a provider's workspace.
    pub const BINDINGS: Self = Self {
        group: "apis.kcp.io",
        version: "v1alpha2",
        plural: "apibindings",
        kind: "APIBinding",
        required: true,
        names: None,
        fields: None,
    };

    /// APIExports of the providers, which say whose rules each provider accepts. If they can't be seen, everybody's
    /// rules count.
    pub const EXPORTS: Self = Self { plural: "apiexports", kind: "APIExport", required: false, ..Self::BINDINGS };

    /// Returns true if tenants write objects of this resource, as many as they like.
    pub(crate) fn is_of_tenants(&self) -> bool {
        let locks = LockKind::ALL.map(LockKind::plural);
        [Self::RULES, Self::BINDINGS, Self::EXPORTS].iter().any(|known| known.plural == self.plural)
            || locks.contains(&self.plural)
    }

    /// Returns the annotations that are kept of the objects; `None` keeps all, because an object that is written back
    /// as a whole must keep its own.
    pub(crate) fn annotations(&self) -> Option<&'static [&'static str]> {
        const KEPT: [&str; 3] = [api::CLUSTER_ANNOTATION, api::PATH_ANNOTATION, api::ACCEPT_ANNOTATION];
        self.is_of_tenants().then_some(&KEPT)
    }

    /// Returns the full name: `dependencyrules.dependencies.opendefense.cloud`
    pub(crate) fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// Key of an object: its logical cluster in kcp, and its name, after its namespace and a slash if it has one. The
/// same name exists in many logical clusters.
pub type ObjectKey = (Option<LogicalCluster>, String);

/// All watched resources as of one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) resources: Vec<Arc<WatchedResource>>,
    pub(crate) slices_error: Option<Failure>,
    pub(crate) watches: Watches,
}

/// Watched resource with its objects.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WatchedResource {
    /// Resource that is watched.
    pub watched: Watched,
    /// Objects of all endpoints: the last known ones if there is a [`WatchedResource::last_error`].
    pub objects: BTreeMap<ObjectKey, WatchedObject>,
    /// Nameless stand-ins, for tenants that exceed the [`Allowance`](crate::Allowance) even with shortened objects.
    /// Each stands for all further objects about the same kinds. Their order has no meaning.
    pub further: Vec<Arc<Value>>,
    /// Tenants that exceed it so far that even the stand-ins are incomplete.
    pub overflown: HashSet<Tenant>,
    /// Readiness of the objects: says if they are all there are.
    pub readiness: Readiness,
    /// Error that keeps an endpoint's objects from being followed right now, though they were loaded once.
    pub last_error: Option<Failure>,
}

/// Object with its origin.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WatchedObject {
    /// JSON of the object: with its `apiVersion` and `kind`, without its `managedFields`. Objects that tenants write
    /// lack annotations that depguard doesn't use.
    pub text: Arc<ObjectText>,
    /// Set if the object's workspace, or its namespace in a plain cluster, exceeds its [`Allowance`](crate::Allowance).
    /// Only the object's identity and the kinds that it names are left then.
    pub shortened: bool,
    /// URL at which the object was read, fit for [`Connection::at`](crate::Connection::at). In kcp this is a
    /// virtual workspace, to which `/clusters/<logical cluster>` must be appended; otherwise it is the cluster itself.
    pub origin: Arc<str>,
}

/// State of knowledge of a resource's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is ready or it is not")]
pub enum Readiness {
    /// A complete, consistent list was read at every endpoint.
    Loaded,
    /// Some list is still missing.
    NotLoaded {
        /// Missing list, or its error.
        why: String,
    },
    /// The API server doesn't show this resource, which is not required: 403 or 404.
    Unavailable {
        /// Answer of the API server.
        why: String,
    },
}

/// Error that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Failure {
    /// Time of the last contact with the watches of the resource.
    pub since: Instant,
    /// Error of the last try.
    pub why: String,
}

impl Snapshot {
    /// Time for which a resource that can't be followed any more counts as unchanged.
    pub const PATIENCE: Duration = Duration::from_secs(60);

    /// Returns true if all required resources are loaded.
    pub fn is_loaded(&self) -> bool {
        self.not_loaded().is_none()
    }

    /// Returns the reason why a required resource is not loaded.
    pub fn not_loaded(&self) -> Option<&str> {
        self.resources.iter().filter(|resource| resource.watched.required).find_map(|resource| {
            match &resource.readiness {
                Readiness::Loaded => None,
                Readiness::NotLoaded { why } | Readiness::Unavailable { why } => Some(why.as_str()),
            }
        })
    }

    /// Returns the failure that has lasted the longest, of the required resources that were all loaded once. Later
    /// changes are unknown.
    pub fn failing(&self) -> Option<&Failure> {
        let required = self.resources.iter().filter(|resource| resource.watched.required);
        let failures = required.filter_map(|resource| resource.last_error.as_ref()).chain(&self.slices_error);
        failures.min_by_key(|failure| failure.since)
    }

    /// Returns the reason why the present state is unknown: a required resource is not loaded, or not followed any
    /// more.
    pub fn unseen(&self) -> Option<&str> {
        self.not_loaded().or_else(|| self.failing().map(|failure| failure.why.as_str()))
    }

    /// Returns the longest silence or failure of the required resources, as of this moment and not of the snapshot's. A
    /// failure comes first. A short silence may be harmless: a watch without news is listed anew after 35 s.
    pub fn stalest(&self) -> Option<Failure> {
        self.stalest_where(|watched| watched.required, self.failing())
    }

    /// Returns true if the resource with this name in URLs, required or not, had a contact within this time and has not
    /// been failing for longer.
    pub fn is_followed(&self, plural: &str, within: Duration) -> bool {
        let failing = self.resource(plural).and_then(|resource| resource.last_error.as_ref());
        let stalest = self.stalest_where(|watched| watched.plural == plural, failing);
        let now = tokio::time::Instant::now().into_std();
        stalest.is_some_and(|stalest| now.saturating_duration_since(stalest.since) <= within)
    }

    fn stalest_where(&self, chosen: impl Fn(&Watched) -> bool, failing: Option<&Failure>) -> Option<Failure> {
        let Silence { since, watched, origin } = self.watches.most_silent(chosen)?;
        let silent = since.into_std();
        Some(match (failing, origin) {
            // A failing resource is not followed, even if it had a contact meanwhile.
            (Some(failing), _) => Failure { since: failing.since.min(silent), why: failing.why.clone() },
            (None, Some(origin)) => {
                Failure { since: silent, why: format!("depguard hears nothing of {} at {origin}", watched.full_name()) }
            }
            (None, None) => {
                Failure { since: silent, why: format!("depguard hears nothing of {}", watched.full_name()) }
            }
        })
    }

    /// Returns true if some endpoint had a contact within that time. Then at least a part of the servers can be reached.
    pub fn hears(&self, within: Duration) -> bool {
        self.watches.hear_any(within)
    }

    /// Returns depguard's own logical cluster, which has the APIExport of that name, from the URLs of the export's
    /// endpoints.
    pub fn own_cluster(&self, export: &ExportName) -> Option<LogicalCluster> {
        let origin = self.watches.any_origin()?;
        LogicalCluster::parse(endpoint_slices::cluster_of(&origin, export.as_str())?).ok()
    }

    /// Returns the watches, with the time of the last contact with each.
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Returns a watched resource by its name in URLs.
    pub fn resource(&self, plural: &str) -> Option<&Arc<WatchedResource>> {
        self.resources.iter().find(|resource| resource.watched.plural == plural)
    }

    /// Returns all watched resources, in the order in which they were given.
    pub fn resources(&self) -> &[Arc<WatchedResource>] {
        &self.resources
    }

    /// Returns the error that keeps the endpoint slices from being followed right now, though they were read once.
    pub fn slices_error(&self) -> Option<&Failure> {
        self.slices_error.as_ref()
    }

    /// Returns true if this snapshot shares all its content with `other`.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.slices_error == other.slices_error
            && self.resources.len() == other.resources.len()
            && self.resources.iter().zip(&other.resources).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
    }

    /// Returns a state in which nothing can be trusted, with the reason. The objects stay for display only.
    pub(crate) fn none_loaded(&self, why: &str) -> Self {
        let resources = self.resources.iter().map(|resource| {
            let readiness = Readiness::NotLoaded { why: why.to_owned() };
            Arc::new(WatchedResource { readiness, ..WatchedResource::clone(resource) })
        });
        Self { resources: resources.collect(), slices_error: self.slices_error.clone(), watches: self.watches.clone() }
    }
}

impl WatchedResource {
    /// Reads the objects, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        self.objects.values().map(|object| object.text.read())
    }
}
