//! Creations and updates in suites.

use kubectl_depguard::ExitStatus;
use serde_json::Value;

use super::{rule, test};

/// Suite with rules of one reference each: the rule's name, the kinds of dependent and target, and further fields.
fn rules(rules: &[(&str, &str, &str, &str)]) -> String {
    let rules = rules.iter().map(|(name, dependent, target, more)| rule(name, dependent, target, more));
    format!("namespace: ns\nrules:\n{}", rules.collect::<String>())
}

/// Manifest of an object in the suite's namespace.
fn object(kind: &str, name: &str, spec: &str) -> String {
    format!("{{apiVersion: g.example.com/v1, kind: {kind}, metadata: {{name: {name}, namespace: ns}}, spec: {spec}}}")
}

const BY_NAME: &str = "fieldRef: {path: .spec.net}";

#[tokio::test]
async fn every_decision_about_a_write_can_be_expected() {
    let rules = rules(&[
        ("deny", "Vm", "Net", &format!("{BY_NAME}, onMissing: Deny")),
        ("warn", "Vm", "Disk", "fieldRef: {path: .spec.disk}, onMissing: Warn"),
        ("audit", "Vm", "Journal", "fieldRef: {path: .spec.log}, onMissing: Audit"),
        ("ignore", "Vm", "Zone", "fieldRef: {path: .spec.zone}"),
        ("elsewhere", "Vm", "Pool", "fieldRef: {path: .spec.pool, namespace: shared}, onMissing: Deny"),
        ("retired", "Vm", "Old", "fieldRef: {path: .spec.old}, onMissing: Deny"),
        ("one", "Left", "Right", &format!("{BY_NAME}, onMissing: Deny")),
        ("other", "Right", "Left", &format!("{BY_NAME}, onMissing: Deny")),
        ("broken", "Mix", "Net", "fieldRef: {path: '.spec['}, onMissing: Deny"),
        ("lenient", "Loose", "Net", "fieldRef: {path: '.spec['}, onMissing: Warn"),
    ]);
    let objects = [
        object("Net", "a", "{}"),
        object("Net", "b", "{}"),
        "{apiVersion: g.example.com/v1, kind: Net, metadata: {name: going, namespace: ns, deletionTimestamp: '2026-01-01T00:00:00Z'}}".to_owned(),
        object("Vm", "m", "{net: gone, zone: gone}"),
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: olds.g.example.com}, spec: {group: g.example.com, scope: Namespaced, names: {kind: Old, plural: olds}, versions: [{name: v2, served: true, storage: true}]}}".to_owned(),
    ];
    let objects: String = objects.iter().map(|object| format!("- {object}\n")).collect();
    let vm = |spec: &str| format!("create: {}", object("Vm", "new", spec));
    let change = |patch: &str| format!("update: vm/m, patch: {patch}");
    let tests = [
        (vm("{net: a, disk: d}"), "warned, missing: [], warned: [disks/d]"),
        (vm("{net: x}"), "denied, missing: [nets/x], message: 'cannot create vms/new: nets/x not found (.spec.net)'"),
        (vm("{net: going}"), "denied, message: 'cannot create vms/new: nets/going is being deleted (.spec.net)'"),
        (vm("{pool: p}"), "denied, missing: [pools/shared/p]"),
        (
            vm("{old: o}"),
            "denied, message: 'cannot create vms/new: olds/o not found: olds.g.example.com is not served here (.spec.old)'",
        ),
        (vm("{log: l}"), "audited, audited: [journals/l], warnings: []"),
        (vm("{net: a}"), "targets-exist"),
        (vm("{net: a}"), "allowed"),
        (vm("{zone: z}"), "no-new-reference"),
        (format!("{}, without: [net/a]", vm("{net: a}")), "denied"),
        ("create: vm/m".to_owned(), "denied, missing: [nets/gone]"),
        (vm("{net: x}").replace("g.example.com/v1,", "g.example.com/v2,"), "denied"),
        (change("{spec: {net: b}}"), "targets-exist"),
        (change("{spec: {net: x}}"), "denied, message: 'cannot update vms/m: nets/x not found (.spec.net)'"),
        (change("{spec: {size: 1}}"), "no-new-reference"),
        (change("{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {net: x}}"), "terminating"),
        (format!("create: {}", object("Left", "l", "{net: r}")), "warned, warned: [rights/r]"),
        (format!("create: {}", object("Mix", "x", "{}")), "undecided"),
        (format!("create: {}", object("Loose", "x", "{}")), "tolerated"),
        (format!("create: {}", object("Zone", "z", "{}")), "no-rule"),
    ];
    let count = tests.len();
    let tests: String = tests.iter().map(|(request, expect)| format!("- {{{request}, expect: {expect}}}\n")).collect();
    let (status, out, _) = test(&["-f", "-"], &format!("{rules}objects:\n{objects}tests:\n{tests}")).await;
    assert_eq!(status, ExitStatus::Well, "{out}");
    assert!(out.ends_with(&format!("{count} passed\n")), "{out}");
}

