//! Stores many objects at once.

use serde_json::{Value, json};

use crate::options::Kind;
use crate::protocol::json::{map_at, now, set_annotation, text, uuid};
use crate::world::{CLUSTER, ONLY, World};

/// Place for objects: `Place::new("apps", "v1", "deployments").namespace("shop").workspace("root:tenant")`.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    workspace: &'a str,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    namespace: &'a str,
}

impl<'a> Place<'a> {
    /// Returns the place of a resource's objects in no namespace. `resource` is the plural in lower case, `version` a
    /// served version of the group.
    pub const fn new(group: &'a str, version: &'a str, resource: &'a str) -> Self {
        Self { workspace: "", group, version, resource, namespace: "" }
    }

    /// Uses this namespace.
    #[must_use]
    pub const fn namespace(self, namespace: &'a str) -> Self {
        Self { namespace, ..self }
    }

    /// Uses the workspace with this path or logical cluster. A kcp needs one; a plain Kubernetes ignores it.
    #[must_use]
    pub const fn workspace(self, workspace: &'a str) -> Self {
        Self { workspace, ..self }
    }
}

/// Reason why objects could not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FillError {
    /// There is no such workspace.
    #[error("workspace `{0}` does not exist: create it first")]
    Workspace(String),
    /// The workspace does not serve the resource in that version.
    #[error("the API server does not serve `{0}`: create its definition, or bind its export, first")]
    Resource(String),
    /// Number of objects without a name. The others were stored.
    #[error("objects without `metadata.name` were left out: {0}")]
    Unnamed(usize),
}

pub(crate) fn fill(
    world: &World,
    place: &Place<'_>,
    objects: impl IntoIterator<Item = Value>,
) -> Result<usize, FillError> {
    let cluster = match world.kind {
        Kind::Kubernetes => Some(ONLY.to_owned()),
        Kind::Kcp => world.cluster_of(place.workspace),
    };
    let cluster = cluster.ok_or_else(|| FillError::Workspace(place.workspace.to_owned()))?;
    let resource = world
        .find(&cluster, place.group, place.version, place.resource)
        .ok_or_else(|| FillError::Resource(format!("{}.{}.{}", place.resource, place.version, place.group)))?;
    let created = now();
    let (mut count, mut unnamed) = (0, 0);
    let stamped = objects.into_iter().filter_map(|mut object| {
        let Some(name) = text(&object, "/metadata/name").map(str::to_owned) else {
            unnamed += 1;
            return None;
        };
        count += 1;
        if world.kind == Kind::Kcp {
            set_annotation(&mut object, CLUSTER, &cluster);
        }
        let metadata = map_at(&mut object, &["metadata"]);
        metadata.insert("uid".to_owned(), json!(uuid()));
        metadata.insert("creationTimestamp".to_owned(), json!(created));
        metadata.insert("generation".to_owned(), json!(1));
        if resource.namespaced {
            metadata.insert("namespace".to_owned(), json!(place.namespace));
        }
        Some((resource.key(&cluster, place.namespace, &name), object))
    });
    world.store.fill(&resource.group, &resource.plural, &resource.selectable, stamped);
    if unnamed == 0 { Ok(count) } else { Err(FillError::Unnamed(unnamed)) }
}
