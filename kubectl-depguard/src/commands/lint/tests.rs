//! Tests of docs/lint.md against the code: its table, and each of its examples.

use proptest::prelude::*;
use serde_json::json;

use super::code::Code;
use super::*;
use crate::cluster::documents::{Document, Origin};

const DOCS: &str = include_str!("../../../../docs/lint.md");

/// Returns the documents of a text, as if it were a file `example.yaml`.
fn texts(yaml: &str) -> Vec<Text> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("example.yaml");
    std::fs::write(&file, yaml).unwrap();
    let (mut terminal, _) = Terminal::captured("");
    let (mut texts, _) =
        files::needed(&[file], false, NEEDED, &mut terminal).unwrap_or_else(|why| panic!("{}", why.message()));
    texts.iter_mut().for_each(|text| text.document.origin.file = "example.yaml".into());
    texts
}

/// Returns the rules that the examples of docs/lint.md find in the cluster.
fn rules_of_the_cluster() -> Vec<Value> {
    let rules = blocks(DOCS, "yaml").remove(1);
    assert!(rules.starts_with("# rules of the cluster"));
    serde_saphyr::from_multiple(rules).unwrap()
}

/// Returns the findings in the form of docs/lint.md.
fn found(rules: &str, kinds: &str) -> Vec<String> {
    let report = Linting::new(None, texts(rules), texts(kinds), rules_of_the_cluster()).finish();
    let shown = report.findings.into_iter();
    shown.map(|finding| format!("{} {}: {}", finding.code.as_str(), finding.field, finding.message)).collect()
}

/// Returns the code blocks of a language in a part of the document.
fn blocks<'d>(part: &'d str, language: &str) -> Vec<&'d str> {
    let fence = format!("```{language}\n");
    part.split(fence.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn the_table_has_every_code() {
    let rows: Vec<_> = DOCS.lines().filter(|line| line.starts_with("| `DG")).collect();
    let expected = Code::ALL.map(|code| {
        let severity = format!("{:?}", code.severity()).to_lowercase();
        format!("| `{}` | {severity} | {} |", code.as_str(), code.title())
    });
    assert_eq!(rows, expected);
}

#[test]
fn every_code_has_an_example_that_shows_it() {
    let kinds = blocks(DOCS, "yaml").remove(0);
    assert!(kinds.starts_with("# kinds"));
    for code in Code::ALL {
        let heading = format!("\n## `{}` {}\n", code.as_str(), code.title());
        let section = DOCS.split(&heading).nth(1).unwrap_or_else(|| panic!("no section{heading}"));
        let section = section.split("\n## ").next().unwrap();
        let expected: Vec<_> = blocks(section, "text").concat().lines().map(str::to_owned).collect();
        // A finding that needs an API server is tested elsewhere, with one.
        let [rule] = blocks(section, "yaml")[..] else {
            assert!([Code::ExportNotFound, Code::AggregatedServer].contains(&code), "{}", code.as_str());
            continue;
        };
        assert_eq!(found(rule, kinds), expected, "{}", code.as_str());
        assert!(expected.iter().any(|line| line.starts_with(code.as_str())), "{expected:?}");
    }
}

#[test]
fn a_finding_has_the_line_of_its_field() {
    let rule = "\n---\n# more\nkind: List\nitems:\n- kind: DependencyRule\n  spec:\n    dependent:\n      kin: VM\n";
    let report = Linting::new(None, texts(rule), Vec::new(), Vec::new()).finish();
    let line = |field: &str| report.findings.iter().find(|finding| finding.field == field).unwrap().line;
    assert_eq!(line("spec.dependent.kin"), Some(9));
    assert_eq!(line("spec.dependent.kind"), Some(8));
    assert_eq!(line("apiVersion"), Some(6));
}

#[test]
fn one_wrong_dependency_hides_no_other() {
    let rule = "
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: vms}
spec:
  dependent: {group: example.com, version: v1, kind: VM, resource: vms}
  dependencies:
  - {group: example.com, version: v1, resource: vpcs, fieldRef: {path: spec..vpc}}
  - {group: example.com, version: v1, resource: vpcs, fieldRef: {}}
  - {group: example.com, version: v1, resource: vpcs, fieldRef: {path: .spec.a, pattern: '('}}
  - {group: example.com, version: v1, resource: vpcs, fieldRef: {path: .spec.vpcRef.nam}}
";
    let found = found(rule, blocks(DOCS, "yaml")[0]);
    let codes: Vec<_> = found.iter().map(|found| &found[..30]).collect();
    assert_eq!(
        codes,
        [
            "DG003 spec.dependencies[0].fie",
            "DG003 spec.dependencies[1].fie",
            "DG003 spec.dependencies[2].fie",
            "DG101 spec.dependencies[3].fie"
        ],
        "{found:#?}"
    );
}

#[test]
fn a_resource_that_is_missing_is_proposed() {
    let rule = |kind: &str| {
        format!(
            "
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {{name: vms}}
spec:
  dependent: {{group: example.com, version: v1, {kind}}}
  dependencies:
  - {{group: example.com, version: v1, resource: vpcs, fieldRef: {{path: '.spec.networks[*].vpc'}}}}
"
        )
    };
    // The plural of the definition is not the one that a guess would give.
    let kinds = blocks(DOCS, "yaml")[0].replace("plural: vms", "plural: vmes");
    let at = "DG002 spec.dependent.resource: spec.dependent.resource is missing: write";
    assert_eq!(found(&rule("kind: VM"), &kinds), [format!("{at} `vmes`")]);
    let guessed = format!("{at} the plural name of Ingress, which is probably `ingresses`");
    assert_eq!(found(&rule("kind: Ingress"), &kinds), [guessed]);
    let without = found(&rule("x: y"), &kinds);
    assert!(without.contains(&format!("{at} it")), "{without:?}");
}

