//! Get, and the common parts of reading.

pub(crate) mod form;
pub(crate) mod list;
pub(crate) mod selectors;
pub(crate) mod table;
pub(crate) mod watch;

use serde_json::{Value, json};

use crate::kinds::Resource;
use crate::kinds::scale::SCALE;
use crate::protocol::reply::{self, Reply};
use crate::protocol::routes::Objects;
use crate::protocol::status::{ApiError, ApiResult};
use crate::request::view::{self, Reach, Target};
use crate::store::{Range, StoredObject};
use crate::world::World;

pub(crate) fn get(world: &World, target: &Target, objects: &Objects) -> ApiResult<Reply> {
    let Reach::One(cluster) = &target.reach else {
        return Err(ApiError::method_not_allowed());
    };
    let name = objects.name.as_deref().unwrap_or_default();
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let resource = &target.resource;
    let stored = world
        .store
        .get(&resource.key(cluster, namespace, name))
        .filter(|stored| is_visible(target, &stored.object))
        .ok_or_else(|| ApiError::not_found(&resource.group, &resource.plural, name))?;
    let shown = match (objects.subresource.as_deref(), &resource.scale) {
        (Some(SCALE), Some(paths)) => paths.read(&stored.object)?,
        _ => present(resource, &stored.object),
    };
    Ok(reply::json(200, &shown))
}

/// Returns the answer of kcp's virtual workspaces after a shard's 404: a list without a `resourceVersion`, or a watch
/// without events.
pub(crate) fn nothing(target: &Target, watch: bool) -> Reply {
    if watch {
        return reply::stream(futures::stream::pending());
    }
    list::reply(&target.resource, &json!({}), &[])
}

/// Returns a list of objects as one value.
pub(crate) fn list_value(resource: &Resource, revision: u64, items: &[Value]) -> Value {
    json!({
        "kind": resource.list_kind, "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": revision.to_string()}, "items": items,
    })
}

/// Returns an object as it is served in this version. Versions differ in nothing but their name.
pub(crate) fn present(resource: &Resource, object: &Value) -> Value {
    let mut shown = object.clone();
    shown["kind"] = json!(resource.kind);
    shown["apiVersion"] = json!(resource.api_version());
    shown
}

/// Returns the part of the store that a request is about.
pub(crate) fn range(target: &Target) -> Range<'_> {
    Range {
        group: &target.resource.group,
        resource: &target.resource.plural,
        cluster: match &target.reach {
            Reach::One(cluster) => Some(cluster),
            Reach::Every(_) => None,
        },
        namespace: target.namespace.as_deref(),
    }
}

/// Returns those of the objects that are visible through this door.
pub(crate) fn visible(world: &World, target: &Target, stored: Vec<StoredObject>) -> Vec<StoredObject> {
    let reached = view::reached(world, target);
    let is_reached = |cluster: &str| reached.as_ref().is_none_or(|reached| reached.contains(cluster));
    stored.into_iter().filter(|stored| is_reached(&stored.key.cluster) && is_visible(target, &stored.object)).collect()
}

pub(crate) fn is_visible(target: &Target, object: &Value) -> bool {
    target.bindings_of.as_ref().is_none_or(|export| view::binds(object, export))
}
