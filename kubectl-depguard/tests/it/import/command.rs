//! Output and exit status of the command.

use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::import::{SERVLET, SYNC_AGENT, import, imported, parcels, published};
use crate::tool::depguard;

fn related(object: &Value) -> Value {
    json!({"related": [{"identifier": "label", "origin": "service", "kind": "Secret", "object": object}]})
}

fn by_name() -> Value {
    related(&json!({"reference": {"path": "spec.label"}}))
}

#[tokio::test]
async fn rules_are_printed_for_whoever_reads_them() {
    let documents = [parcels(), published(SYNC_AGENT, "parcels", &by_name())];
    let yaml = import(&documents, &[]).await;
    assert_eq!((yaml.status, yaml.err.as_str()), (ExitStatus::Well, ""));
    assert_eq!(
        yaml.out,
        "---\napiVersion: dependencies.opendefense.cloud/v1alpha1\nkind: DependencyRule\nmetadata:\n  name: parcels\nspec:\n  \
         dependent:\n    group: post.example.com\n    version: v1\n    kind: Parcel\n    resource: parcels\n  \
         dependencies:\n  - group: \"\"\n    version: v1\n    resource: secrets\n    kind: Secret\n    fieldRef:\n      \
         path: .spec.label\n"
    );
    let table = import(&documents, &["-o", "table"]).await;
    let rows: Vec<Vec<_>> = table.out.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["parcels", "parcels.post.example.com", ".spec.label", "secrets", "<own>", "Deny"]);
}

#[tokio::test]
async fn what_no_rule_can_say_is_reported_and_is_a_finding() {
    let selector = related(&json!({"selector": {"matchLabels": {"a": "{{ .Object.metadata.name }}"}, "rewrite": {}}}));
    let ran = import(&[parcels(), published(SYNC_AGENT, "parcels", &selector)], &[]).await;
    assert_eq!((ran.status, ran.out.as_str()), (ExitStatus::Finding, ""));
    assert!(
        ran.err.starts_with("missing: ") && ran.err.contains("spec.related[0] (label).object.selector: "),
        "{}",
        ran.err
    );

    // In kcp, no API server would ask the webhook about a Secret.
    let export = ["--side", "kcp", "--export", "post.example.com=root:post"];
    let (rules, report) = imported(&[parcels(), published(SYNC_AGENT, "parcels", &by_name())], &export).await;
    assert_eq!((rules.len(), &report[0]["effect"]), (0, &json!("notEnforceable")));

    let (rules, report) = imported(&[parcels(), published(SYNC_AGENT, "", &by_name())], &[]).await;
    assert_eq!((rules.len(), &report[0]["field"]), (0, &json!("metadata.name")));

    // The other rules are printed all the same.
    let both = json!({"related": [selector["related"][0], by_name()["related"][0]]});
    let (rules, report) = imported(&[parcels(), published(SYNC_AGENT, "parcels", &both)], &[]).await;
    assert_eq!((rules.len(), report.len()), (1, 1));
}

