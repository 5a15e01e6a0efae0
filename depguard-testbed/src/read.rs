//! Get and list, page by page on one revision.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use crate::kinds::{Origin, Resource};
use crate::reply::{self, Reply};
use crate::routes::{Objects, Query};
use crate::selectors::Selector;
use crate::status::{ApiError, ApiResult};
use crate::store::{Key, Range, Stored, TooOld};
use crate::view::{self, Reach, Target};
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
    Ok(reply::json(200, &present(resource, &stored.object)))
}

pub(crate) fn list(world: &World, target: &Target, query: &Query) -> ApiResult<Reply> {
    let resource = &target.resource;
    let selector = Selector::of_list(query, target)?;
    if query.value("continue").is_some() && query.value("resourceVersion").is_some() {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let token = query.value("continue").map(Token::parse).transpose()?;
    let (stored, revision) = match &token {
        Some(token) => {
            let then = world.store.list_at(range(target), token.revision);
            (then.map_err(|TooOld| expired_continue())?, token.revision)
        }
        None => world.store.list(range(target)),
    };
    let mut wanted = visible(world, target, stored).into_iter().filter(|stored| {
        token.as_ref().is_none_or(|token| token.is_before(&stored.key)) && selector.matches(&stored.object)
    });
    let limit = query.number("limit").filter(|limit| *limit > 0).map_or(usize::MAX, |limit| limit as usize);
    let page: Vec<Stored> = wanted.by_ref().take(limit).collect();
    let remaining = wanted.count();

    let mut metadata = Map::new();
    if resource.origin != Origin::BuiltIn {
        // Custom resources' lists have the member also where it says nothing.
        metadata.insert("continue".to_owned(), json!(""));
    }
    if remaining > 0
        && let Some(last) = page.last()
    {
        metadata.insert("continue".to_owned(), json!(Token::print(revision, &last.key)));
        if query.value("labelSelector").is_none() && query.value("fieldSelector").is_none() {
            metadata.insert("remainingItemCount".to_owned(), json!(remaining));
        }
    }
    metadata.insert("resourceVersion".to_owned(), json!(revision.to_string()));
    let items = page.iter().map(|stored| present_item(resource, &stored.object)).collect();
    Ok(list_reply(resource, Value::Object(metadata), items))
}

/// What kcp's virtual workspaces make of a shard's 404: a list without a `resourceVersion`, or a
/// watch that never says anything.
pub(crate) fn nothing(target: &Target, watch: bool) -> Reply {
    if watch {
        return reply::stream(futures::stream::pending());
    }
    list_reply(&target.resource, json!({}), Vec::new())
}

pub(crate) fn expired_continue() -> ApiError {
    ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter.",
    )
}

/// The list of some objects as one value.
pub(crate) fn list_value(resource: &Resource, revision: u64, items: &[Value]) -> Value {
    json!({
        "kind": resource.list_kind, "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": revision.to_string()}, "items": items,
    })
}

/// An object as it is served in this version: versions differ in nothing but their name.
pub(crate) fn present(resource: &Resource, object: &Value) -> Value {
    let mut shown = object.clone();
    shown["kind"] = json!(resource.kind);
    shown["apiVersion"] = json!(resource.api_version());
    shown
}

/// The part of the store a request is about.
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

/// Those of the objects that may be seen through this door.
pub(crate) fn visible(world: &World, target: &Target, stored: Vec<Stored>) -> Vec<Stored> {
    let mut last: Option<(String, bool)> = None;
    let mut reached = |cluster: &str| {
        let Reach::Every(export) = &target.reach else {
            return true;
        };
        if let Some((known, answer)) = &last
            && known == cluster
        {
            return *answer;
        }
        let answer = view::sees(world, export, cluster, &target.resource);
        last = Some((cluster.to_owned(), answer));
        answer
    };
    stored.into_iter().filter(|stored| reached(&stored.key.cluster) && is_visible(target, &stored.object)).collect()
}

pub(crate) fn is_visible(target: &Target, object: &Value) -> bool {
    target.bindings_of.as_ref().is_none_or(|export| view::binds(object, export))
}

fn present_item(resource: &Resource, object: &Value) -> Value {
    let mut shown = present(resource, object);
    if resource.origin == Origin::BuiltIn
        && let Some(fields) = shown.as_object_mut()
    {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    shown
}

/// The members in the order of the API server: sorted for custom resources, metadata first for
/// the kinds that are compiled in.
fn list_reply(resource: &Resource, metadata: Value, items: Vec<Value>) -> Reply {
    let (kind, version) = (json!(resource.list_kind), json!(resource.api_version()));
    let items = Value::Array(items);
    let body = if resource.origin == Origin::BuiltIn {
        format!("{{\"kind\":{kind},\"apiVersion\":{version},\"metadata\":{metadata},\"items\":{items}}}\n")
    } else {
        format!("{{\"apiVersion\":{version},\"items\":{items},\"kind\":{kind},\"metadata\":{metadata}}}\n")
    };
    drop((metadata, items));
    reply::bytes(200, "application/json", body.into())
}

/// Where a paged list goes on: after this key, at this revision.
struct Token {
    revision: u64,
    cluster: String,
    namespace: String,
    name: String,
}

impl Token {
    fn print(revision: u64, last: &Key) -> String {
        let token = json!([revision, last.cluster, last.namespace, last.name]);
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn parse(text: &str) -> ApiResult<Self> {
        let invalid = || ApiError::bad_request("invalid continue token: continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        let (revision, cluster, namespace, name) = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        Ok(Self { revision, cluster, namespace, name })
    }

    fn is_before(&self, key: &Key) -> bool {
        (&self.cluster, &self.namespace, &self.name) < (&key.cluster, &key.namespace, &key.name)
    }
}
