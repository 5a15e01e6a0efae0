//! Events: on rules, about changes of their conditions, and on other objects.

use depguard_core::api;
use depguard_kcp::Endpoint;
use serde_json::{Value, json};

use crate::model::condition::stored_conditions;

const COMPONENT: &str = "depguard-controller";
/// Namespace of events about objects without a namespace.
const NAMESPACE: &str = "default";
/// Maximum length of an event's message, in bytes.
const MAX_MESSAGE: usize = 1024;

/// Object of an event.
pub(crate) struct Event<'v> {
    pub(crate) api_version: &'v str,
    pub(crate) kind: &'v str,
    /// The whole object.
    pub(crate) object: &'v Value,
}

/// Returns events for the conditions whose status or reason differs between two states of a rule. `now` is in RFC 3339.
///
/// A rule that is well from the beginning gets one event, which says that it is enforced.
pub(crate) fn of_change(before: &Value, after: &Value, now: &str) -> Vec<Value> {
    let news = stored_conditions(after).filter(|condition| {
        let same = |field: &str, other: &Value| condition.get(field) == other.get(field);
        match stored_conditions(before).find(|known| same("type", known)) {
            Some(known) => !same("status", known) || !same("reason", known),
            None => !is_true(condition) || text(condition, "type") == "Enforced",
        }
    });
    news.map(|condition| event(after, condition, now)).collect()
}

/// Writes events beside the rule. Events are a courtesy, and the controller may lack the right to write them.
pub(crate) async fn write(endpoint: &Endpoint, events: &[Value]) {
    for event in events {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/events");
        if let Err(why) = endpoint.post_json(&path, event).await {
            tracing::debug!("could not write an event on a rule: {why}");
            return;
        }
    }
}

fn event(rule: &Value, condition: &Value, now: &str) -> Value {
    let api_version = format!("{}/{}", api::GROUP, api::VERSION);
    let about = Event { api_version: &api_version, kind: api::KIND, object: rule };
    let message = format!("{}: {}", text(condition, "type"), text(condition, "message"));
    let kind = if is_true(condition) { "Normal" } else { "Warning" };
    about.told(kind, text(condition, "reason"), message, now)
}

impl Event<'_> {
    /// Returns the event, `Normal` or `Warning`. `now` is in RFC 3339.
    pub(crate) fn told(&self, kind: &str, reason: &str, mut message: String, now: &str) -> Value {
        let metadata = |field: &str| self.object.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
        let name = metadata("name").unwrap_or_default();
        while message.len() > MAX_MESSAGE {
            message.pop();
        }
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": format!("{}.", name.as_str().unwrap_or_default()), "namespace": NAMESPACE},
            "involvedObject": {
                "apiVersion": self.api_version,
                "kind": self.kind,
                "name": name,
                "uid": metadata("uid").unwrap_or_else(|| json!("")),
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        })
    }
}

fn is_true(condition: &Value) -> bool {
    text(condition, "status") == "True"
}

fn text<'v>(condition: &'v Value, field: &str) -> &'v str {
    condition.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(conditions: &[(&str, &str, &str)]) -> Value {
        let conditions = conditions.iter().map(|(type_, status, reason)| {
            json!({"type": type_, "status": status, "reason": reason, "message": "é".repeat(1000)})
        });
        json!({
            "metadata": {"name": "vm", "uid": "1"}, "status": {"conditions": conditions.collect::<Vec<_>>()},
        })
    }

    fn reasons(before: &Value, after: &Value) -> Vec<String> {
        let events = of_change(before, after, "2026-01-01T00:00:00Z");
        let said = |event: &Value| format!("{} {}", text(event, "type"), text(event, "reason"));
        assert!(events.iter().all(|event| text(event, "message").len() <= 1024));
        events.iter().map(said).collect()
    }

    #[test]
    fn there_is_one_for_each_change_and_none_without() {
        let well = rule(&[("Accepted", "True", "Accepted"), ("Enforced", "True", "Enforced")]);
        let waiting = rule(&[("Accepted", "True", "Accepted"), ("Enforced", "False", "NotProgrammed")]);
        let refused = rule(&[("Accepted", "False", "Invalid"), ("Enforced", "False", "NotEnforceable")]);
        assert_eq!(reasons(&rule(&[]), &well), ["Normal Enforced"]);
        assert_eq!(reasons(&rule(&[]), &refused), ["Warning Invalid", "Warning NotEnforceable"]);
        assert_eq!(reasons(&waiting, &well), ["Normal Enforced"]);
        assert_eq!(reasons(&waiting, &refused), ["Warning Invalid", "Warning NotEnforceable"]);
        assert_eq!(reasons(&refused, &well), ["Normal Accepted", "Normal Enforced"]);
        assert_eq!(reasons(&well, &well), [""; 0]);
    }
}