/// Each case: the PublishedResource, and the effect and the field of each finding.
#[tokio::test]
async fn each_thing_that_is_taken_otherwise_is_said() {
    let placed = |reference: &Value| {
        related(&json!({"reference": {"path": "spec.label"}, "namespace": {"reference": reference}}))
    };
    let with = |field: &str, value: Value| {
        let mut fields = by_name();
        fields[field] = value;
        fields
    };
    for (fields, definitions, expected) in [
        (by_name(), vec![], vec![("assumed", "spec.resource.kind")]),
        (json!({"related": []}), vec![parcels()], vec![("nothing", "spec.related")]),
        (
            with("synchronization", json!({"enabled": false})),
            vec![parcels()],
            vec![("nothing", "spec.synchronization.enabled")],
        ),
        (with("later", json!(1)), vec![parcels()], vec![("missing", "spec.later")]),
        (with("naming", json!({"name": "{{ .Object.spec.a }}"})), vec![parcels()], vec![("assumed", "spec.naming")]),
        (with("filter", json!({"namespace": "team"})), vec![parcels()], vec![("wider", "spec.filter.namespace")]),
        (with("filter", json!({"resource": "team"})), vec![parcels()], vec![("wider", "spec.filter.resource")]),
        (with("related", json!("none")), vec![parcels()], vec![("missing", "spec")]),
        (with("related", json!([{"origin": "moon"}])), vec![parcels()], vec![("missing", "spec.related[0]")]),
        (
            with("resource", json!({"apiGroup": "a.example.com", "kind": "A"})),
            vec![],
            vec![("missing", "spec.resource")],
        ),
        (
            with("resource", json!({"apiGroup": "a.example.com", "kind": "A", "versions": ["v1", "v2"]})),
            vec![],
            vec![("assumed", "spec.resource.versions"), ("assumed", "spec.resource.kind")],
        ),
        (
            related(&json!({"reference": {"path": ".spec.label"}})),
            vec![parcels()],
            vec![("assumed", "spec.related[0] (label).object")],
        ),
        (
            related(&json!({"reference": {"path": "spec.a", "regex": {"replacement": "s"}}})),
            vec![parcels()],
            vec![("wider", "spec.related[0] (label).object")],
        ),
        (
            placed(&json!({"path": "spec.in"})),
            vec![parcels()],
            vec![("wider", "spec.related[0] (label).object.namespace")],
        ),
        (
            placed(&json!({"path": "spec.hint", "regex": {"pattern": "", "replacement": "creds"}})),
            vec![parcels()],
            vec![("wider", "spec.related[0] (label).object.namespace")],
        ),
        (placed(&json!({"path": "metadata.name"})), vec![parcels()], vec![]),
        (placed(&json!({"path": "metadata.uid", "regex": {"replacement": "creds"}})), vec![parcels()], vec![]),
        (
            related(&json!({"reference": {"path": "spec.a", "regx": {}}})),
            vec![parcels()],
            vec![("missing", "spec.related[0].object.reference.regx")],
        ),
    ] {
        let documents = [definitions, vec![published(SYNC_AGENT, "parcels", &fields)]].concat();
        let (_, report) = imported(&documents, &[]).await;
        let said: Vec<_> = report
            .iter()
            .map(|finding| (finding["effect"].as_str().unwrap(), finding["field"].as_str().unwrap()))
            .collect();
        assert_eq!(said, expected, "{fields}");
        // A message is part of a sentence, and mentions no internals of this program.
        for finding in &report {
            let message = finding["message"].as_str().unwrap();
            assert!(!message.ends_with('.') && !message.contains("struct "), "{message}");
        }
    }
}

/// Kubernetes' own kinds need no definition. Without one, the plural of any other kind is a guess, which is said.
#[tokio::test]
async fn a_plural_is_guessed_only_if_nobody_gives_it() {
    for (group, kind, resource, findings) in [
        ("networking.k8s.io", "NetworkPolicy", "networkpolicies", 0),
        ("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", 0),
        ("post.example.com", "Parcel", "parcels", 1),
    ] {
        let mut published = published(SYNC_AGENT, "things", &by_name());
        published["spec"]["resource"] = json!({"apiGroup": group, "kind": kind, "version": "v1"});
        let (rules, report) = imported(&[published], &[]).await;
        assert_eq!(rules[0]["spec"]["dependent"]["resource"], resource);
        let guesses = report.iter().filter(|finding| finding["message"].as_str().unwrap().contains("probably"));
        assert_eq!(guesses.count(), findings, "{kind}: {report:?}");
    }
}

#[tokio::test]
async fn a_copy_is_found_by_its_name_or_by_its_labels() {
    for (api, name, label) in [
        (SERVLET, "ca84d1343b96baa8137c-5042d146667518a1a501", "servlet.kdp.k8c.io/remote-object-name=shop"),
        (
            SYNC_AGENT,
            "6a31816d04deed5f5bcd-f39597dce3aed80bee3d",
            "syncagent.kcp.io/remote-object-name-hash=5042d146667518a1a501",
        ),
    ] {
        let documents = [parcels(), published(api, "parcels", &by_name())];
        let ran = import(&documents, &["--copy-of", "2kmlo5t0xpzp:web/shop"]).await;
        let made = format!("a new copy would be parcels.post.example.com 2kmlo5t0xpzp/{name}");
        assert!(ran.err.contains(&made) && ran.err.contains(label), "{}", ran.err);
    }
}

