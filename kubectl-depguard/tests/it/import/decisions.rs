//! Decisions of the imported rules, made by the engine of the webhook.

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::import::{SYNC_AGENT, imported, parcels, published};
use crate::tool::{depguard, write};

/// Reference to a related Secret, the spec of the parcel `p` in `team`, and the decisions about Secrets.
type Case = (Value, Value, Vec<(&'static str, &'static str)>);

fn cases() -> Vec<Case> {
    let name = |path: &str| json!({"reference": {"path": path}});
    let regex = |path: &str, pattern: &str, replacement: &str| json!({"reference": {"path": path, "regex": {"pattern": pattern, "replacement": replacement}}});
    let placed = |mut name: Value, namespace: Value| {
        name["namespace"] = namespace;
        name
    };
    vec![
        (name("spec.a"), json!({"a": "s"}), vec![("team/s", "denied"), ("other/s", "allowed"), ("team/t", "allowed")]),
        (name("spec.all"), json!({"all": ["s", "t"]}), vec![("team/s", "denied"), ("team/t", "denied")]),
        (
            name("spec.all.#.of.name"),
            json!({"all": [{"of": {"name": "s"}}, {"of": {"name": "t"}}, {}]}),
            vec![("team/s", "denied"), ("team/t", "denied"), ("team/u", "allowed")],
        ),
        (name("spec.all.0"), json!({"all": ["s", "t"]}), vec![("team/s", "denied"), ("team/t", "allowed")]),
        (
            name(r"metadata.annotations.post\.example\.com/label"),
            json!({}),
            vec![("team/annotated", "denied"), ("team/s", "allowed")],
        ),
        (json!({"template": {"template": "{{ .Object.spec.a }}"}}), json!({"a": "s"}), vec![("team/s", "denied")]),
        (regex("metadata.uid", "", "s"), json!({}), vec![("team/s", "denied"), ("other/s", "allowed")]),
        (
            regex("spec.a", "^of-(.+)$", "$1"),
            json!({"a": "of-s"}),
            vec![("team/s", "denied"), ("team/of-s", "allowed")],
        ),
        (regex("spec.a", "^of-(.+)$", "$1"), json!({"a": "s"}), vec![("team/s", "denied")]),
        (regex("spec.a", "(.+)", "$1-tls"), json!({"a": "s"}), vec![("team/s-tls", "denied"), ("team/s", "allowed")]),
        // Without a match, the name is the value itself; with a match, one refusal too many is better.
        (
            regex("spec.a", "^of-(.+)$", "x-$1"),
            json!({"a": "of-s"}),
            vec![("team/x-s", "denied"), ("team/of-s", "denied"), ("team/s", "allowed")],
        ),
        (regex("spec.a", "^of-(.+)$", "x-$1"), json!({"a": "s"}), vec![("team/s", "denied"), ("team/x-s", "allowed")]),
        (
            placed(name("spec.a"), regex("metadata.uid", "", "other")),
            json!({"a": "s"}),
            vec![("other/s", "denied"), ("team/s", "allowed")],
        ),
        (
            placed(name("spec.a"), name("spec.in")),
            json!({"a": "s", "in": "other"}),
            vec![("other/s", "denied"), ("team/s", "allowed")],
        ),
        (
            placed(name("spec.a"), name("metadata.namespace")),
            json!({"a": "s", "in": "other"}),
            vec![("other/s", "allowed"), ("team/s", "denied")],
        ),
        (
            placed(name("spec.a"), regex("spec.in", "^ns-(.+)$", "$1")),
            json!({"a": "s", "in": "ns-other"}),
            vec![("other/s", "denied"), ("team/s", "allowed")],
        ),
        (
            placed(name("spec.a"), regex("spec.in", "^ns-(.+)$", "$1")),
            json!({"a": "s", "in": "other"}),
            vec![("other/s", "denied")],
        ),
    ]
}

#[tokio::test]
async fn a_related_object_is_held_as_long_as_one_refers_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut suites = Vec::new();
    for (at, (object, spec, secrets)) in cases().into_iter().enumerate() {
        let related = json!({"identifier": "s", "origin": "service", "kind": "Secret", "object": object});
        let (rules, report) =
            imported(&[parcels(), published(SYNC_AGENT, "p", &json!({"related": [related]}))], &[]).await;
        assert!(!rules.is_empty(), "{object}: {report:?}");
        let mut objects = vec![parcels(), parcel("p", &json!({}), &spec)];
        let mut tests = Vec::new();
        for (secret, expected) in secrets {
            let (namespace, name) = secret.split_once('/').unwrap();
            objects.push(
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}),
            );
            tests.push(json!({"delete": format!("secret/{name}"), "namespace": namespace, "expect": expected}));
            if secret.starts_with("team/") {
                let without = json!(["parcel/p"]);
                tests.push(json!({"delete": format!("secret/{name}"), "expect": "allowed", "without": without}));
            }
        }
        suites.push(json!({"name": format!("{at}: {object}"), "namespace": "team", "rules": rules, "objects": objects,
            "tests": tests}));
    }
    run(&folder, &suites).await;
}

