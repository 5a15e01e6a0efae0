//! HTTP responses of the service.

use bytes::Bytes;
use depguard_core::Review;
use depguard_core::decision::{Causes, Sender};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::json;

/// Maximum length of a sentence, in characters: a part of the request may be repeated in it.
const MAX_LEN: usize = 400;

/// Returns the HTTP response with a sentence for a person.
pub(crate) fn text(status: StatusCode, sentence: impl Into<String>) -> Response<Full<Bytes>> {
    let mut sentence = sentence.into();
    if let Some((end, _)) = sentence.char_indices().nth(MAX_LEN) {
        sentence.truncate(end);
        sentence.push('…');
    }
    sentence.push('\n');
    response(status, "text/plain; charset=utf-8", sentence)
}

/// Returns the HTTP response with an answered AdmissionReview.
pub(crate) fn review(json: Bytes) -> Response<Full<Bytes>> {
    response(StatusCode::OK, "application/json", json)
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

// === AdmissionReviews without a Decision

/// Returns the AdmissionReview that refuses the review with this `uid`; nothing else of the review need be known.
pub(crate) fn refusal(uid: &str, sender: Sender, message: &str, causes: &Causes) -> Vec<u8> {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": false, "status": sender.status(uid, message, causes)},
    })
    .to_string()
    .into_bytes()
}

/// Returns the AdmissionReview that answers a review: the refusal with this `message`, or else the allowance with these
/// warnings.
pub(crate) fn decided(review: &Review<'_>, message: Option<String>, causes: &Causes, warnings: &[String]) -> Vec<u8> {
    match message {
        Some(message) => refusal(review.uid(), Sender::from_review(review), &message, causes),
        None => allowed(review.uid(), warnings),
    }
}

/// Returns the AdmissionReview that allows a review, with these warnings.
fn allowed(uid: &str, warnings: &[String]) -> Vec<u8> {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": true, "warnings": warnings},
    })
    .to_string()
    .into_bytes()
}
