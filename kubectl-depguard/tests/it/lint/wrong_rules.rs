//! Wrong rules as people write them, each beside the right rule that was meant.

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use super::Bed;

/// Returns the definition of a kind of `rail.example.org` with these fields below `spec`.
fn definition(scope: &str, kind: &str, resource: &str, spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{resource}.rail.example.org")},
        "spec": {
            "group": "rail.example.org", "scope": scope, "names": {"kind": kind, "plural": resource},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn definitions() -> [Value; 4] {
    let texts = |names: &[&str]| {
        let texts = names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
        json!({"type": "object", "properties": Value::Object(texts.collect())})
    };
    let train = json!({
        "depotRef": texts(&["name", "namespace"]),
        "engine": {"type": "object", "properties": {
            "name": {"type": "string"}, "kind": {"type": "string", "enum": ["Depot", "Yard"], "default": "Depot"},
        }},
        "stops": {"type": "array", "items": texts(&["name", "kind"])},
        "cars": {"type": "object", "additionalProperties": texts(&["yard"])},
        "lineName": {"type": "string"}, "route": {"type": "string"},
        "axles": {"type": "integer"}, "electric": {"type": "boolean"},
        "selector": {"type": "object", "properties": {
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        }},
        "yards": {"type": "array", "items": {"type": "object", "properties": {
            "matchExpressions": {"type": "array"}, "sameOwner": {"type": "boolean"}, "policy": {"type": "object"},
        }}},
    });
    [
        definition("Namespaced", "Train", "trains", &train),
        definition("Namespaced", "Depot", "depots", &json!({"tracks": {"type": "integer"}})),
        definition("Namespaced", "Yard", "yards", &json!({"owner": {"type": "string"}})),
        definition("Cluster", "Line", "lines", &json!({"colour": {"type": "string"}})),
    ]
}

fn dependent() -> Value {
    json!({"group": "rail.example.org", "version": "v1", "kind": "Train", "resource": "trains"})
}

fn target(resource: &str, terms: &Value) -> Value {
    let mut target = json!({"group": "rail.example.org", "version": "v1", "resource": resource});
    target.as_object_mut().unwrap().extend(terms.as_object().unwrap().clone());
    target
}

fn at(path: &str) -> Value {
    json!({"fieldRef": {"path": path}})
}

/// Returns the right reference to a depot, with these changes.
fn depot(changes: &Value) -> Value {
    let mut depot = target(
        "depots",
        &json!({"fieldRef": {
            "path": ".spec.depotRef.name", "namespacePath": ".spec.depotRef.namespace",
        }}),
    );
    depot.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    depot
}

fn rule(dependent: &Value, dependencies: &[Value]) -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "trains"},
        "spec": {"dependent": dependent, "dependencies": dependencies},
    })
}