#[tokio::test]
async fn what_a_selector_selects_is_held_in_the_objects_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let selector = json!({"matchLabels": {"role": "label"}, "rewrite": {"regex": {"pattern": "", "replacement": "s"}}});
    let related = |origin: &str| json!([{"identifier": "s", "origin": origin, "kind": "Secret", "object": {"selector": selector}}]);
    let documents = |origin: &str| [parcels(), published(SYNC_AGENT, "p", &json!({"related": related(origin)}))];
    let (rules, report) = imported(&documents("service"), &[]).await;
    assert_eq!(report, Vec::<Value>::new());
    let secret = |name: &str, namespace: &str, role: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace, "labels": {"role": role}}});
    let objects = [
        parcels(),
        parcel("p", &json!({}), &json!({})),
        secret("s", "team", "label"),
        secret("t", "team", "other"),
        secret("s", "other", "label"),
    ];
    let tests = [
        json!({"delete": "secret/s", "expect": "denied", "blockers": ["Parcel/p"]}),
        json!({"delete": "secret/s", "expect": "allowed", "without": ["parcel/p"]}),
        json!({"delete": "secret/t", "expect": "allowed"}),
        json!({"delete": "secret/s", "namespace": "other", "expect": "allowed"}),
    ];
    run(&folder, &[json!({"namespace": "team", "rules": rules, "objects": objects, "tests": tests})]).await;
    // The agent decides whether a copy has its original's labels.
    let (_, report) = imported(&documents("kcp"), &["--copies", "deny"]).await;
    assert_eq!(report[0]["effect"], "assumed", "{report:?}");
}

#[tokio::test]
async fn a_filter_limits_the_rule_as_it_limits_the_sync() {
    let folder = tempfile::tempdir().unwrap();
    let related = json!([{"identifier": "s", "origin": "service", "kind": "Secret",
        "object": {"reference": {"path": "spec.a"}}}]);
    let filter = json!({"resource": {"matchLabels": {"synced": "yes"}}, "namespace": {"matchLabels": {"a": "b"}}});
    let published = published(SYNC_AGENT, "p", &json!({"filter": filter, "related": related}));
    let (rules, report) = imported(&[parcels(), published], &[]).await;
    let said: Vec<_> = report.iter().map(|finding| (&finding["effect"], &finding["field"])).collect();
    assert_eq!(said, [(&json!("wider"), &json!("spec.filter.namespace"))]);
    let objects = [
        parcels(),
        parcel("synced", &json!({"synced": "yes"}), &json!({"a": "s"})),
        parcel("other", &json!({}), &json!({"a": "t"})),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}}),
    ];
    let tests = [
        json!({"delete": "secret/s", "expect": "denied", "blockers": ["Parcel/synced"]}),
        json!({"delete": "secret/t", "expect": "allowed"}),
    ];
    run(&folder, &[json!({"namespace": "team", "rules": rules, "objects": objects, "tests": tests})]).await;
}

#[tokio::test]
async fn who_deletes_a_copy_is_warned_unless_it_is_to_be_refused() {
    let folder = tempfile::tempdir().unwrap();
    let related = json!([{"identifier": "s", "origin": "kcp", "kind": "Secret",
        "object": {"reference": {"path": "spec.a"}}}]);
    let documents = [parcels(), published(SYNC_AGENT, "p", &json!({"related": related}))];
    for (args, effects, expected) in [
        (&[][..], vec![json!("weaker")], "warned"),
        (&["--copies", "audit"], vec![json!("weaker")], "audited"),
        (&["--copies", "deny"], vec![], "denied"),
    ] {
        let (rules, report) = imported(&documents, args).await;
        assert_eq!(report.iter().map(|finding| finding["effect"].clone()).collect::<Vec<_>>(), effects);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let objects = json!([parcels(), parcel("p", &json!({}), &json!({"a": "s"})), secret]);
        let tests = json!([{"delete": "secret/s", "expect": expected}]);
        run(&folder, &[json!({"namespace": "team", "rules": rules, "objects": objects, "tests": tests})]).await;
    }
}

fn parcel(name: &str, labels: &Value, spec: &Value) -> Value {
    let annotations = json!({"post.example.com/label": "annotated"});
    json!({"apiVersion": "post.example.com/v1", "kind": "Parcel", "spec": spec,
        "metadata": {"name": name, "namespace": "team", "uid": "5", "labels": labels, "annotations": annotations}})
}

async fn run(folder: &tempfile::TempDir, suites: &[Value]) {
    for (at, suite) in suites.iter().enumerate() {
        let file = write(folder.path(), &format!("{at}.json"), &suite.to_string());
        let ran = depguard(&["test", "-f", file.to_str().unwrap()]).await;
        assert_eq!(ran.status, ExitStatus::Well, "{}{}{suite:#}", ran.out, ran.err);
    }
}
