//! Differences between the expectation of a test and the decision.

use std::collections::BTreeSet;

use super::case::Difference;
use super::suite::{Expect, Request, Test};
use crate::engine::simulated_delete::{Judgment, ReferrerSet};

/// Verdicts by which objects are refused for their references, and not because something is unknown.
const REFUSED: [&str; 2] = ["referenced", "missing-targets"];

/// Returns the differences from the expectation. A test may leave out any field, which then may have any value.
pub(super) fn differences(test: &Test, judgment: &Judgment) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut differs = |what, expected: String, got: String| differences.push(Difference { what, expected, got });
    let label = judgment.label();
    let as_expected = match test.expect {
        Expect::Allowed => judgment.allowed(),
        Expect::Denied => REFUSED.contains(&label),
        other => label == other.as_str(),
    };
    if !as_expected {
        let told = judgment.message().map(|message| format!(": {message}")).unwrap_or_default();
        let got = match (judgment.allowed(), label) {
            (true, label) => format!("allowed ({label})"),
            (false, label) if REFUSED.contains(&label) => "denied".to_owned(),
            (false, label) => label.to_owned(),
        };
        differs("decision", test.expect.as_str().to_owned(), format!("{got}{told}"));
    }
    let is_deletion = matches!(test.request(), Ok(Request::Delete(_)));
    let lists = if is_deletion {
        [
            ("blockers", &test.blockers, dependents(&judgment.blockers())),
            ("warned", &test.warned, dependents(&judgment.warned())),
            ("audited", &test.audited, dependents(&judgment.audited())),
        ]
    } else {
        [
            ("missing", &test.missing, (judgment.missing_targets(), false)),
            ("warned", &test.warned, (judgment.missing_warned(), false)),
            ("audited", &test.audited, (judgment.missing_audited(), false)),
        ]
    };
    for (what, expected, (found, is_more)) in lists {
        let Some(expected) = expected else { continue };
        let expected: BTreeSet<_> = expected.iter().cloned().collect();
        if is_more || expected != found {
            let more = if is_more { ", and more than a refusal names" } else { "" };
            differs(what, listed(&expected), format!("{}{more}", listed(&found)));
        }
    }
    if let Some(expected) = &test.message
        && judgment.message().as_ref() != Some(expected)
    {
        differs("message", expected.clone(), judgment.message().unwrap_or_else(|| "none".to_owned()));
    }
    if let Some(expected) = &test.warnings
        && judgment.warnings() != *expected
    {
        let listed = |warnings: &[String]| if warnings.is_empty() { "none".to_owned() } else { warnings.join("; ") };
        differs("warnings", listed(expected), listed(&judgment.warnings()));
    }
    differences
}

fn listed(names: &BTreeSet<String>) -> String {
    if names.is_empty() { "none".to_owned() } else { names.iter().cloned().collect::<Vec<_>>().join(", ") }
}

/// Returns the names of dependents, and whether there are more.
fn dependents(referring: &ReferrerSet) -> (BTreeSet<String>, bool) {
    (referring.objects.iter().map(ToString::to_string).collect(), referring.more)
}
