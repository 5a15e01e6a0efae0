//! PATCH: a merge, or server-side apply.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::act::Act;
use crate::apply;
use crate::status::{ApiError, ApiResult};
use crate::write;

/// The answer's code (201 where an apply created the object) and the object.
pub(crate) async fn patch(
    act: &Act<'_>,
    name: &str,
    subresource: Option<&str>,
    content_type: &str,
    body: &[u8],
) -> ApiResult<(u16, Arc<Value>)> {
    let patch: Value =
        serde_json::from_slice(body).map_err(|why| ApiError::bad_request(format!("the patch can't be read: {why}")))?;
    if !patch.is_object() {
        return Err(ApiError::bad_request("the patch is no JSON object"));
    }
    match content_type.split(';').next().unwrap_or_default().trim() {
        // Strategic differs from a plain merge only in lists of the kinds that are compiled in.
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            let merged = write::update(act, name, subresource, |old| {
                let mut object = old.clone();
                merge(&mut object, &patch);
                // Without a version in the patch itself, whoever came between is no conflict.
                if patch.pointer("/metadata/resourceVersion").is_none() {
                    object["metadata"]["resourceVersion"] = json!("");
                }
                Ok(object)
            });
            Ok((200, merged.await?))
        }
        "application/apply-patch+yaml" => apply::apply(act, name, subresource, &patch).await,
        other => Err(ApiError::unsupported_media_type(other)),
    }
}

/// RFC 7386: maps are merged, `null` removes, everything else replaces.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    let Some(fields) = into.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