/// Each case: the mistake, the rule with it, the expected finding with its field and its advice, and the right rule.
#[tokio::test]
async fn each_mistake_is_found_with_what_to_write_and_the_right_rule_is_taken_without_a_word() {
    let one = |dependency: Value| rule(&dependent(), &[dependency]);
    let of = |field: &str, value: &str| {
        let mut dependent = dependent();
        dependent[field] = json!(value);
        rule(&dependent, &[depot(&json!({}))])
    };
    let (right, path) = (one(depot(&json!({}))), "spec.dependencies[0].fieldRef.path");
    let field = |written: &str| one(target("depots", &at(written)));
    let engine = |kind_path: &str, kind: &str| {
        let reference = json!({"path": ".spec.engine.name", "kindPath": kind_path});
        one(target("depots", &json!({"fieldRef": reference, "kind": kind})))
    };
    let of_engine = engine(".spec.engine.kind", "Depot");
    let by_default = |default: &str| {
        let reference = json!({"path": ".spec.engine.name", "kindPath": ".spec.engine.kind", "defaultKind": default});
        one(target("yards", &json!({"fieldRef": reference, "kind": "Yard"})))
    };
    let line = one(target("lines", &at(".spec.lineName")));
    let when = |path: &str, value: &str| one(depot(&json!({"when": {"path": path, "in": [value]}})));
    let exchanged = json!({"group": "rail.example.org", "version": "v1", "kind": "Depot", "resource": "depots"});
    let cases = [
        ("misspelt field", field(".spec.depotref.name"), "DG101", path, "write `.spec.depotRef.name`", right.clone()),
        (
            "namespace beside the name",
            field(".spec.depotRef.name"),
            "DG106",
            "spec.dependencies[0].fieldRef.namespacePath",
            "write `namespacePath: .spec.depotRef.namespace`",
            right.clone(),
        ),
        ("path to an object", field(".spec.depotRef"), "DG102", path, "write `.spec.depotRef.name`", right.clone()),
        (
            "list without [*]",
            field(".spec.stops.name"),
            "DG101",
            path,
            "write `.spec.stops[*].name`",
            field(".spec.stops[*].name"),
        ),
        (
            "[*] on no list",
            field(".spec.depotRef[*].name"),
            "DG101",
            path,
            "write `.spec.depotRef.name`",
            right.clone(),
        ),
        (
            "map as a list",
            one(target("yards", &at(".spec.cars[0].yard"))),
            "DG101",
            path,
            "write `.spec.cars[*].yard`",
            one(target("yards", &at(".spec.cars[*].yard"))),
        ),
        ("number", field(".spec.axles"), "DG102", path, "is of type integer", field(".spec.route")),
        ("boolean", field(".spec.electric"), "DG102", path, "is of type boolean", field(".spec.route")),
        (
            "selector as a field",
            field(".spec.selector.matchLabels"),
            "DG102",
            path,
            "is an object",
            one(target("depots", &json!({"selectorRef": {"path": ".spec.selector"}}))),
        ),
        (
            "another default kind",
            by_default("Yard"),
            "DG109",
            "spec.dependencies[0].fieldRef.defaultKind",
            "write `defaultKind: Depot`",
            by_default("Depot"),
        ),
        (
            "selector with other fields",
            one(target("yards", &json!({"selectorRef": {"path": ".spec.yards[*]", "narrowedBy": ["policy"]}}))),
            "DG108",
            "spec.dependencies[0].selectorRef.path",
            "may have `sameOwner`: where it does, nobody can tell what it selects",
            one(target(
                "yards",
                &json!({"selectorRef": {"path": ".spec.yards[*]", "narrowedBy": ["policy", "sameOwner"]}}),
            )),
        ),
        ("field of the status", field(".status.depot"), "DG101", path, "has no field `status`", right.clone()),
        ("kubectl's braces", field("{.spec.route}"), "DG003", path, "write `.spec.route`", field(".spec.route")),
        (
            "JSON pointer",
            field("/spec/stops/0/name"),
            "DG003",
            path,
            "write `.spec.stops[0].name`",
            field(".spec.stops[0].name"),
        ),
        ("JSONPath's $", field("$.spec.route"), "DG003", path, "write `.spec.route`", field(".spec.route")),
        (
            "kind as resource",
            one(depot(&json!({"resource": "Depot"}))),
            "DG003",
            "spec.dependencies[0].resource",
            "plural",
            right.clone(),
        ),
        (
            "singular",
            one(depot(&json!({"resource": "depot"}))),
            "DG111",
            "spec.dependencies[0].resource",
            "write `depots`",
            right.clone(),
        ),
        (
            "misspelt group",
            one(depot(&json!({"group": "rail.example.com"}))),
            "DG117",
            "spec.dependencies[0].group",
            "write `group: rail.example.org`",
            right.clone(),
        ),
        (
            "group with a version",
            one(depot(&json!({"group": "rail.example.org/v1"}))),
            "DG003",
            "spec.dependencies[0].group",
            "is not an API group",
            right.clone(),
        ),
        (
            "core as a group",
            one(target("secrets", &json!({"group": "core", "fieldRef": {"path": ".spec.route"}}))),
            "DG117",
            "spec.dependencies[0].group",
            "write `group: ''`",
            one(target("secrets", &json!({"group": "", "fieldRef": {"path": ".spec.route"}}))),
        ),
        (
            "version of the target",
            one(depot(&json!({"version": "v2"}))),
            "DG112",
            "spec.dependencies[0].version",
            "but in v1",
            right.clone(),
        ),
        (
            "version of the dependent",
            of("version", "v1beta1"),
            "DG112",
            "spec.dependent.version",
            "but in v1",
            right.clone(),
        ),
        ("kind of the dependent", of("kind", "Trains"), "DG113", "spec.dependent.kind", "is Train", right.clone()),
        (
            "resource of the dependent",
            of("resource", "Trains"),
            "DG003",
            "spec.dependent.resource",
            "lower-case",
            right.clone(),
        ),
        (
            "group of the dependent",
            of("group", "rial.example.org"),
            "DG117",
            "spec.dependent.group",
            "write `group: rail.example.org`",
            right.clone(),
        ),
        (
            "dependent and target exchanged",
            rule(&exchanged, &[target("trains", &at(".spec.depotRef.name"))]),
            "DG101",
            path,
            "exchanged: name trains.rail.example.org in spec.dependent, and depots.rail.example.org in spec.dependencies[0]",
            right.clone(),
        ),
        (
            "misspelt kindPath",
            engine(".spec.engine.Kind", "Depot"),
            "DG101",
            "spec.dependencies[0].fieldRef.kindPath",
            "write `.spec.engine.kind`",
            of_engine.clone(),
        ),
        (
            "kind of the target",
            engine(".spec.engine.kind", "Depots"),
            "DG113",
            "spec.dependencies[0].kind",
            "is Depot",
            of_engine,
        ),
        (
            "[*] that the path lacks",
            one(target(
                "depots",
                &json!({"fieldRef": {"path": ".spec.stops[0].name", "kindPath": ".spec.stops[*].kind"}, "kind": "Depot"}),
            )),
            "DG003",
            "spec.dependencies[0].fieldRef.kindPath",
            "lacks",
            one(target(
                "depots",
                &json!({"fieldRef": {"path": ".spec.stops[*].name", "kindPath": ".spec.stops[*].kind"}, "kind": "Depot"}),
            )),
        ),
        (
            "namespace of what has none",
            one(target(
                "lines",
                &json!({"fieldRef": {"path": ".spec.lineName", "namespacePath": ".spec.depotRef.namespace"}}),
            )),
            "DG107",
            "spec.dependencies[0].fieldRef.namespacePath",
            "has no effect: lines.rail.example.org are in no namespace; remove it",
            line.clone(),
        ),
        (
            "fixed namespace of what has none",
            one(target("lines", &json!({"fieldRef": {"path": ".spec.lineName", "namespace": "n"}}))),
            "DG107",
            "spec.dependencies[0].fieldRef.namespace",
            "remove it",
            line,
        ),
        (
            "open group of a pattern",
            one(target("depots", &json!({"fieldRef": {"path": ".spec.route", "pattern": "^d/(.*$"}}))),
            "DG003",
            "spec.dependencies[0].fieldRef.pattern",
            "unclosed group",
            one(target("depots", &json!({"fieldRef": {"path": ".spec.route", "pattern": "^d/(.*)$"}}))),
        ),
        (
            "misspelt when",
            when(".spec.Route", "r"),
            "DG101",
            "spec.dependencies[0].when.path",
            "write `.spec.route`",
            when(".spec.route", "r"),
        ),
        (
            "when on a number",
            when(".spec.axles", "4"),
            "DG102",
            "spec.dependencies[0].when.path",
            "is of type integer",
            when(".spec.route", "4"),
        ),
        (
            "two references",
            one(depot(&json!({"selectorRef": {"path": ".spec.selector"}}))),
            "DG003",
            "spec.dependencies[0].selectorRef",
            "leave one of them out",
            right.clone(),
        ),
        (
            "no reference",
            one(target("depots", &json!({}))),
            "DG003",
            "spec.dependencies[0].fieldRef",
            "write it or selectorRef",
            right.clone(),
        ),
        (
            "the same twice",
            rule(&dependent(), &[depot(&json!({})), depot(&json!({}))]),
            "DG203",
            "spec.dependencies[1].fieldRef.path",
            "remove this one",
            right.clone(),
        ),
        (
            "unknown field",
            one(depot(&json!({"onDeletion": "Deny"}))),
            "DG001",
            "spec.dependencies[0].onDeletion",
            "write `onDelete`",
            one(depot(&json!({"onDelete": "Deny"}))),
        ),
        (
            "unknown value",
            one(depot(&json!({"onDelete": "Block"}))),
            "DG002",
            "spec.dependencies[0].onDelete",
            "write one of Deny, Warn, Audit",
            one(depot(&json!({"onDelete": "Warn"}))),
        ),
        (
            "value in lower case",
            one(depot(&json!({"onMissing": "deny"}))),
            "DG002",
            "spec.dependencies[0].onMissing",
            "Deny",
            one(depot(&json!({"onMissing": "Deny"}))),
        ),
    ];
    let bed = Bed::new();
    let schemas = bed.file("definitions.yaml", &definitions());
    for (mistake, wrong, code, field, advice, right) in cases {
        let found = findings(&bed, &schemas, &wrong).await;
        let is_it = |finding: &&Value| finding["code"] == code && finding["field"].as_str() == Some(field);
        let told = found.iter().find(is_it).unwrap_or_else(|| panic!("{mistake}: {found:#?}"));
        assert!(told["message"].as_str().unwrap().contains(advice), "{mistake}: {told:#}");
        assert_eq!(findings(&bed, &schemas, &right).await, [Value::Null; 0], "the right twin of: {mistake}");
    }
}