#[test]
fn what_is_stored_counts_but_is_not_reported() {
    let rule = |name: &str, dependent: &str, target: &str| {
        json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": name},
            "spec": {
                "dependent": {"group": "example.com", "version": "v1", "kind": "X", "resource": dependent},
                "dependencies": [{
                    "group": "example.com", "version": "v1", "resource": target, "fieldRef": {"path": ".spec.ref"},
                }],
            },
        })
    };
    let text = |rule: &Value| texts(&serde_saphyr::to_string(rule).unwrap());
    let stored =
        vec![rule("one", "bs", "as"), rule("own", "cs", "ds"), rule("twice", "as", "bs"), rule("x", "x1", "x1")];
    let report = Linting::new(None, text(&rule("own", "as", "bs")), Vec::new(), stored.clone()).finish();
    let codes: Vec<_> = report.findings.iter().map(|finding| (finding.code, finding.object.as_str())).collect();
    // The given rule replaces the stored rule of its name.
    assert!(
        codes.contains(&(Code::Cycle, "dependencyrule/own"))
            && codes.contains(&(Code::SameReference, "dependencyrule/own"))
    );
    assert!(codes.iter().all(|(_, object)| *object == "dependencyrule/own"), "{codes:?}");
    let report = Linting::new(None, Vec::new(), Vec::new(), stored).finish();
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.code == Code::SelfReference && finding.object == "dependencyrule/x")
    );
}

/// Generates arbitrary JSON, often with the content of a rule or a definition.
fn mangled(whole: Value) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        any::<i64>().prop_map(|number| json!(number)),
        "[a-z.\\[\\]*'/]{0,12}".prop_map(|text| json!(text)),
        Just(json!([])),
        Just(json!({})),
        Just(json!({"type": "array", "items": {"$ref": "#/components/schemas/a"}})),
    ];
    let mut places = Vec::new();
    places_of(&whole, String::new(), &mut places);
    prop::collection::vec((prop::sample::select(places), leaf, any::<bool>()), 1..4).prop_map(move |changes| {
        let mut object = whole.clone();
        for (place, value, copy) in changes {
            let value = if copy { whole.pointer(&place).cloned().unwrap_or_default() } else { value };
            let place = if copy { place.rsplit_once('/').map_or("", |(outer, _)| outer).to_owned() } else { place };
            if let (Some(there), false) = (object.pointer_mut(&place), place.is_empty()) {
                *there = value;
            }
        }
        object
    })
}

fn places_of(value: &Value, at: String, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| places_of(value, format!("{at}/{}", name.replace('/', "~1")), into));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| places_of(value, format!("{at}/{index}"), into));
        }
        _ => {}
    }
    into.push(at);
}

fn whole_rule() -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "vms"},
        "spec": {
            "failurePolicy": "Ignore",
            "dependent": {"group": "example.com", "version": "v1", "kind": "VM", "resource": "vms",
                "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
            "dependencies": [
                {"group": "example.com", "version": "v1", "resource": "vpcs", "kind": "VPC", "onDelete": "Warn",
                    "fieldRef": {"path": ".spec.vpcRef.name", "kindPath": ".spec.vpcRef.kind", "pattern": "^(.*)$"},
                    "when": {"path": ".spec.state", "in": ["On"]}, "message": "{target}"},
                {"apiExportRef": {"path": "root:a", "name": "a"}, "group": "example.com", "version": "v1",
                    "resource": "vms", "selectorRef": {"path": ".spec.selector"}},
            ],
        },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_rule_and_no_definition_makes_it_panic(
        rules in prop::collection::vec(mangled(whole_rule()), 1..4),
        definition in mangled(serde_saphyr::from_multiple::<Value>(blocks(DOCS, "yaml")[0]).unwrap().remove(0)),
        other in mangled(serde_saphyr::from_multiple::<Value>(blocks(DOCS, "yaml")[0]).unwrap().remove(1)),
        control_plane in prop_oneof![Just(None), Just(Some(ControlPlane::Kcp)), Just(Some(ControlPlane::Kubernetes))],
    ) {
        let text = |value: Value| {
            let origin = Origin { file: "f".into(), line: 1 };
            let text = value.to_string().into();
            Text { document: Document { value: value.into(), origin }, text, begin: 1, within: String::new() }
        };
        let rules: Vec<_> = rules.into_iter().map(text).collect();
        // Without a rule among the files, the stored rules are checked, which have no lines.
        let line = rules.iter().any(|rule| reading::is_meant_as_rule(&rule.document.value)).then_some(1);
        let report = Linting::new(control_plane, rules, vec![text(definition), text(other)], vec![whole_rule()]).finish();
        for finding in &report.findings {
            prop_assert!(!finding.message.is_empty() && (finding.line == Some(1) || finding.line == line), "{:?}", finding);
        }
    }
}
