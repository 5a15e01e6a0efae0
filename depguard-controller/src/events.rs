//! Events: on a rule, for changes of what is said on it, and on others.

use depguard_core::api;
use depguard_kcp::Endpoint;
use serde_json::{Value, json};

const COMPONENT: &str = "depguard-controller";
/// The namespace of events about what has none.
const NAMESPACE: &str = "default";
/// The longest message of an event, in bytes.
const MAX_MESSAGE: usize = 1024;

/// What an event is about.
pub(crate) struct Event<'v> {
    pub(crate) api_version: &'v str,
    pub(crate) kind: &'v str,
    /// The whole object.
    pub(crate) object: &'v Value,
}

/// The events for what differs between two states of a rule: a condition's status or reason. `now` is RFC 3339.
///
/// A rule that is well from the beginning has one event, that it is enforced.
pub(crate) fn of_change(before: &Value, after: &Value, now: &str) -> Vec<Value> {
    let conditions =
        |rule: &Value| rule.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let known = conditions(before);
    let news = conditions(after).into_iter().filter(|condition| {
        let same = |field: &str, other: &Value| condition.get(field) == other.get(field);
        match known.iter().find(|known| same("type", known)) {
            Some(known) => !same("status", known) || !same("reason", known),
            None => !is_true(condition) || text(condition, "type") == "Enforced",
        }
    });
    news.map(|condition| event(after, &condition, now)).collect()
}

/// Writes events where the rule is. That is a courtesy, and may not be allowed.
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
    /// The event, `Normal` or `Warning`. `now` is RFC 3339.
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