/// Copies are reported even without a rule. Each case: name and fields of the PublishedResource, effect and field of
/// each finding.
#[tokio::test]
async fn a_copy_that_can_not_be_told_is_reported() {
    let naming = json!({"name": "{{ .Object.spec.x }}"});
    let related = &by_name()["related"];
    let off = json!({"enabled": false});
    let unnamed = ("assumed", "spec.naming");
    for (name, fields, expected) in [
        ("parcels", json!({"naming": naming}), vec![("nothing", "spec.related"), unnamed]),
        (
            "parcels",
            json!({"naming": naming, "related": related, "synchronization": off}),
            vec![("nothing", "spec.synchronization.enabled"), unnamed],
        ),
        ("", json!({"naming": naming, "related": related}), vec![("missing", "metadata.name"), unnamed]),
        // The finding appears once, though the rule would report it, too.
        ("parcels", json!({"naming": naming, "related": related}), vec![unnamed]),
        (
            "parcels",
            json!({"resource": {"apiGroup": "a.example.com", "kind": "A"}}),
            vec![("nothing", "spec.related"), ("missing", "spec.resource")],
        ),
        (
            "parcels",
            json!({"resource": {"apiGroup": "a.example.com", "kind": "A", "version": "v1"}}),
            vec![("nothing", "spec.related"), ("assumed", "spec.resource.kind")],
        ),
        (
            "parcels",
            json!({"resource": {"apiGroup": "a.example.com", "kind": "A"}, "related": related}),
            vec![("missing", "spec.resource")],
        ),
    ] {
        let documents = [parcels(), published(SYNC_AGENT, name, &fields)];
        let (_, report) = imported(&documents, &["--copy-of", "a:ns/n"]).await;
        let said: Vec<_> = report
            .iter()
            .map(|finding| (finding["effect"].as_str().unwrap(), finding["field"].as_str().unwrap()))
            .collect();
        assert_eq!(said, expected, "{name} {fields}");
    }
    let by_path = json!({"naming": {"name": "{{ .ClusterPath }}"}, "related": related});
    let (_, report) = imported(&[parcels(), published(SYNC_AGENT, "p", &by_path)], &["--copy-of", "a:ns/n"]).await;
    let message = report[0]["message"].as_str().unwrap();
    assert!(message.contains("-l syncagent.kcp.io/remote-object-cluster=a,"), "{message}");
}

#[tokio::test]
async fn a_command_that_can_not_be_carried_out_says_what_to_do() {
    let documents = [published(SYNC_AGENT, "parcels", &by_name())];
    for (args, part) in [
        (&["--side", "kcp"][..], "--export"),
        (&["--export", "a"], "certs.example.com=root:providers:certs"),
        (&["--copy-of", "a"], "CLUSTER:NAMESPACE/NAME"),
        (&["--copy-of", "a:b/"], "CLUSTER:NAMESPACE/NAME"),
    ] {
        let ran = import(&documents, args).await;
        assert_eq!(ran.status, ExitStatus::Failure, "{args:?}");
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    for (ran, part) in [
        (import(&[parcels()], &[]).await, "the files contain no PublishedResource"),
        (depguard(&["import", "published-resource"]).await, "no file is named"),
    ] {
        assert_eq!(ran.status, ExitStatus::Failure);
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}

/// PublishedResources of different agents may have the same name.
#[tokio::test]
async fn every_rule_has_a_name_of_its_own() {
    let documents = [parcels(), published(SYNC_AGENT, "p", &by_name()), published(SERVLET, "p", &by_name())];
    let (rules, _) = imported(&documents, &[]).await;
    assert_eq!(rules.iter().map(|rule| &rule["metadata"]["name"]).collect::<Vec<_>>(), ["p", "p-2"]);
}

#[tokio::test]
async fn a_published_resource_of_an_agent_that_is_not_known_is_a_finding() {
    let documents = [
        parcels(),
        published(SYNC_AGENT, "parcels", &by_name()),
        published("sync.example.com/v1", "other", &by_name()),
    ];
    let ran = import(&documents, &[]).await;
    assert_eq!(ran.status, ExitStatus::Finding, "{ran:?}");
    assert!(
        ran.out.contains("name: parcels\n") && ran.err.contains("other: apiVersion: is `sync.example.com/v1`"),
        "{ran:?}"
    );
    let (rules, report) = imported(&documents, &[]).await;
    assert_eq!((rules.len(), &report[0]["effect"]), (1, &"missing".into()), "{report:?}");
}

#[tokio::test]
async fn a_published_resource_without_its_kind_is_not_passed_over() {
    let mut nameless = published(SYNC_AGENT, "other", &by_name());
    nameless.as_object_mut().unwrap().remove("kind");
    let ran = import(&[parcels(), published(SYNC_AGENT, "parcels", &by_name()), nameless], &[]).await;
    assert_eq!((ran.status, ran.out.as_str()), (ExitStatus::Failure, ""), "{ran:?}");
    assert!(ran.err.contains("its apiVersion or its kind is missing"), "{ran:?}");
}
