//! Methods of an [`Endpoint`] that read and write single objects: JSON in, JSON out, and errors that carry the API
//! server's message.

use bytes::Bytes;
use depguard_core::model::percent_encode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::http::endpoint::{Endpoint, RequestError, request};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_PATCH: HeaderValue = HeaderValue::from_static("application/json-patch+json");
// JSON is YAML. Every API server accepts this type, also one older than the type for JSON.
const APPLY: HeaderValue = HeaderValue::from_static("application/apply-patch+yaml");

/// Reason why an object could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The request had no response.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The API server refused.
    #[error("`{request}` was refused: {status}")]
    Refused {
        /// Method and path: `GET /apis/…`
        request: String,
        /// Status that the API server returned.
        status: Status,
    },
    /// The response is unusable.
    #[error("`{request}` {why}")]
    Unusable {
        /// Method and path: `GET /apis/…`
        request: String,
        /// Error in the response, as the end of a sentence: `was answered with …`
        why: String,
    },
}

/// Content of a metav1.Status, or of an answer without one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Status {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason: `Forbidden`, `AlreadyExists`; empty if none was given.
    pub reason: String,
    /// Text for people, at most 1,000 characters.
    pub message: String,
    /// Name of the object that the status is about; empty if none was given.
    pub name: String,
    /// Causes in detail.
    pub causes: Vec<Cause>,
}

/// Entry of a status' `details.causes`. Each field is empty if none was given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Cause {
    /// Machine-readable reason: depguard's own is `StillReferenced`.
    pub reason: String,
    /// Text for people.
    pub message: String,
    /// Field that the cause is about.
    pub field: String,
}

/// State in which an object must be to be deleted.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::exhaustive_structs, reason = "Kubernetes' own two")]
pub struct Preconditions<'a> {
    /// Required `metadata.uid`.
    pub uid: Option<&'a str>,
    /// Required `metadata.resourceVersion`.
    pub resource_version: Option<&'a str>,
}

impl Endpoint {
    /// Reads an object.
    pub async fn get_json(&self, path: &str) -> Result<Value, ApiError> {
        self.exchange(Method::GET, path, None, JSON).await
    }

    /// Creates an object. `path` is the path of its collection.
    pub async fn post_json(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.exchange(Method::POST, path, Some(object), JSON).await
    }

    /// Replaces an object. If the object has a `metadata.resourceVersion`, only that state is replaced.
    pub async fn put_json(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.exchange(Method::PUT, path, Some(object), JSON).await
    }

    /// Applies an object (server-side apply) as `field_manager`. With `force`, takes over fields that others own;
    /// without it, such a field leads to a 409.
    pub async fn apply(&self, path: &str, object: &Value, field_manager: &str, force: bool) -> Result<Value, ApiError> {
        let query = format!("fieldManager={}&force={force}", percent_encode(field_manager));
        self.exchange(Method::PATCH, &with_query(path, &query), Some(object), APPLY).await
    }

    /// Changes an object by a JSON patch: either all operations take effect, or none. A failed `test` leads to a 422.
    pub async fn json_patch(&self, path: &str, operations: &Value) -> Result<Value, ApiError> {
        self.exchange(Method::PATCH, path, Some(operations), JSON_PATCH).await
    }

    /// Deletes an object. Returns the object if finalizers keep it, or else a status.
    pub async fn delete(&self, path: &str, only: Preconditions<'_>) -> Result<Value, ApiError> {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        for (field, value) in [("uid", only.uid), ("resourceVersion", only.resource_version)] {
            if let (Some(value), Some(options)) = (value, options.as_object_mut()) {
                let preconditions = options.entry("preconditions").or_insert_with(|| json!({}));
                if let Some(preconditions) = preconditions.as_object_mut() {
                    preconditions.insert(field.to_owned(), Value::from(value));
                }
            }
        }
        self.delete_with(path, &options).await
    }

    /// Asks the API server if it would delete an object. Nothing is deleted.
    pub async fn delete_dry_run(&self, path: &str) -> Result<Value, ApiError> {
        // If a request has a body, API servers follow the body and not the query.
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
        self.delete_with(&with_query(path, "dryRun=All"), &options).await
    }

    /// Deletes an object with the caller's metav1.DeleteOptions.
    pub async fn delete_with(&self, path: &str, options: &Value) -> Result<Value, ApiError> {
        self.exchange(Method::DELETE, path, Some(options), JSON).await
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        content_type: HeaderValue,
    ) -> Result<Value, ApiError> {
        let response = self.answer(method.clone(), path, body, content_type).await?;
        serde_json::from_slice(response.body()).map_err(|why| ApiError::Unusable {
            request: described(&method, self, path),
            why: format!("was answered with something that is not JSON ({why}); check which server answers there"),
        })
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        content_type: HeaderValue,
    ) -> Result<Response<Bytes>, ApiError> {
        let bytes = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let mut request = request(method.clone(), path, bytes)?;
        request.headers_mut().insert(ACCEPT, JSON);
        if body.is_some() {
            request.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        let response = self.send(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = Status::read(response.status(), response.body());
        Err(ApiError::Refused { request: described(&method, self, path), status })
    }
}

impl ApiError {
    /// Returns the HTTP status of the API server's refusal.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.code),
            Self::Request(_) | Self::Unusable { .. } => None,
        }
    }

    /// Returns the API server's reason, such as `AlreadyExists`; empty if there is none.
    pub fn reason(&self) -> &str {
        match self {
            Self::Refused { status, .. } => &status.reason,
            Self::Request(_) | Self::Unusable { .. } => "",
        }
    }

    /// Returns true if the API server knows no such object, or no such resource.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Returns true if the API server says that no object of this name exists. Any other 404 may mean that its kind is
    /// not served at the moment.
    pub fn is_missing(&self, name: &str) -> bool {
        matches!(self, Self::Refused { status, .. } if status.code == 404 && status.name == name)
    }

    /// Returns true if the object changed meanwhile, if it exists already, or if another manager owns a field.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }
}

impl Status {
    /// Reads the status that ends a watch. A status without a code is an error of the server.
    pub(crate) fn of_event(json: &str) -> Self {
        #[derive(Deserialize, Default)]
        struct Code {
            code: u16,
        }
        let Code { code } = serde_json::from_str(json).unwrap_or_default();
        Self::read(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), json.as_bytes())
    }

    pub(crate) fn read(code: StatusCode, body: &[u8]) -> Self {
        let wire: StatusWire = serde_json::from_slice(body).unwrap_or_default();
        let message = if wire.message.is_empty() { String::from_utf8_lossy(body) } else { wire.message.into() };
        Self {
            code: code.as_u16(),
            reason: wire.reason,
            message: message.trim().chars().take(1000).collect(),
            name: wire.details.name,
            causes: wire.details.causes,
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = if self.reason.is_empty() {
            StatusCode::from_u16(self.code).ok().and_then(|code| code.canonical_reason()).unwrap_or_default()
        } else {
            &self.reason
        };
        write!(f, "{} {reason}", self.code)?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StatusWire {
    reason: String,
    message: String,
    details: DetailsWire,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DetailsWire {
    name: String,
    #[serde(deserialize_with = "null_or_items")]
    causes: Vec<Cause>,
}

/// Reads a list that may be `null`, as Go writes an empty list. An answer without the field is no list.
pub(crate) fn null_or_items<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

pub(crate) fn with_query(path: &str, query: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}{query}")
}

pub(crate) fn described(method: &Method, endpoint: &Endpoint, path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    format!("{method} {}{path}", endpoint.base_path())
}