/// A reference that is only deleted in the tests is not covered: nobody has seen what its `onMissing` does.
#[tokio::test]
async fn coverage_counts_writes_for_themselves() {
    let rules = rules(&[
        ("deny", "Vm", "Net", &format!("{BY_NAME}, onMissing: Deny")),
        ("ignore", "Vm", "Disk", "fieldRef: {path: .spec.disk}"),
    ]);
    let objects = [object("Net", "a", "{}"), object("Disk", "d", "{}"), object("Vm", "m", "{net: a, disk: d}")];
    let objects: String = objects.iter().map(|object| format!("- {object}\n")).collect();
    let deletions = "tests:\n- {delete: net/a, expect: denied}\n- {delete: disk/d, expect: denied}\n";
    let creations = format!(
        "- {{create: {}, expect: denied}}\n- {{create: {}, expect: targets-exist}}\n- {{create: {}, expect: allowed}}\n",
        object("Vm", "v1", "{net: x}"),
        object("Vm", "v2", "{net: a, disk: x}"),
        object("Vm", "v3", "{disk: x}"),
    );
    for (tests, rows, notes) in [
        (deletions.to_owned(), ["net nets.g.example.com 1 0", "disk disks.g.example.com 1 -"], 1),
        (format!("{deletions}{creations}"), ["net nets.g.example.com 1 2", "disk disks.g.example.com 1 -"], 0),
    ] {
        let suite = format!("{rules}objects:\n{objects}{tests}");
        let (status, out, err) = test(&["-f", "-", "--coverage"], &suite).await;
        assert_eq!(status, ExitStatus::Well, "{out}{err}");
        let words: String = out.split_whitespace().collect::<Vec<_>>().join(" ");
        for row in rows {
            assert!(words.contains(&format!("spec.{row}")), "{row}: {out}");
        }
        let (_, out, _) = test(&["-f", "-", "--coverage", "-o", "sarif"], &suite).await;
        let sarif: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), notes, "{out}");
    }
}

/// A reference counts in a test although the request is allowed, with a warning or a record.
#[tokio::test]
async fn coverage_counts_references_that_refuse_nothing() {
    let rules = rules(&[
        ("audit", "Vm", "Log", "fieldRef: {path: .spec.log}, onDelete: Audit, onMissing: Audit"),
        ("warn", "Vm", "Disk", "fieldRef: {path: .spec.disk}, onDelete: Warn, onMissing: Warn"),
    ]);
    let objects = [object("Log", "l", "{}"), object("Disk", "d", "{}"), object("Vm", "m", "{log: l, disk: d}")];
    let objects: String = objects.iter().map(|object| format!("- {object}\n")).collect();
    let tests = format!(
        "tests:\n- {{delete: log/l, expect: audited}}\n- {{delete: disk/d, expect: warned}}\n\
         - {{create: {}, expect: audited}}\n- {{create: {}, expect: warned}}\n",
        object("Vm", "v1", "{log: x}"),
        object("Vm", "v2", "{disk: x}"),
    );
    let (status, out, err) = test(&["-f", "-", "--coverage"], &format!("{rules}objects:\n{objects}{tests}")).await;
    assert_eq!(status, ExitStatus::Well, "{out}{err}");
    let words: String = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in ["log logs.g.example.com 1 1", "disk disks.g.example.com 1 1"] {
        assert!(words.contains(&format!("spec.{row}")), "{row}: {out}");
    }
}
