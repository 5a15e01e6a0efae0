//! Reports: the results that programs read with `-o json` and `-o yaml`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::references::files::{MISSING, OBJECTS, RULES};
use crate::tool::{Ran, depguard, write};

const API_VERSION: &str = "cli.dependencies.opendefense.cloud/v1alpha1";

/// Each kind of report that files suffice for, with its command; `DIR` stands for the folder of the files.
const COMMANDS: [(&str, &str); 15] = [
    ("DanglingReport", "dangling -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("GlobalOwnerOrderReport", "order GlobalOwner all -f DIR/owner.yaml"),
    ("ImpactReport", "impact vpc/a -n x -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("ImportReport", "import published-resource -f DIR/published.yaml"),
    ("LintReport", "lint -f DIR/rules.yaml"),
    ("OrderReport", "order -A -f DIR/rules.yaml -f DIR/objects.yaml -f DIR/locks.yaml"),
    ("RulesReport", "rules list"),
    ("SuggestReport", "suggest -f DIR/suggest.yaml"),
    ("TestReport", "test -f DIR/suite.yaml"),
    ("TraceReport", "trace virtualmachine/m1 -n x -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("UnusedReport", "unused -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("WhyReport", "why vpc/a -n x -f DIR/rules.yaml -f DIR/objects.yaml -f DIR/locks.yaml"),
    ("WhyReport", "why vpc/stuck -n x -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("ImpactReportList", "impact vpc/a zone/z -n x -f DIR/rules.yaml -f DIR/objects.yaml"),
    ("TraceReportList", "trace virtualmachine m1 m4 -n x -f DIR/rules.yaml -f DIR/objects.yaml"),
];

/// Kinds of reports that need an API server; their own tests call [`assert_fits`].
const LIVE: [&str; 2] = ["StatusReport", "VersionReport"];

const STUCK: &str = r"
---
{apiVersion: network.example.com/v1, kind: VPC, metadata: {name: stuck, namespace: x,
 deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [network.example.com/cloud],
 ownerReferences: [{apiVersion: network.example.com/v1, kind: Network, name: n, uid: u, controller: true}]}}
";
const LOCKS: &str = r"
apiVersion: locks.dependencies.opendefense.cloud/v1alpha1
kind: ObjectLock
metadata: {name: freeze, namespace: x}
spec: {targets: [{group: network.example.com, resource: vpcs, name: a}], reason: change freeze}
";
const OWNER: &str = r"
apiVersion: globalowner.metacontroller.io/v1alpha1
kind: GlobalOwner
metadata: {name: all}
spec:
  selector: {matchLabels: {adopt: 'true'}}
  childResources: [{apiVersion: v1, resource: secrets}, {apiVersion: v1, resource: configmaps}]
";
const PUBLISHED: &str = r"
apiVersion: syncagent.kcp.io/v1alpha1
kind: PublishedResource
metadata: {name: publish-certs}
spec:
  resource: {apiGroup: cert-manager.io, version: v1, kind: Certificate}
  unknown: here
  related:
  - {identifier: secret, origin: service, kind: Secret, object: {reference: {path: spec.secretName}}}
";
const SUGGEST: &str = r"
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: vpcs.network.example.com},
 spec: {group: network.example.com, scope: Namespaced, names: {kind: VPC, plural: vpcs}, versions: [{name: v1, served: true, storage: true}]}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: subnets.network.example.com},
 spec: {group: network.example.com, scope: Namespaced, names: {kind: Subnet, plural: subnets}, versions: [{name: v1, served: true, storage: true,
  schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
   vpcName: {type: string}, routerRef: {type: object, properties: {name: {type: string}}}}}}}}}]}}
";
const SUITE: &str = r"
name: vpcs
namespace: default
rules: [suite-rules.yaml]
objects:
- {apiVersion: v1, kind: Secret, metadata: {name: s}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {secret: s}}
tests:
- {name: in use, delete: secret/s, expect: denied}
- {name: wrong, delete: secret/s, expect: allowed}
";
const SUITE_RULES: &str = r"
apiVersion: dependencies.opendefense.cloud/v1alpha1
kind: DependencyRule
metadata: {name: secrets}
spec:
  dependent: {group: '', version: v1, kind: ConfigMap, resource: configmaps}
  dependencies: [{group: '', version: v1, resource: secrets, fieldRef: {path: .data.secret}}]
";

