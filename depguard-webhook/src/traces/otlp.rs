//! Spans in the JSON form of the OpenTelemetry protocol (OTLP 1.x).

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::read_span::ReadStats;
use super::review_trace::{About, Read, ReviewTrace};

/// `SPAN_KIND_SERVER`, `SPAN_KIND_CLIENT` and `STATUS_CODE_ERROR` of the protocol.
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const ERROR: u8 = 2;
/// `flags` of a sampled span.
const SAMPLED: u8 = 1;

/// Returns the spans of these traces as one request, and their number.
pub(super) fn request(traces: &[Arc<ReviewTrace>]) -> (Vec<u8>, u64) {
    let spans: Vec<_> = traces.iter().flat_map(|trace| spans(trace)).collect();
    let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
    let resource = [text("service.name", "depguard-webhook"), text("service.version", env!("CARGO_PKG_VERSION"))];
    let request = json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "depguard-webhook"}, "spans": spans}],
    }]});
    (request.to_string().into_bytes(), count)
}

/// Returns the number of a trace's spans.
pub(super) fn count(trace: &ReviewTrace) -> u64 {
    u64::try_from(trace.state().reads.len()).unwrap_or(u64::MAX).saturating_add(1)
}

fn spans(trace: &ReviewTrace) -> Vec<Value> {
    let state = trace.state();
    let mut attributes = Vec::new();
    if let Some(About { operation, resource, decision, dry_run }) = &state.about {
        attributes = vec![
            text("depguard.operation", operation),
            text("depguard.resource", resource),
            text("depguard.decision", decision),
            json!({"key": "depguard.dry_run", "value": {"boolValue": dry_run}}),
        ];
    }
    if state.dropped > 0 {
        attributes.push(number("depguard.reads_without_span", u64::from(state.dropped)));
    }
    let review = Span { id: trace.span, parent: trace.parent, name: "review", kind: SERVER };
    let mut spans = vec![review.json(trace, Duration::ZERO, state.took, &attributes, false)];
    for (read, number) in state.reads.iter().zip(1_u64..) {
        // An id is never zero.
        let id = trace.span.checked_add(number).unwrap_or(number);
        spans.push(of_read(trace, id, read));
    }
    spans
}

fn of_read(trace: &ReviewTrace, id: u64, read: &Read) -> Value {
    let mut attributes = vec![text("depguard.resource", &read.resource)];
    match read.stats {
        Some(ReadStats { status, pages, bytes }) => {
            attributes.extend(status.map(|status| number("http.response.status_code", u64::from(status))));
            attributes.push(number("depguard.pages", u64::from(pages)));
            attributes.push(number("depguard.bytes", bytes));
        }
        None => attributes.push(text("depguard.outcome", "given-up")),
    }
    let failed = read.stats.is_none_or(|stats| stats.is_error());
    let span = Span { id, parent: Some(trace.span), name: read.verb, kind: CLIENT };
    span.json(trace, read.after, read.took, &attributes, failed)
}

struct Span<'a> {
    id: u64,
    parent: Option<u64>,
    name: &'a str,
    kind: u8,
}

impl Span<'_> {
    /// Returns the span, which began so long after the review, and took so long.
    fn json(self, trace: &ReviewTrace, after: Duration, took: Duration, attributes: &[Value], failed: bool) -> Value {
        let begun = trace.begun_at.checked_add(after).unwrap_or(trace.begun_at);
        let ended = begun.checked_add(took).unwrap_or(begun);
        let mut span = json!({
            "traceId": format!("{:032x}", trace.trace),
            "spanId": format!("{:016x}", self.id),
            "name": self.name,
            "kind": self.kind,
            "flags": SAMPLED,
            "startTimeUnixNano": nanoseconds(begun),
            "endTimeUnixNano": nanoseconds(ended),
            "attributes": attributes,
        });
        let parent = self.parent.map(|parent| ("parentSpanId", json!(format!("{parent:016x}"))));
        let status = failed.then(|| ("status", json!({"code": ERROR})));
        for (field, value) in parent.into_iter().chain(status) {
            if let Some(fields) = span.as_object_mut() {
                fields.insert(field.to_owned(), value);
            }
        }
        span
    }
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Returns a number as the protocol writes it: as a string.
fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}
