//! Variants of both agents' APIs: each results in a rule that can be used, or in a report.

use std::collections::BTreeMap;

use depguard_core::{ControlPlane, Rule};
use kubectl_depguard::ExitStatus;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

use crate::import::{SERVLET, SYNC_AGENT, imported, parcels, published};
use crate::tool::{depguard, write};

/// Returns every way to write a kind, each with true if kcp serves the kind from an APIExport.
fn kinds() -> Vec<(Value, bool)> {
    vec![
        (json!({"kind": "Secret"}), false),
        (json!({"kind": "ConfigMap"}), false),
        (json!({"version": "v1", "resource": "secrets"}), false),
        (json!({"group": "rbac.authorization.k8s.io", "version": "v1", "resource": "roles"}), false),
        (json!({"group": "post.example.com", "version": "v1", "resource": "stamps"}), true),
        (json!({"group": "rail.example.com", "version": "v1", "resource": "tickets", "identityHash": "abc"}), true),
        (
            json!({"group": "post.example.com", "version": "v1", "resource": "stamps",
            "projection": {"group": "mail.example.com", "version": "v2", "resource": "marks"}}),
            true,
        ),
    ]
}

/// Returns every way to write a name or a namespace, each with two flags: true if a rule can express it for a name, and
/// for a namespace.
fn locators() -> Vec<(Value, bool, bool)> {
    let regex = |pattern: &str, replacement: &str| json!({"reference": {"path": "spec.ref", "regex": {"pattern": pattern, "replacement": replacement}}});
    let labels = |value: &str| json!({"selector": {"matchLabels": {"a": value}, "rewrite": {"template": {"template": "{{ .Value }}"}}}});
    vec![
        (json!({"reference": {"path": "spec.ref"}}), true, true),
        (own_namespace(), true, true),
        (regex("", "fixed"), true, true),
        (regex("^of-(.+)$", "$1"), true, true),
        (regex("of-(.+)", "x-$1"), false, false),
        (json!({"reference": {"path": "spec.refs.#(a==1).name"}}), false, false),
        (json!({"template": {"template": "{{ .Object.spec.ref }}"}}), true, true),
        (json!({"template": {"template": "{{ .Object.spec.ref | sha3short }}"}}), false, false),
        (labels("b"), true, false),
        (labels("{{ .LocalObject.metadata.name }}"), false, false),
        (json!({}), false, false),
    ]
}

fn own_namespace() -> Value {
    json!({"reference": {"path": "metadata.namespace"}})
}

fn related(index: usize, origin: &str, kind: &Value, name: &Value, namespace: Option<&Value>) -> Value {
    let mut related = Map::from_iter([
        ("identifier".to_owned(), json!(format!("r{index}"))),
        ("origin".to_owned(), json!(origin)),
        ("object".to_owned(), name.clone()),
    ]);
    related.extend(kind.as_object().unwrap().clone());
    if let Some(namespace) = namespace {
        related["object"]["namespace"] = namespace.clone();
    }
    Value::Object(related)
}

#[tokio::test]
async fn nothing_is_dropped_silently_and_every_rule_can_be_used() {
    for (side, control_plane) in [("service-cluster", ControlPlane::Kubernetes), ("kcp", ControlPlane::Kcp)] {
        let mut documents = vec![
            parcels(),
            json!({"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "status": {"identityHash": "abc"},
                "metadata": {"name": "rail.example.com", "annotations": {"kcp.io/path": "root:rail"}}}),
        ];
        let mut sayable = Vec::new();
        for origin in ["service", "kcp", "platform"] {
            for (kind, exported) in kinds() {
                for (name, named, _) in locators() {
                    let namespaces = locators().into_iter().map(|(namespace, _, placed)| {
                        // Labels select in the object's own namespace only.
                        let placed = placed && (name["selector"].is_null() || namespace == own_namespace());
                        (Some(namespace), placed)
                    });
                    for (namespace, placed) in std::iter::once((None, true)).chain(namespaces) {
                        let index = sayable.len();
                        let related = related(index, origin, &kind, &name, namespace.as_ref());
                        documents.push(published(SYNC_AGENT, &format!("p{index}"), &json!({"related": [related]})));
                        sayable.push(named && placed && (side == "service-cluster" || exported));
                    }
                }
            }
        }
        let (rules, report) = imported(&documents, &["--side", side, "--export", "post.example.com=root:post"]).await;
        assert_eq!(sayable.len(), 3 * 7 * 11 * 12);
        let rules: BTreeMap<_, _> =
            rules.iter().map(|rule| (rule["metadata"]["name"].as_str().unwrap(), rule)).collect();
        let mut said: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for finding in &report {
            said.entry(finding["publishedResource"].as_str().unwrap()).or_default().push(finding);
        }
        for (index, sayable) in sayable.into_iter().enumerate() {
            let name = format!("p{index}");
            let rule = rules.get(name.as_str()).copied();
            let said = said.remove(name.as_str()).unwrap_or_default();
            let mut effects = said.iter().map(|finding| finding["effect"].as_str().unwrap());
            let lacks = effects.any(|effect| ["missing", "notEnforceable"].contains(&effect));
            let written = &documents[index + 2]["spec"]["related"];
            assert_eq!((rule.is_some(), lacks), (sayable, !sayable), "{side}: {written}: {rule:?} {said:?}");
            let Some(rule) = rule else { continue };
            let mut stored = rule.clone();
            stored["metadata"]["annotations"] = json!({"kcp.io/cluster": "abc"});
            let rule = Rule::parse(control_plane, &stored).unwrap();
            assert!(!rule.edges().is_empty());
            assert_eq!(rule.dependent().export.is_some(), side == "kcp");
        }
    }
}

