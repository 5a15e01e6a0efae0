//! Suites whose rules or objects don't fit the definitions among their files.

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use super::test;

/// Returns a suite that passes: two kinds, a rule, and objects of them.
fn suite() -> Value {
    let definition = |kind: &str, resource: &str, spec: Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{resource}.zoo.example.org")},
            "spec": {
                "group": "zoo.example.org", "scope": "Namespaced", "names": {"kind": kind, "plural": resource},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": spec}},
                }}}],
            },
        })
    };
    let named = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    json!({
        "rules": [{
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "animals"},
            "spec": {
                "dependent": {"group": "zoo.example.org", "version": "v1", "kind": "Animal", "resource": "animals"},
                "dependencies": [{
                    "group": "zoo.example.org", "version": "v1", "resource": "cages", "fieldRef": {"path": ".spec.cage.name"},
                }],
            },
        }],
        "objects": [
            definition("Animal", "animals", json!({"cage": named})),
            definition("Cage", "cages", json!({"size": {"type": "integer"}})),
            {"apiVersion": "zoo.example.org/v1", "kind": "Cage", "metadata": {"name": "big"}, "spec": {"size": 9}},
            {"apiVersion": "zoo.example.org/v1", "kind": "Animal", "metadata": {"name": "lion"}, "spec": {"cage": {"name": "big"}}},
            // Nothing is known of the kinds of other groups.
            {"apiVersion": "tickets.example.org/v1", "kind": "Ticket", "metadata": {"name": "day"}, "spec": {"any": 1}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hours"}, "data": {"open": "9"}},
        ],
        "tests": [
            {"name": "in use", "delete": "cage/big", "expect": "denied", "blockers": ["Animal/lion"]},
            {"name": "new", "expect": "allowed", "create": {
                "apiVersion": "zoo.example.org/v1", "kind": "Animal", "metadata": {"name": "bear"}, "spec": {"cage": {"name": "big"}},
            }},
            {"name": "moved", "update": "animal/lion", "patch": {"spec": {"cage": {"name": "small"}}}, "expect": "allowed"},
        ],
    })
}

#[tokio::test]
async fn a_suite_that_fits_its_definitions_passes() {
    let (status, out, err) = test(&["-f", "-"], &suite().to_string()).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Well, ""), "{out}");
    assert!(out.contains("3 passed") && !out.contains("definitions"), "{out}");
}

#[tokio::test]
async fn what_does_not_fit_the_suites_definitions_fails_the_suite_and_the_tests_run_all_the_same() {
    let (rule, lion) = ("/rules/0/spec", "/objects/3");
    for (pointer, value, told) in [
        (
            format!("{rule}/dependencies/0/fieldRef/path"),
            json!(".spec.cageRef.name"),
            "dependencyrule/animals: spec.dependencies[0].fieldRef.path does not fit animals.zoo.example.org v1: `.spec` has no field `cageRef`",
        ),
        (
            format!("{rule}/dependencies/0/fieldRef/path"),
            json!(".spec.cage"),
            "is an object, which can't hold a reference",
        ),
        (
            format!("{rule}/dependencies/0/resource"),
            json!("cage"),
            "zoo.example.org has animals, cages, but no cage: write `cages`",
        ),
        (format!("{rule}/dependent/kind"), json!("Animals"), "the kind of animals.zoo.example.org v1 is Animal"),
        (format!("{lion}/spec"), json!({"kage": {"name": "big"}}), "the Animal at standard input:"),
        (format!("{lion}/spec"), json!({"kage": {"name": "big"}}), "`.spec` has no field `kage`: it has `cage`"),
        (
            format!("{lion}/kind"),
            json!("Animals"),
            "zoo.example.org has Animal, Cage, but no Animals: write `Animal` if you mean that",
        ),
        (
            format!("{lion}/kind"),
            json!("Ticket"),
            "zoo.example.org has Animal, Cage, but no Ticket: add its definition, or name it in a rule",
        ),
        (format!("{lion}/apiVersion"), json!("zoo.example.org/v2"), "Animal is not served in version v2, but in v1"),
    ] {
        let mut suite = suite();
        *suite.pointer_mut(&pointer).unwrap() = value;
        let (status, out, err) = test(&["-f", "-"], &suite.to_string()).await;
        assert_eq!(status, ExitStatus::Finding, "{pointer}: {out}{err}");
        assert!(
            out.contains("failed: the suite fits its definitions") && out.contains(told),
            "{pointer}: {told}: {out}"
        );
        let (_, out, _) = test(&["-f", "-", "-o", "json"], &suite.to_string()).await;
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["tests"], 4, "{pointer}: {out}");
        let (_, out, _) = test(&["-f", "-", "-o", "junit"], &suite.to_string()).await;
        assert!(out.contains("<testcase name=\"the suite fits its definitions\""), "{out}");
    }
}

#[tokio::test]
async fn an_object_that_a_test_writes_must_fit_as_well() {
    for (pointer, value, told) in [
        ("/tests/1/create/spec", json!({"kage": {"name": "big"}}), "`.spec` has no field `kage`"),
        ("/tests/1/create/kind", json!("Anima"), "but no Anima: write `Animal` if you mean that"),
        ("/tests/2/patch/spec", json!({"cage": {"nam": "small"}}), "`.spec.cage` has no field `nam`: it has `name`"),
    ] {
        let mut suite = suite();
        *suite.pointer_mut(pointer).unwrap() = value;
        let (status, out, err) = test(&["-f", "-"], &suite.to_string()).await;
        assert_eq!(status, ExitStatus::Finding, "{pointer}: {out}{err}");
        assert!(out.contains(told) && out.ends_with("2 passed, 1 failed\n"), "{pointer}: {out}");
    }
}