/// Runs a command on the files.
async fn ran(command: &str, format: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let objects = format!("{OBJECTS}{MISSING}{STUCK}");
    let files = [
        ("rules.yaml", RULES),
        ("objects.yaml", &objects),
        ("locks.yaml", LOCKS),
        ("owner.yaml", OWNER),
        ("published.yaml", PUBLISHED),
        ("suggest.yaml", SUGGEST),
        ("suite.yaml", SUITE),
        ("suite-rules.yaml", SUITE_RULES),
    ];
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    let folder = folder.path().to_str().unwrap().to_owned();
    let words: Vec<_> = command.split(' ').map(|word| word.replace("DIR", &folder)).collect();
    let mut args: Vec<_> = words.iter().map(String::as_str).collect();
    args.extend(["-o", format]);
    let ran = depguard(&args).await;
    Ran { out: ran.out.replace(&folder, "DIR"), ..ran }
}

#[tokio::test]
async fn each_report_begins_with_its_version_and_kind() {
    for (kind, command) in COMMANDS {
        let json = ran(command, "json").await;
        let head = format!("{{\n    \"apiVersion\": \"{API_VERSION}\",\n    \"kind\": \"{kind}\",\n");
        assert!(json.out.starts_with(&head), "{command}: {json:?}");
        // `suggest` and `import` print rules as YAML, and no report.
        if !["SuggestReport", "ImportReport"].contains(&kind) {
            let yaml = ran(command, "yaml").await;
            assert!(yaml.out.starts_with(&format!("apiVersion: {API_VERSION}\nkind: {kind}\n")), "{command}: {yaml:?}");
            let [json, yaml]: [Value; 2] =
                [serde_json::from_str(&json.out).unwrap(), serde_saphyr::from_str(&yaml.out).unwrap()];
            assert_eq!(yaml, json, "{command}");
        }
    }
}

/// Returns every path of a value with its type: `dangling[].rule: string`.
fn shape(value: &Value, path: &str, shapes: &mut BTreeSet<String>) {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            items.iter().for_each(|item| shape(item, &format!("{path}[]"), shapes));
            "array"
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| shape(field, &format!("{path}.{name}"), shapes));
            "object"
        }
    };
    shapes.insert(format!("{path}: {name}"));
}

/// Returns the shapes of `old` that `new` lacks.
fn lost(old: &Value, new: &Value) -> Vec<String> {
    let [mut there, mut here] = [BTreeSet::new(), BTreeSet::new()];
    shape(old, "", &mut there);
    shape(new, "", &mut here);
    there.difference(&here).cloned().collect()
}

/// Holds the promise of docs/output.md: a report may grow, but loses no field. `DEPGUARD_WRITE=1` writes new samples,
/// unless they have lost a field.
#[tokio::test]
async fn no_report_loses_a_field() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/reports");
    for (number, (kind, command)) in COMMANDS.iter().enumerate() {
        let json: Value = serde_json::from_str(&ran(command, "json").await.out).unwrap();
        let file = folder.join(format!("{number:02}-{kind}.json"));
        let is_written = std::env::var_os("DEPGUARD_WRITE").is_some();
        if is_written && !file.exists() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, serde_json::to_string_pretty(&json).unwrap() + "\n").unwrap();
        }
        let sample = std::fs::read_to_string(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        let sample: Value = serde_json::from_str(&sample).unwrap();
        let lost = lost(&sample, &json);
        assert!(lost.is_empty(), "{command} lost {lost:?}");
        if is_written {
            std::fs::write(&file, serde_json::to_string_pretty(&json).unwrap() + "\n").unwrap();
        }
    }
}

/// Returns the properties in the schema `old` that `new` lacks.
pub(crate) fn lost_properties(old: &Value, new: &Value, path: &str) -> Vec<String> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Vec::new() };
    let is_kept = |name: &str| ["properties", "$defs"].iter().any(|end| path.ends_with(end)) && !new.contains_key(name);
    let lost = old.keys().filter(|name| is_kept(name)).map(|name| format!("{path}/{name}"));
    let below =
        old.iter().filter_map(|(name, old)| Some(lost_properties(old, new.get(name)?, &format!("{path}/{name}"))));
    lost.chain(below.flatten()).collect()
}

/// Checks that a report fits the schema of its kind.
pub(crate) fn assert_fits(report: &Value) {
    let schema = kubectl_depguard::report_schema();
    let wrong = mistakes(report, &schema, &schema, "");
    assert!(wrong.is_empty(), "{wrong:?}: {report}");
}