/// Returns the findings that are worse than a note.
async fn findings(bed: &Bed, schemas: &str, rule: &Value) -> Vec<Value> {
    let rules = bed.file("rules.yaml", std::slice::from_ref(rule));
    let (status, out, err) = bed.lint(&["-f", &rules, "--schemas", schemas, "-o", "json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}{err}"));
    let is_error = report["summary"]["error"] != 0;
    assert_eq!(status, if is_error { ExitStatus::Finding } else { ExitStatus::Well }, "{out}{err}");
    let findings = report["findings"].as_array().unwrap().iter();
    findings.filter(|finding| finding["severity"] != "info").cloned().collect()
}

#[tokio::test]
async fn a_namespace_that_says_nothing_is_left_out_by_an_annotation_with_a_reason() {
    let bed = Bed::new();
    let schemas = bed.file("definitions.yaml", &definitions());
    for (line, is_told) in [
        (".spec.depotRef.namespace: ignored by the operator", false),
        (".namespace: ignored by the operator", false),
        (".namespace:", true),
        (".spec.engine: no depot", true),
        (".spec.depotRef.namespaces: another field", true),
    ] {
        let mut rule = rule(&dependent(), &[target("depots", &at(".spec.depotRef.name"))]);
        rule["metadata"]["annotations"] = json!({"dependencies.opendefense.cloud/left-out": line});
        assert_eq!(!findings(&bed, &schemas, &rule).await.is_empty(), is_told, "{line}");
    }
}
