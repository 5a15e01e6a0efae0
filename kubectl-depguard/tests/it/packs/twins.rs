//! Twins in the suites of packs: each rule refuses a deletion, and allows one of an object of the same kind.

use std::collections::BTreeSet;

use depguard_controller::packs::RulePack;
use serde_json::Value;

use super::{file, suite};
use crate::tool::{depguard, write};

/// Test of a suite: the kind of the object that it deletes, and the decision that it expects.
type Planned = (String, String);

/// Returns the tests of a suite in their order.
fn planned(suite: &str) -> Vec<Planned> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(suite).unwrap();
    let tests = documents.iter().flat_map(|document| document["tests"].as_array().into_iter().flatten());
    let test = |test: &Value| {
        let text = |field: &str| test[field].as_str().unwrap_or_default().to_owned();
        (text("delete").split('/').next().unwrap_or_default().to_owned(), text("expect"))
    };
    tests.map(test).collect()
}

/// Returns the kinds of objects whose deletions end as expected if a rule is the only one: those that the rule refuses or of
/// which it warns, and those that it looks up dependents for and allows. (Of an object that the rule does not protect,
/// another thing is said.)
async fn kinds(of_rule: &Value, tests: &[Planned], suite: &str) -> [BTreeSet<String>; 2] {
    let folder = tempfile::tempdir().unwrap();
    file(&folder, "rules.yaml", std::slice::from_ref(of_rule));
    let suite = write(folder.path(), "pack.test.yaml", suite);
    let ran = depguard(&["test", "-f", suite.to_str().unwrap(), "-o", "json"]).await;
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {}", ran.err));
    let suites = report["suites"].as_array().unwrap().iter();
    let results: Vec<_> = suites.flat_map(|suite| suite["tests"].as_array().unwrap()).collect();
    assert_eq!(results.len(), tests.len());
    [&["denied", "warned"][..], &["unreferenced"]].map(|expected| {
        let passed = tests.iter().zip(&results).filter(|(_, result)| result["result"] == "pass");
        passed
            .filter(|((_, expect), _)| expected.contains(&expect.as_str()))
            .map(|((kind, _), _)| kind.clone())
            .collect()
    })
}

#[tokio::test]
async fn each_rule_refuses_a_deletion_and_allows_its_twin() {
    for pack in RulePack::all() {
        let suite = suite(pack, "rules.yaml");
        let tests = planned(&suite);
        for rule in pack.rules() {
            let [refused, allowed] = kinds(&rule, &tests, &suite).await;
            assert!(
                refused.intersection(&allowed).next().is_some(),
                "{}: {} refuses a deletion of {refused:?} in its suite, but allows one of {allowed:?} only",
                pack.name,
                rule["metadata"]["name"]
            );
        }
    }
}

/// Takes all allowed deletions out of a suite: the test above would see that.
#[tokio::test]
async fn a_suite_without_allowed_deletions_has_no_twins() {
    let pack = RulePack::by_name("openmcp").unwrap();
    let suite: String = suite(pack, "rules.yaml").lines().filter(|line| !line.contains("expect: unreferenced")).fold(
        String::new(),
        |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        },
    );
    let tests = planned(&suite);
    let [refused, allowed] = kinds(&pack.rules()[0], &tests, &suite).await;
    assert!(!refused.is_empty() && allowed.is_empty(), "{refused:?} {allowed:?}");
}
