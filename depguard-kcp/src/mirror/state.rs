//! What a mirror shows: an immutable snapshot.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_core::locks::LockKind;
use depguard_core::{ExportName, LogicalCluster, api};
use serde_json::Value;

use super::heard::{Silence, Watches};
use super::objects::Tenant;
use crate::slices;

/// A resource to watch, in all namespaces where it has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Watched {
    /// Its API group; empty for the core group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its name in URLs.
    pub plural: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Whether nothing can be decided without it. One that is not required may be [`Readiness::Unavailable`].
    pub required: bool,
    /// Only the objects of this name. In a plain cluster the API server is asked for no others, so that a right to
    /// this name is enough; in home kcp all are listed and the others passed over, as a virtual workspace shows
    /// nothing at all to who asks for a name in all its clusters.
    pub names: Option<&'static str>,
}

impl Watched {
    /// The rules.
    pub const RULES: Self = Self {
        group: api::GROUP,
        version: api::VERSION,
        plural: api::PLURAL,
        kind: api::KIND,
        required: true,
        names: None,
    };

    /// depguard's own APIBindings: each says the path and the logical cluster of a provider's workspace.
    pub const BINDINGS: Self = Self {
        group: "apis.kcp.io",
        version: "v1alpha2",
        plural: "apibindings",
        kind: "APIBinding",
        required: true,
        names: None,
    };

    /// The providers' APIExports: whose rules each accepts. Where they can't be seen, everybody's count.
    pub const EXPORTS: Self = Self { plural: "apiexports", kind: "APIExport", required: false, ..Self::BINDINGS };

    /// Whether tenants write its objects, as many as they like.
    pub(crate) fn is_of_tenants(&self) -> bool {
        let locks = LockKind::ALL.map(LockKind::plural);
        [Self::RULES, Self::BINDINGS, Self::EXPORTS].iter().any(|known| known.plural == self.plural)
            || locks.contains(&self.plural)
    }

    /// The annotations that are kept of its objects; `None`: all, since what is written back as a whole keeps its own.
    pub(crate) fn annotations(&self) -> Option<&'static [&'static str]> {
        const KEPT: [&str; 3] = [api::CLUSTER_ANNOTATION, api::PATH_ANNOTATION, api::ACCEPT_ANNOTATION];
        self.is_of_tenants().then_some(&KEPT)
    }

    /// `dependencyrules.dependencies.opendefense.cloud`
    pub(crate) fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// An object's logical cluster, in home kcp, and its name, behind its namespace and a slash where it has one. The same
/// name exists in many logical clusters.
pub type ObjectKey = (Option<LogicalCluster>, String);

/// Everything that is watched, as of one moment.
#[derive(Debug, Clone)]
pub struct MirrorState {
    pub(crate) resources: Vec<Arc<Mirrored>>,
    pub(crate) slices_error: Option<Failure>,
    pub(crate) watches: Watches,
}

/// One watched resource.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Mirrored {
    /// What is watched.
    pub watched: Watched,
    /// The objects of all endpoints: the last that are known where there is a [`Mirrored::last_error`].
    pub objects: BTreeMap<ObjectKey, MirroredObject>,
    /// Objects without a name, each of which stands for all that are not even among the objects, as their tenant has so much
    /// more than the [`Allowance`](crate::Allowance), and that are about the same. In an order of no meaning.
    pub further: Vec<Arc<Value>>,
    /// Who has so much more that not even all of these are there.
    pub overflown: HashSet<Tenant>,
    /// Whether the objects are all there are.
    pub readiness: Readiness,
    /// What keeps an endpoint's objects from being followed right now, though they were loaded once.
    pub last_error: Option<Failure>,
}

/// One object.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MirroredObject {
    /// The object, with its `apiVersion` and `kind`, without its `managedFields`, and in what
    /// tenants write without annotations that depguard doesn't use.
    pub value: Arc<Value>,
    /// Whether its workspace, or its namespace in a plain cluster, has more than its [`Allowance`](crate::Allowance), so that only what the object is, and what
    /// kinds it speaks of, is left of it.
    pub shortened: bool,
    /// The URL that it was read at, fit for [`Connection::at`](crate::Connection::at): in home kcp a virtual
    /// workspace, to which `/clusters/<logical cluster>` is to be added, else the cluster itself.
    pub origin: Arc<str>,
}

/// Whether all objects of a resource are known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is ready or it is not")]
pub enum Readiness {
    /// A complete, consistent list was taken on every endpoint that there is.
    Loaded,
    /// Not yet.
    NotLoaded {
        /// What is missing or failed.
        why: String,
    },
    /// The API server doesn't show this resource, which is not required: 403 or 404.
    Unavailable {
        /// What the API server said.
        why: String,
    },
}

/// An error that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Failure {
    /// Since when nothing was heard of it.
    pub since: Instant,
    /// What fails, the last time that it was tried.
    pub why: String,
}

