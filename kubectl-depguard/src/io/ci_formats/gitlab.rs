//! Code quality report of GitLab.

use std::collections::HashMap;

use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use super::{CheckList, Level, Problem};
use crate::io::exit::Failure;

/// Returns the report. A reason why problems may be missing is an issue of its own.
pub(super) fn print(list: &CheckList) -> Result<String, Failure> {
    let mut seen = HashMap::new();
    let mut issues: Vec<_> = list.problems().map(|problem| issue(problem, &mut seen)).collect();
    issues.extend(list.gaps.iter().map(|message| {
        // GitLab shows only issues with a path.
        json!({
            "check_name": "incomplete",
            "description": message,
            "fingerprint": fingerprint(["incomplete", "", "", message], &mut seen),
            "severity": "blocker",
            "location": {"path": list.command, "lines": {"begin": 1}},
        })
    }));
    super::json(&Value::Array(issues))
}

fn issue(problem: &Problem, seen: &mut HashMap<String, usize>) -> Value {
    let Problem { code, level, place, subject, title, message, .. } = problem;
    let severity = match level {
        Level::Error => "major",
        Level::Warning => "minor",
        Level::Note => "info",
    };
    let (path, line) = place.as_ref().map_or((subject.as_str(), 1), |place| (place.path(), place.line));
    json!({
        "check_name": code,
        "description": format!("{title}: {message}"),
        "fingerprint": fingerprint([code, path, subject, message], seen),
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    })
}

/// Returns the identity of an issue, by which GitLab compares two reports. It doesn't change if the line does. Equal
/// issues are told apart by their number.
fn fingerprint(parts: [&str; 4], seen: &mut HashMap<String, usize>) -> String {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let count = seen.entry(hash.clone()).or_default();
    *count = count.saturating_add(1);
    if *count == 1 { hash } else { format!("{hash}-{count}") }
}