/// Checks a value by the keywords that occur in the schema; an unknown keyword fails the test.
fn mistakes(value: &Value, schema: &Value, root: &Value, path: &str) -> Vec<String> {
    let Value::Object(keywords) = schema else { return Vec::new() };
    let below = |schema: &Value| mistakes(value, schema, root, path);
    let one = |what: String| vec![format!("{path}: {what}")];
    let none = Vec::new();
    let checked = keywords.iter().map(|(keyword, required)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" | "format" | "default" | "minimum" | "uniqueItems" => {
            none.clone()
        }
        "$ref" => below(root.pointer(required.as_str().unwrap().trim_start_matches('#')).unwrap()),
        "const" if value != required => one(format!("is not {required}")),
        "enum" if !required.as_array().unwrap().contains(value) => one(format!("is none of {required}")),
        "const" | "enum" => none.clone(),
        "oneOf" | "anyOf" => {
            let tried: Vec<_> = required.as_array().unwrap().iter().map(below).collect();
            let fit = tried.iter().filter(|wrong| wrong.is_empty()).count();
            let is_well = if keyword == "oneOf" { fit == 1 } else { fit > 0 };
            if is_well { none.clone() } else { one(format!("fits {fit} of {}: {tried:?}", tried.len())) }
        }
        "type" => {
            let types = required.as_array().cloned().unwrap_or_else(|| vec![required.clone()]);
            let is_of = |name: &Value| match name.as_str().unwrap() {
                "null" => value.is_null(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                "number" => value.is_number(),
                "string" => value.is_string(),
                "array" => value.is_array(),
                "object" => value.is_object(),
                other => panic!("{other}"),
            };
            if types.iter().any(is_of) { none.clone() } else { one(format!("is no {required}")) }
        }
        "required" => {
            let missing = |name: &&Value| value.get(name.as_str().unwrap()).is_none();
            required.as_array().unwrap().iter().filter(missing).flat_map(|name| one(format!("has no {name}"))).collect()
        }
        "properties" => {
            let fields = required.as_object().unwrap().iter();
            let there = fields.filter_map(|(name, schema)| Some((name, value.get(name)?, schema)));
            there.flat_map(|(name, value, schema)| mistakes(value, schema, root, &format!("{path}/{name}"))).collect()
        }
        "additionalProperties" => {
            let known = |name: &str| keywords.get("properties").is_some_and(|known| known.get(name).is_some());
            let others = value.as_object().into_iter().flatten().filter(|(name, _)| !known(name));
            others.flat_map(|(name, value)| mistakes(value, required, root, &format!("{path}/{name}"))).collect()
        }
        "items" => {
            let items = value.as_array().into_iter().flatten();
            items.flat_map(|item| mistakes(item, required, root, &format!("{path}[]"))).collect()
        }
        other => panic!("the test does not check {other}"),
    });
    checked.flatten().collect()
}

#[tokio::test]
async fn each_report_fits_the_schema() {
    for (_, command) in COMMANDS {
        let report: Value = serde_json::from_str(&ran(command, "json").await.out).unwrap();
        assert_fits(&report);
        // The check itself tells a report from something else.
        let schema = kubectl_depguard::report_schema();
        let mut other = report.clone();
        other["kind"] = "OtherReport".into();
        assert!(!mistakes(&other, &schema, &schema, "").is_empty(), "{command}");
    }
}

/// A new report belongs into the schema, and a sample of it into this test.
#[test]
fn the_schema_has_every_kind_of_report() {
    let (mut found, mut folders) = (BTreeSet::new(), vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let kinds = text.split("KIND: &'static str = \"").skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(kinds.map(str::to_owned));
        }
    }
    let schema = kubectl_depguard::report_schema();
    let listed: BTreeSet<_> =
        schema["oneOf"].as_array().unwrap().iter().filter_map(|one| one["$ref"].as_str()).collect();
    let listed: BTreeSet<_> = listed.iter().map(|kind| kind.trim_start_matches("#/$defs/").to_owned()).collect();
    assert_eq!(found, listed);
    let sampled: BTreeSet<_> =
        COMMANDS.iter().map(|(kind, _)| (*kind).to_owned()).chain(LIVE.map(str::to_owned)).collect();
    assert_eq!(sampled, listed);
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/output.md")).unwrap();
    for kind in &listed {
        assert!(page.contains(&format!("| `{kind}` |")), "docs/output.md lacks {kind}");
    }
}
