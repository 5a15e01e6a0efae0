//! The few responses that are given.

use bytes::Bytes;
use depguard_core::RefusalCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::json;

/// The longest sentence, in characters: what was sent may be repeated in it.
const MAX_LEN: usize = 400;

/// A sentence for a person.
pub(crate) fn text(status: StatusCode, sentence: impl Into<String>) -> Response<Full<Bytes>> {
    let mut sentence = sentence.into();
    if let Some((end, _)) = sentence.char_indices().nth(MAX_LEN) {
        sentence.truncate(end);
        sentence.push('…');
    }
    sentence.push('\n');
    response(status, "text/plain; charset=utf-8", sentence)
}

/// An answered AdmissionReview.
pub(crate) fn review(json: Vec<u8>) -> Response<Full<Bytes>> {
    response(StatusCode::OK, "application/json", json)
}

/// The AdmissionReview that refuses the review of that `uid`, of which no more need be known.
pub(crate) fn refusal(uid: &str, refusal: RefusalCode, message: &str) -> Vec<u8> {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": false, "status": refusal.status(message)},
    })
    .to_string()
    .into_bytes()
}

/// The AdmissionReview that lets a review go on.
pub(crate) fn allowed(uid: &str) -> Vec<u8> {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": uid, "allowed": true}})
        .to_string()
        .into_bytes()
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