/// Both agents' APIs share the meaning, but write it differently.
#[tokio::test]
async fn both_apis_say_the_same_in_their_own_ways() {
    let older = json!({"related": [{"identifier": "label", "origin": "service", "kind": "Secret",
        "reference": {"name": {"path": "spec.label"}, "namespace": {"path": "metadata.uid", "regex": {"replacement": "shared"}}}}]});
    let newer = json!({"related": [{"identifier": "label", "origin": "service", "version": "v1", "resource": "secrets",
        "object": {"reference": {"path": "spec.label"},
            "namespace": {"reference": {"path": "metadata.uid", "regex": {"replacement": "shared"}}}}}]});
    let documents = |api, fields: Value| [parcels(), published(api, "parcels", &fields)];
    let (rules, report) = imported(&documents(SERVLET, older), &[]).await;
    assert_eq!(report, Vec::<Value>::new());
    assert_eq!((rules, report), imported(&documents(SYNC_AGENT, newer), &[]).await);
}

/// Each case expects the kind in the rule: resource, group, version and kind.
#[tokio::test]
async fn a_projection_is_applied_in_kcp() {
    let secret = json!({"origin": "service", "group": "post.example.com", "version": "v1", "resource": "stamps",
        "object": {"reference": {"path": "spec.stamp"}}});
    for (api, projection, side, expected) in [
        (SYNC_AGENT, json!({"kind": "Paket"}), "service-cluster", ["parcels", "post.example.com", "v1", "Parcel"]),
        (SYNC_AGENT, json!({}), "kcp", ["parcels", "post.example.com", "v1", "Parcel"]),
        (SYNC_AGENT, json!({"kind": "Paket"}), "kcp", ["pakets", "post.example.com", "v1", "Paket"]),
        (
            SYNC_AGENT,
            json!({"kind": "Paket", "plural": "pakete", "versions": {"v1": "v7"}, "group": "mail.example.com"}),
            "kcp",
            ["pakete", "mail.example.com", "v7", "Paket"],
        ),
        (SERVLET, json!({"version": "v2"}), "kcp", ["parcels", "export.example.com", "v2", "Parcel"]),
    ] {
        let published = published(api, "parcels", &json!({"projection": projection, "related": [secret]}));
        let args = ["--side", side, "--export", "export.example.com=root:post"];
        let (rules, _) = imported(&[parcels(), published], &args).await;
        let dependent = &rules[0]["spec"]["dependent"];
        assert_eq!(["resource", "group", "version", "kind"].map(|field| dependent[field].as_str().unwrap()), expected);
    }
}

#[tokio::test]
async fn our_own_lint_finds_nothing_wrong_with_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let locators = locators().into_iter().enumerate().filter(|(_, (_, sayable, _))| *sayable);
    let related: Vec<_> = locators
        .map(|(index, (name, ..))| related(index, "service", &json!({"kind": "Secret"}), &name, None))
        .collect();
    let published = published(SYNC_AGENT, "parcels", &json!({"related": related}));
    let ran = crate::import::import(&[parcels(), published], &[]).await;
    assert_eq!(ran.status, ExitStatus::Well, "{}", ran.err);
    let rules = write(folder.path(), "rules.yaml", &ran.out);
    let crds = write(folder.path(), "crds.json", &parcels().to_string());
    let args = ["lint", "-f", rules.to_str().unwrap(), "--schemas", crds.to_str().unwrap(), "-o", "json"];
    let linted = depguard(&args).await;
    let json: Value = serde_json::from_str(&linted.out).unwrap();
    assert_eq!(linted.status, ExitStatus::Well, "{json:#}");
    assert_eq!((&json["summary"]["error"], &json["summary"]["rules"]), (&json!(0), &json!(1)), "{json:#}");
}

