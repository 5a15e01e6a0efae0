//! SARIF 2.1.0, for code scanning.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::{CheckList, Level, Place, Problem};
use crate::io::exit::Failure;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Returns the log. A run that may miss problems is no successful one.
pub(super) fn print(list: &CheckList) -> Result<String, Failure> {
    let rules: BTreeMap<_, _> = list.problems().map(|problem| (problem.code, problem.about)).collect();
    let rules: Vec<_> = rules
        .into_iter()
        .map(|(code, about)| json!({"id": code, "name": code, "shortDescription": {"text": about}}))
        .collect();
    let notifications: Vec<_> =
        list.gaps.iter().map(|gap| json!({"level": "error", "message": {"text": gap}})).collect();
    super::json(&json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": format!("kubectl depguard {}", list.command),
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "invocations": [{
                "executionSuccessful": list.gaps.is_empty(),
                "toolExecutionNotifications": notifications,
            }],
            "results": list.problems().map(result).collect::<Vec<_>>(),
        }],
    }))
}

fn result(problem: &Problem) -> Value {
    let Problem { code, level, place, subject, message, .. } = problem;
    let level = match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    };
    let logical = json!([{"fullyQualifiedName": subject, "kind": "object"}]);
    let location = match place {
        None => json!({"logicalLocations": logical}),
        Some(place @ Place { line, .. }) => json!({
            "logicalLocations": logical,
            "physicalLocation": {
                "artifactLocation": {"uri": uri(place.path())},
                "region": {"startLine": line},
            },
        }),
    };
    json!({"ruleId": code, "level": level, "message": {"text": message}, "locations": [location]})
}

/// Returns a path as a URI. Each byte that has a meaning in URIs, or none, is escaped.
fn uri(path: &str) -> String {
    let mut uri = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            byte => {
                // Writing to a string can't fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}