impl MirrorState {
    /// How long what can't be followed any more is believed to be what it was.
    pub const PATIENCE: Duration = Duration::from_secs(60);

    /// Whether everything required is loaded.
    pub fn is_loaded(&self) -> bool {
        self.not_loaded().is_none()
    }

    /// Why not everything required is loaded.
    pub fn not_loaded(&self) -> Option<&str> {
        self.resources.iter().filter(|resource| resource.watched.required).find_map(|resource| {
            match &resource.readiness {
                Readiness::Loaded => None,
                Readiness::NotLoaded { why } | Readiness::Unavailable { why } => Some(why.as_str()),
            }
        })
    }

    /// What has kept something required from being followed for the longest, though all of it was loaded once: what
    /// changed since is not known.
    pub fn failing(&self) -> Option<&Failure> {
        let required = self.resources.iter().filter(|resource| resource.watched.required);
        let failures = required.filter_map(|resource| resource.last_error.as_ref()).chain(&self.slices_error);
        failures.min_by_key(|failure| failure.since)
    }

    /// Why it is not known what there is now: not all that is required is loaded, or followed any more.
    pub fn unseen(&self) -> Option<&str> {
        self.not_loaded().or_else(|| self.failing().map(|failure| failure.why.as_str()))
    }

    /// Of everything required, what was not heard of, or has been failing, for the longest: as of this moment and not of
    /// the snapshot's. Where something fails, that is said; else it may be well, if it is not long ago: one that has
    /// nothing to tell is listed anew after 35 s.
    pub fn unheard(&self) -> Option<Failure> {
        self.unheard_where(|watched| watched.required, self.failing())
    }

    /// Whether one resource, required or not, by its name in URLs, was heard of within so long and has not been failing
    /// for longer.
    pub fn is_followed(&self, plural: &str, within: Duration) -> bool {
        let failing = self.resource(plural).and_then(|resource| resource.last_error.as_ref());
        let unheard = self.unheard_where(|watched| watched.plural == plural, failing);
        let now = tokio::time::Instant::now().into_std();
        unheard.is_some_and(|unheard| now.saturating_duration_since(unheard.since) <= within)
    }

    fn unheard_where(&self, chosen: impl Fn(&Watched) -> bool, failing: Option<&Failure>) -> Option<Failure> {
        let Silence { since, watched, origin } = self.watches.most_silent(chosen)?;
        let silent = since.into_std();
        Some(match (failing, origin) {
            // What fails is not followed, whatever was heard of it meanwhile.
            (Some(failing), _) => Failure { since: failing.since.min(silent), why: failing.why.clone() },
            (None, Some(origin)) => {
                Failure { since: silent, why: format!("nothing is heard of {} at {origin}", watched.full_name()) }
            }
            (None, None) => Failure { since: silent, why: format!("nothing is heard of {}", watched.full_name()) },
        })
    }

    /// Tells if some endpoint was heard of within that time: then it is not the whole that is away.
    pub fn hears(&self, within: Duration) -> bool {
        self.watches.hear_any(within)
    }

    /// depguard's own logical cluster, in which its APIExport of that name lies, as the URLs of its endpoints say it.
    pub fn own_cluster(&self, export: &ExportName) -> Option<LogicalCluster> {
        let origin = self.watches.any_origin()?;
        LogicalCluster::parse(slices::cluster_of(&origin, export.as_str())?).ok()
    }

    /// When each watch was last heard of.
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// A watched resource by its name in URLs.
    pub fn resource(&self, plural: &str) -> Option<&Arc<Mirrored>> {
        self.resources.iter().find(|resource| resource.watched.plural == plural)
    }

    /// All watched resources, in the order they were given.
    pub fn resources(&self) -> &[Arc<Mirrored>] {
        &self.resources
    }

    /// What keeps the endpoint slices from being followed right now, though they were read once.
    pub fn slices_error(&self) -> Option<&Failure> {
        self.slices_error.as_ref()
    }

    /// Whether this shares all that it shows with `other`.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.slices_error == other.slices_error
            && self.resources.len() == other.resources.len()
            && self.resources.iter().zip(&other.resources).all(|(ours, theirs)| Arc::ptr_eq(ours, theirs))
    }

    /// The state in which nothing can be trusted, and `why`; the objects stay, for who only shows them.
    pub(crate) fn none_loaded(&self, why: &str) -> Self {
        let resources = self.resources.iter().map(|resource| {
            let readiness = Readiness::NotLoaded { why: why.to_owned() };
            Arc::new(Mirrored { readiness, ..Mirrored::clone(resource) })
        });
        Self { resources: resources.collect(), slices_error: self.slices_error.clone(), watches: self.watches.clone() }
    }
}

impl Mirrored {
    /// The objects, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.objects.values().map(|object| object.value.as_ref())
    }
}
