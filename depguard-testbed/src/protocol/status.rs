//! Errors as an API server returns them: `metav1.Status`.

use serde_json::{Value, json};

use crate::options::Kind;
use crate::protocol::routes::Objects;

/// Refusal that is ready to be sent: the HTTP code and its `metav1.Status`.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) status: Value,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        Self { code, status }
    }

    fn with_details(mut self, details: Value) -> Self {
        self.status["details"] = details;
        self
    }

    /// Makes an error of a webhook's status.
    pub(crate) fn from_status(code: u16, status: Value) -> Self {
        Self { code, status }
    }

    pub(crate) fn message(&self) -> &str {
        self.status["message"].as_str().or(self.status.as_str()).unwrap_or_default()
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// Returns the 404 of a path without content, in plain text. An API server answers so for a group, version or
    /// resource that it doesn't serve; clients make a status of it.
    pub(crate) fn no_such_path() -> Self {
        Self { code: 404, status: Value::from("404 page not found\n") }
    }

    /// Returns the 404 of a missing resource in a group that is compiled in.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(json!({}))
    }

    /// Returns a virtual workspace's version of such a 404 from the server behind it. Only lists and watches go through
    /// its wildcard.
    pub(crate) fn not_through_wildcard() -> Self {
        let details = json!({"causes": [{"message": "404 page not found", "reason": "UnexpectedServerResponse"}]});
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(details)
    }

    pub(crate) fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let of = qualified(group, resource);
        Self::new(404, "NotFound", format!("{of} \"{name}\" not found")).with_details(details(group, resource, name))
    }

    pub(crate) fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let of = qualified(group, resource);
        Self::new(409, "AlreadyExists", format!("{of} \"{name}\" already exists"))
            .with_details(details(group, resource, name))
    }

    pub(crate) fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let of = qualified(group, resource);
        let message = format!("Operation cannot be fulfilled on {of} \"{name}\": {why}");
        Self::new(409, "Conflict", message).with_details(details(group, resource, name))
    }

    /// Returns the 409 of a write whose `resourceVersion` is no longer the object's.
    pub(crate) fn stale(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    pub(crate) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let of = qualified(group, resource);
        let subject = if name.is_empty() { of } else { format!("{of} \"{name}\"") };
        Self::new(403, "Forbidden", format!("{subject} is forbidden: {why}"))
            .with_details(details(group, resource, name))
    }

    /// Returns the 403 of an authorizer, with the user, the right and the scope. kcp adds that access is denied;
    /// Kubernetes adds nothing.
    pub(crate) fn denied(kind: Kind, user: &str, verb: &str, objects: &Objects) -> Self {
        let Objects { group, plural, .. } = objects;
        let scope = match objects.scope() {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let resource = objects.resource();
        let end = if kind == Kind::Kcp { ": access denied" } else { "" };
        let why =
            format!("User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}{end}");
        Self::forbidden(group, plural, objects.name.as_deref().unwrap_or_default(), &why)
    }

    pub(crate) fn denied_path(user: &str, path: &str, why: &str) -> Self {
        let end = if why.is_empty() { String::new() } else { format!(": {why}") };
        let message = format!("forbidden: User \"{user}\" cannot get path \"{path}\"{end}");
        Self::new(403, "Forbidden", message).with_details(json!({}))
    }

    /// Returns kcp's answer for the virtual workspace of a missing export.
    pub(crate) fn no_such_export(path: &str, export: &str) -> Self {
        let why = format!("API export not found: apiexport.apis.kcp.io \"{export}\" not found");
        Self { code: 500, status: Value::from(format!("Internal Server Error: \"{path}\": {why}\n")) }
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into())
    }

    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let list: Vec<String> = causes.iter().map(Cause::to_string).collect();
        let said = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let of = qualified(group, kind);
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect();
        let mut details = json!({"group": group, "kind": kind, "causes": causes});
        if !name.is_empty() {
            details["name"] = json!(name);
        }
        Self::new(422, "Invalid", format!("{of} \"{name}\" is invalid: {said}")).with_details(details)
    }

    /// Returns the 422 of a patch that doesn't fit the object, or whose test fails.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).with_details(json!({}))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(json!({}))
    }

    pub(crate) fn unsupported_media_type(got: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, \
             application/apply-patch+yaml; got `{got}`"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn expired(message: &str) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_many_requests(retry_after: u64) -> Self {
        let message = "too many requests, please try again later";
        Self::new(429, "TooManyRequests", message).with_details(json!({"retryAfterSeconds": retry_after}))
    }

    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn too_large() -> Self {
        Self::new(413, "RequestEntityTooLarge", "request entity too large")
    }

    /// Returns the front-proxy's answer if a shard can't be reached.
    pub(crate) fn bad_gateway() -> Self {
        Self::new(502, "", "Bad Gateway".to_owned())
    }

    pub(crate) fn internal(message: &str) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .with_details(json!({"causes": [{"message": message}]}))
    }
}

/// Error in an object, at one field.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn new(reason: &'static str, field: &str, message: impl Into<String>) -> Self {
        Self { reason, field: field.to_owned(), message: message.into() }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.field, self.message)
    }
}

/// Returns `vpcs.network.example.com`, or `configmaps` for the core group.
pub(crate) fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn details(group: &str, resource: &str, name: &str) -> Value {
    let mut details = json!({"kind": resource});
    if !group.is_empty() {
        details["group"] = json!(group);
    }
    if !name.is_empty() {
        details["name"] = json!(name);
    }
    details
}
