//! Lists, page by page at one revision.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use crate::kinds::{Origin, Resource};
use crate::protocol::reply::{self, Reply};
use crate::protocol::routes::Query;
use crate::protocol::status::{ApiError, ApiResult};
use crate::read::form::Form;
use crate::read::selectors::Selector;
use crate::read::{self, table};
use crate::request::view::{self, Target};
use crate::store::{Ask, ExpiredRevision, Key, Object, Page};
use crate::world::World;

/// Lists objects. No page has more than `most` objects.
pub(crate) fn list(world: &World, target: &Target, query: &Query, form: Form, most: usize) -> ApiResult<Reply> {
    let resource = &target.resource;
    let selector = Selector::of_list(query, target)?;
    if query.value("continue").is_some() && query.value("resourceVersion").is_some() {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let token = query.value("continue").map(Token::parse).transpose()?;
    let reached = view::reached(world, target);
    let ask = Ask {
        range: read::range(target),
        revision: token.as_ref().map(|token| token.revision),
        after: token.as_ref().map(|token| resource.key(&token.cluster, &token.namespace, &token.name)),
        limit: query.number("limit").filter(|limit| *limit > 0).map_or(usize::MAX, |limit| limit as usize).min(most),
        field: selector.field(resource),
        unfiltered: selector.is_empty() && reached.is_none() && target.bindings_of.is_none(),
    };
    let selects = |key: &Key, object: &Object| {
        reached.as_ref().is_none_or(|reached| reached.contains(&key.cluster))
            && (target.bindings_of.is_none() || read::is_visible(target, &object.value()))
            && (selector.is_empty() || selector.matches(&object.value()))
    };
    let page = world.store.page(&ask, selects).map_err(|ExpiredRevision| expired_continue())?;
    let metadata = metadata(resource, &page, token.as_ref(), selector.is_empty(), form);
    Ok(match form {
        Form::Objects => reply(resource, &metadata, &page.objects),
        Form::Metadata => metadata_reply(&metadata, &page.objects),
        Form::Table(include) => {
            let table = table::render(resource, &metadata, &page.objects, include);
            reply::bytes(200, "application/json", table.into())
        }
    })
}

pub(crate) fn expired_continue() -> ApiError {
    ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter.",
    )
}

fn metadata(resource: &Resource, page: &Page, token: Option<&Token>, count: bool, form: Form) -> Value {
    let mut metadata = Map::new();
    if resource.origin != Origin::BuiltIn && form == Form::Objects {
        // Lists of custom resources have this field even if it is empty.
        metadata.insert("continue".to_owned(), json!(""));
    }
    if page.more
        && let Some(last) = &page.last
    {
        let before = token.and_then(|token| token.remaining);
        let remaining = page.remaining.or_else(|| before?.checked_sub(page.objects.len()));
        metadata.insert("continue".to_owned(), json!(Token::print(page.revision, last, remaining)));
        if let Some(remaining) = remaining.filter(|_| count) {
            metadata.insert("remainingItemCount".to_owned(), json!(remaining));
        }
    }
    metadata.insert("resourceVersion".to_owned(), json!(page.revision.to_string()));
    Value::Object(metadata)
}

/// Returns the list with its fields in the order of the API server: sorted for custom resources, metadata first for the
/// kinds that are compiled in.
pub(crate) fn reply(resource: &Resource, metadata: &Value, objects: &[Arc<Object>]) -> Reply {
    let (kind, version) = (json!(resource.list_kind), json!(resource.api_version()));
    let (head, before, after) = if resource.origin == Origin::BuiltIn {
        let before = format!("{{\"kind\":{kind},\"apiVersion\":{version},\"metadata\":{metadata},\"items\":[");
        ("{".to_owned(), before, "]}\n".to_owned())
    } else {
        let head = format!("{{\"apiVersion\":{version},\"kind\":{},", json!(resource.kind));
        let before = format!("{{\"apiVersion\":{version},\"items\":[");
        (head, before, format!("],\"kind\":{kind},\"metadata\":{metadata}}}\n"))
    };
    items(before, objects.iter().map(|object| object.text().members()), &head, &after)
}

fn metadata_reply(metadata: &Value, objects: &[Arc<Object>]) -> Reply {
    let before = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"items\":"
    );
    if objects.is_empty() {
        // As Go prints a list that nobody has put anything into.
        return reply::bytes(200, "application/json", format!("{before}null}}\n").into());
    }
    let before = format!("{before}[");
    let head = "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",";
    items(before, objects.iter().map(|object| object.text().metadata()), head, "]}\n")
}

fn items<'a>(before: String, members: impl Iterator<Item = &'a str> + Clone, head: &str, after: &str) -> Reply {
    let mut body = before;
    body.reserve(members.clone().map(|members| members.len() + head.len() + 2).sum::<usize>() + after.len());
    for (index, members) in members.enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(head);
        body.push_str(members);
        body.push('}');
    }
    body.push_str(after);
    reply::bytes(200, "application/json", body.into())
}

/// Continue token of a list: its last key and its revision. The number of remaining objects at that revision is counted
/// once.
struct Token {
    revision: u64,
    cluster: String,
    namespace: String,
    name: String,
    remaining: Option<usize>,
}

impl Token {
    fn print(revision: u64, last: &Key, remaining: Option<usize>) -> String {
        let token = json!([revision, last.cluster, last.namespace, last.name, remaining]);
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn parse(text: &str) -> ApiResult<Self> {
        let invalid = || ApiError::bad_request("invalid continue token: continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        let token = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        let (revision, cluster, namespace, name, remaining) = token;
        Ok(Self { revision, cluster, namespace, name, remaining })
    }
}
