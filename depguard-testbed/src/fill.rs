//! Putting many objects there at once.

use serde_json::{Value, json};

use crate::Kind;
use crate::json::{map_at, now, set_annotation, text, uuid};
use crate::world::{CLUSTER, ONLY, World};

/// Where objects are put.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// A workspace's path or logical cluster; unused in a plain Kubernetes.
    pub workspace: &'a str,
    /// API group.
    pub group: &'a str,
    /// A served version.
    pub version: &'a str,
    /// Lower case plural.
    pub resource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
}

/// Why objects could not be put there.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// No such workspace.
    #[error("there is no workspace `{0}`")]
    Workspace(String),
    /// The workspace does not serve the resource in that version.
    #[error("`{0}` is not served there")]
    Resource(String),
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
    let mut count = 0;
    let stamped = objects.into_iter().map(|mut object| {
        count += 1;
        let name = text(&object, "/metadata/name").unwrap_or_default().to_owned();
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
        (resource.key(&cluster, place.namespace, &name), object)
    });
    world.store.fill(&resource.group, &resource.plural, &resource.selectable, stamped);
    Ok(count)
}
