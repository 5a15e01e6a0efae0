//! Answers and their bodies.

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Collected, Full, StreamBody};
use hyper::body::{Body as _, Frame};
use serde_json::Value;

use crate::protocol::status::ApiError;

pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;
pub(crate) type Reply = Response<Body>;

pub(crate) fn json(code: u16, value: &Value) -> Reply {
    bytes(code, "application/json", (value.to_string() + "\n").into())
}

pub(crate) fn bytes(code: u16, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

/// Returns an answer whose body is streamed in chunks. An error cuts the connection.
pub(crate) fn stream(lines: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Reply {
    let frames = lines.map(|line| line.map(Frame::data));
    let mut reply = Response::new(StreamBody::new(frames).boxed_unsync());
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

pub(crate) fn error(error: &ApiError) -> Reply {
    if let Some(text) = error.status.as_str() {
        return bytes(error.code, "text/plain; charset=utf-8", text.to_owned().into());
    }
    let mut reply = json(error.code, &error.status);
    if let Some(seconds) = error.status.pointer("/details/retryAfterSeconds").and_then(Value::as_u64) {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    reply
}

/// Adds admission warnings as the API server sends them.
pub(crate) fn with_warnings(mut reply: Reply, warnings: &[String]) -> Reply {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            reply.headers_mut().append(WARNING, value);
        }
    }
    reply
}

/// Returns the same answer, whose connection breaks after half of the body. A stream breaks at its start.
pub(crate) async fn cut(reply: Reply) -> Reply {
    let (mut parts, body) = reply.into_parts();
    let whole = match body.size_hint().exact() {
        Some(_) => body.collect().await.map(Collected::to_bytes).unwrap_or_default(),
        None => Bytes::new(),
    };
    let half = whole.slice(..whole.len() / 2);
    if !whole.is_empty() {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
    }
    let frames = stream::iter([Ok(Frame::data(half)), Err(reset())]);
    Response::from_parts(parts, StreamBody::new(frames).boxed_unsync())
}

/// Returns the error that ends a cut connection.
pub(crate) fn reset() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::ConnectionReset, "cut on demand")
}
