//! PATCH requests: a merge, a JSON patch, or server-side apply.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::kinds::Origin;
use crate::protocol::json::{map_at, text};
use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;
use crate::write::json_patch::JsonPatch;
use crate::write::{self, apply};

/// Patches an object. Returns the answer's code (201 if an apply created the object) and the object.
pub(crate) async fn patch(
    act: &Act<'_>,
    name: &str,
    subresource: Option<&str>,
    content_type: &str,
    body: &[u8],
) -> ApiResult<(u16, Arc<Value>)> {
    let patch: Value =
        serde_json::from_slice(body).map_err(|why| ApiError::bad_request(format!("the patch can't be read: {why}")))?;
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    if content_type == "application/json-patch+json" {
        let patch = JsonPatch::parse(patch)?;
        let patched = write::update(act, name, subresource, |old| {
            let object = patch.apply(old)?;
            check(act, name, old, &object)?;
            Ok(object)
        });
        return Ok((200, patched.await?));
    }
    if !patch.is_object() {
        return Err(ApiError::bad_request("the patch is not a JSON object"));
    }
    match content_type {
        // A strategic merge differs from a plain merge only in lists of the kinds that are compiled in.
        "application/strategic-merge-patch+json" if act.resource.origin != Origin::BuiltIn => {
            Err(ApiError::unsupported_media_type(content_type))
        }
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            let merged = write::update(act, name, subresource, |old| {
                let mut object = old.clone();
                json_patch::merge(&mut object, &patch);
                check(act, name, old, &object)?;
                // If the patch names no version, a concurrent write is no conflict.
                if patch.pointer("/metadata/resourceVersion").is_none() {
                    map_at(&mut object, &["metadata"]).insert("resourceVersion".to_owned(), json!(""));
                }
                Ok(object)
            });
            Ok((200, merged.await?))
        }
        "application/apply-patch+yaml" => apply::apply(act, name, subresource, &patch).await,
        other => Err(ApiError::unsupported_media_type(other)),
    }
}

/// Refuses results that no patch may have.
fn check(act: &Act<'_>, name: &str, old: &Value, object: &Value) -> ApiResult<()> {
    let invalid = |field: &str, why: &str| {
        let cause = Cause::new("FieldValueInvalid", field, why);
        Err(ApiError::invalid(&act.resource.group, &act.resource.kind, name, &[cause]))
    };
    if !object["metadata"].is_object() {
        return invalid("patch", "Invalid value: the patched object has no metadata");
    }
    if let Some(renamed) = text(object, "/metadata/name").filter(|renamed| *renamed != name) {
        let why = format!("the name of the object ({renamed}) does not match the name on the URL ({name})");
        return Err(ApiError::bad_request(why));
    }
    match text(object, "/metadata/uid") {
        Some(uid) if Some(uid) != text(old, "/metadata/uid") => {
            invalid("metadata.uid", &format!("Invalid value: \"{uid}\": field is immutable"))
        }
        _ => Ok(()),
    }
}
