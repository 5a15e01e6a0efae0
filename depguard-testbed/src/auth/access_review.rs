//! Access reviews: questions about a user's rights and about one's own identity. The server answers them at once and
//! never keeps them.

use serde_json::{Value, json};

use crate::auth::authorize;
use crate::auth::rbac::Wish;
use crate::protocol::identity::User;
use crate::protocol::routes::Objects;
use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;

/// Returns the review with its answer in `status`.
pub(crate) fn answer(act: &Act<'_>, mut review: Value) -> ApiResult<Value> {
    let status = match act.resource.plural.as_str() {
        "selfsubjectreviews" => json!({"userInfo": act.user.info()}),
        "selfsubjectaccessreviews" => judge(act, act.user, &review)?,
        _ => judge(act, &subject(act, &review)?, &review)?,
    };
    review["metadata"] = json!({});
    review["status"] = status;
    Ok(review)
}

fn subject(act: &Act<'_>, review: &Value) -> ApiResult<User> {
    let user = User::described(&review["spec"]);
    if user.name.is_empty() && user.groups.is_empty() {
        let why = "Invalid value: \"\": at least one of user or group must be specified";
        return Err(invalid(act, &Cause::new("FieldValueInvalid", "spec.user", why)));
    }
    Ok(user)
}

fn judge(act: &Act<'_>, user: &User, review: &Value) -> ApiResult<Value> {
    let part = |field| review["spec"].get(field).filter(|part| part.is_object());
    let said = |part: &Value, field: &str| part[field].as_str().unwrap_or_default().to_owned();
    let allowed = match (part("resourceAttributes"), part("nonResourceAttributes")) {
        (Some(attributes), None) => {
            let is = |field| Some(said(attributes, field)).filter(|text| !text.is_empty());
            let objects = Objects {
                group: said(attributes, "group"),
                version: said(attributes, "version"),
                plural: said(attributes, "resource"),
                namespace: is("namespace"),
                name: is("name"),
                subresource: is("subresource"),
            };
            authorize::may(
                act.world,
                user,
                act.cluster,
                Wish::Objects { verb: &said(attributes, "verb"), objects: &objects },
            )
        }
        (None, Some(attributes)) => {
            let (verb, path) = (said(attributes, "verb"), said(attributes, "path"));
            authorize::may(act.world, user, act.cluster, Wish::Path { verb: &verb, path: &path })
        }
        _ => {
            let why =
                "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(invalid(act, &Cause::new("FieldValueInvalid", "spec.resourceAttributes", why)));
        }
    };
    Ok(json!({"allowed": allowed}))
}

fn invalid(act: &Act<'_>, cause: &Cause) -> ApiError {
    ApiError::invalid(&act.resource.group, &act.resource.kind, "", std::slice::from_ref(cause))
}