/// The agent accepts a number as a name, but a rule doesn't: `lint` finds this with the kind's definition.
#[tokio::test]
async fn our_own_lint_finds_a_field_that_is_no_string() {
    let folder = tempfile::tempdir().unwrap();
    let related =
        related(0, "service", &json!({"kind": "Secret"}), &json!({"reference": {"path": "spec.number"}}), None);
    let ran =
        crate::import::import(&[parcels(), published(SYNC_AGENT, "parcels", &json!({"related": [related]}))], &[])
            .await;
    let mut crd = parcels();
    let schema = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
    *schema = json!({"type": "object", "properties": {"number": {"type": "integer"}}});
    let rules = write(folder.path(), "rules.yaml", &ran.out);
    let crds = write(folder.path(), "crds.json", &crd.to_string());
    let linted = depguard(&["lint", "-f", rules.to_str().unwrap(), "--schemas", crds.to_str().unwrap()]).await;
    assert_eq!(linted.status, ExitStatus::Finding, "{}", linted.out);
    assert!(linted.out.contains("DG102"), "{}", linted.out);
}

/// Returns a PublishedResource with every field.
fn whole(older: bool) -> Value {
    let regex = json!({"pattern": "^a-(.+)$", "replacement": "b-$1"});
    let mut related = json!({
        "identifier": "label", "origin": "kcp", "group": "post.example.com", "version": "v1", "resource": "stamps",
        "projection": {"group": "mail.example.com", "version": "v2", "resource": "marks"},
        "object": {
            "reference": {"path": "spec.refs.#.name", "regex": regex},
            "namespace": {"reference": {"path": "spec.in", "regex": {"pattern": "", "replacement": "fixed"}}},
        },
    });
    if older {
        related = json!({"identifier": "label", "origin": "platform", "kind": "Secret",
            "reference": {"name": {"path": "spec.ref", "regex": regex}, "namespace": {"path": "spec.in"}}});
    }
    let fields = json!({
        "resource": {"apiGroup": "post.example.com", "kind": "Parcel", "versions": ["v1"]},
        "filter": {"resource": {"matchLabels": {"a": "b"}}, "namespace": {"matchExpressions": []}},
        "naming": {"namespace": "$remoteClusterName", "name": "{{ .ClusterName }}"},
        "projection": {"kind": "Paket", "plural": "pakete", "versions": {"v1": "v2"}, "scope": "Namespaced"},
        "synchronization": {"enabled": true},
        "related": [related],
    });
    published(if older { SERVLET } else { SYNC_AGENT }, "p", &fields)
}

/// Collects the pointers to all values below one.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let inner: Vec<_> = match value {
        Value::Object(fields) => fields.iter().map(|(field, value)| (field.clone(), value)).collect(),
        Value::Array(values) => values.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let at = format!("{at}/{}", name.replace('/', "~1"));
        found.push(at.clone());
        pointers(value, &at, found);
    }
}

fn anything() -> impl Strategy<Value = Value> {
    let texts = vec!["", "a", "A", "spec.a", "v1", "$1", "(", "^", "{{", "service", "kcp", "Secret", "\u{0}", "ä.b"];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        select(texts).prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{"a": ["b"]}])),
        Just(json!({"a": {"b": "c"}})),
    ]
}

proptest! {
    #[test]
    fn whatever_stands_in_a_field_is_in_a_rule_or_reported(
        older: bool,
        kcp: bool,
        edits in prop::collection::vec((any::<Index>(), anything()), 1..3),
    ) {
        let mut document = whole(older);
        for (at, value) in edits {
            let mut all = Vec::new();
            pointers(&document["spec"], "/spec", &mut all);
            if let Some(field) = all.get(at.index(all.len().max(1))) {
                *document.pointer_mut(field).unwrap() = value;
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let side = if kcp { "kcp" } else { "service-cluster" };
        let args = ["--side", side, "--export", "post.example.com=root:post", "--copy-of", "abc:ns/name"];
        let (rules, report) = runtime.block_on(imported(&[document.clone()], &args));
        prop_assert!(!rules.is_empty() || !report.is_empty(), "{document}");
        for rule in rules {
            let mut stored = rule.clone();
            stored["metadata"]["annotations"] = json!({"kcp.io/cluster": "abc"});
            let control_plane = if kcp { ControlPlane::Kcp } else { ControlPlane::Kubernetes };
            prop_assert!(Rule::parse(control_plane, &stored).is_ok(), "{stored}");
        }
    }
}
