//! Targets that are in no file and will be there: every cluster has them, or an object of the files makes them.

use std::collections::BTreeSet;

use depguard_controller::packs::RulePack;
use depguard_testbed::{Fault, When};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use super::completed::{beside, beside_packs};
use super::scene::define;
use crate::bed::Bed;
use crate::tool::Ran;

/// Returns the given targets, each with its maker, as `dangling -o json` prints them.
fn given(ran: &Ran) -> Vec<String> {
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let name = |object: &Value| format!("{}/{}", object["kind"].as_str().unwrap(), object["name"].as_str().unwrap());
    let given = report["given"].as_array().into_iter().flatten();
    let shown = given.map(|one| match &one["madeBy"] {
        Value::Null => format!("{} {}", name(one), one["references"]),
        maker => format!("{} {} by {}", name(one), one["references"], name(maker)),
    });
    shown.collect()
}

/// Bindings, a workload and an APIService that name these objects.
fn users_of([cluster_role, role, class, account, map, service]: [&str; 6]) -> String {
    format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {{name: b}}, roleRef: {{kind: ClusterRole, name: '{cluster_role}'}}}}\n---\n\
         {{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {{name: b, namespace: kube-system}}, roleRef: {{kind: Role, name: '{role}'}}}}\n---\n\
         {{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: s, namespace: a}}, spec: {{template: {{spec: {{\
         priorityClassName: {class}, serviceAccountName: {account}, volumes: [{{name: v, projected: {{sources: [{{configMap: {{name: {map}}}}}]}}}}]}}}}}}}}\n---\n\
         {{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {{name: v1.a}}, spec: {{service: {{name: {service}, namespace: default}}}}}}"
    )
}

const HAD: [&str; 6] = [
    "system:auth-delegator",
    "extension-apiserver-authentication-reader",
    "system-node-critical",
    "default",
    "kube-root-ca.crt",
    "kubernetes",
];

#[tokio::test]
async fn what_every_cluster_has_is_not_missing_and_is_told_apart() {
    let ran = beside_packs(&users_of(HAD), "dangling").await;
    assert_eq!((ran.status, ran.out.as_str()), (ExitStatus::Well, ""), "{ran:?}");
    assert!(ran.err.contains("6 references to objects that every cluster has: ClusterRole/"), "{ran:?}");
    let ran = beside_packs(&users_of(HAD), "dangling -o json").await;
    assert_eq!((ran.status, given(&ran).len()), (ExitStatus::Well, 6), "{ran:?}");
    // One letter off, each of them is missing.
    for index in 0..HAD.len() {
        let mut names = HAD;
        let wrong = format!("{}x", names[index]);
        names[index] = &wrong;
        let ran = beside_packs(&users_of(names), "dangling -o json").await;
        assert_eq!((ran.status, given(&ran).len()), (ExitStatus::Finding, 5), "{wrong}: {ran:?}");
        assert!(ran.out.contains(&format!("\"name\": \"{wrong}\"")), "{wrong}: {ran:?}");
    }
    // An object that the files have is no matter of the list.
    let own = format!(
        "{}\n---\n{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: default, namespace: a}}}}",
        users_of(HAD)
    );
    assert_eq!(given(&beside_packs(&own, "dangling -o json").await).len(), 5);
}

#[tokio::test]
async fn a_trace_takes_what_every_cluster_has_for_there() {
    let pod = |account: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: a}}, spec: {{serviceAccountName: '{account}', containers: []}}}}"
        )
    };
    for (account, status, says) in
        [("", ExitStatus::Well, "ServiceAccount/a/default"), ("robot", ExitStatus::Finding, "1 target: 1 missing")]
    {
        let ran = beside_packs(&pod(account), "trace pod p -n a").await;
        assert!(ran.status == status && ran.out.contains(says), "{account}: {ran:?}");
    }
}

const PACKS: [&str; 3] = ["kubernetes-workloads", "cert-manager", "external-secrets"];

/// Deployment that uses two Secrets, and their makers.
fn makers(certificate: &str, external: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: a}}, spec: {{template: {{spec: {{volumes: [\
         {{name: t, secret: {{secretName: web-tls}}}}, {{name: p, secret: {{secretName: web-db}}}}]}}}}}}}}\n---\n\
         {{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {{name: c, namespace: a}}, spec: {{{certificate}}}}}\n---\n\
         {{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {external}}}"
    )
}

#[tokio::test]
async fn a_secret_that_an_object_of_the_files_makes_is_not_missing() {
    let (tls, db) = ("Secret/web-tls 1 by Certificate/c", "Secret/web-db 1 by ExternalSecret");
    let by_name = "{name: web-db, namespace: a}, spec: {}";
    let by_target = "{name: e, namespace: a}, spec: {target: {name: web-db}}";
    for (certificate, external, made) in [
        ("secretName: web-tls", by_name, &[&format!("{db}/web-db"), tls][..]),
        ("secretName: web-tls", by_target, &[&format!("{db}/e"), tls]),
        ("secretName: other", by_target, &[&format!("{db}/e")]),
        ("dnsNames: [web-tls]", by_target, &[&format!("{db}/e")]),
        ("secretName: web-tls", "{name: web-db, namespace: a}, spec: {target: {name: other}}", &[tls]),
        ("secretName: web-tls", "{name: web-db, namespace: b}, spec: {}", &[tls]),
        ("secretName: web-tls", "{name: web-db, namespace: a}, spec: {target: {creationPolicy: None}}", &[tls]),
        ("secretName: web-tls", "{name: web-db, namespace: a}, spec: {target: {manifest: {kind: ConfigMap}}}", &[tls]),
        (
            "secretName: web-tls",
            "{name: e, namespace: a}, spec: {target: {name: web-db, manifest: {kind: Vault}}}",
            &[tls],
        ),
        (
            "secretName: web-tls",
            "{name: e, namespace: a}, spec: {target: {name: web-db, manifest: {kind: Secret}}}",
            &[&format!("{db}/e"), tls],
        ),
        (
            "secretName: web-tls",
            "{name: web-db, namespace: a}, spec: {target: {creationPolicy: Owner}}",
            &[&format!("{db}/web-db"), tls],
        ),
    ] {
        let ran = beside(&PACKS, &makers(certificate, external), "dangling -o json").await;
        let expected = if made.len() == 2 { ExitStatus::Well } else { ExitStatus::Finding };
        assert_eq!(
            (ran.status, given(&ran)),
            (expected, made.iter().map(|made| (*made).to_owned()).collect()),
            "{external}"
        );
    }
    let ran = beside(&PACKS, &makers("secretName: web-tls", by_name), "dangling").await;
    let note = "2 references to objects that objects of the files make: Secret/a/web-db by ExternalSecret/a/web-db, \
                Secret/a/web-tls by Certificate/a/c";
    assert!(ran.err.contains(note), "{ran:?}");
    // The packs know it, whether their rules are at hand or not.
    let ran = beside(&["kubernetes-workloads"], &makers("secretName: web-tls", by_name), "dangling").await;
    assert!(ran.status == ExitStatus::Well && ran.err.contains(note), "{ran:?}");
}

#[tokio::test]
async fn a_config_map_that_an_external_secret_makes_is_not_missing() {
    let files = |target: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: a}}, spec: {{containers: [\
             {{name: c, image: i, envFrom: [{{configMapRef: {{name: web}}}}]}}]}}}}\n---\n\
             {{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {{name: web, namespace: a}}, spec: {{target: {{{target}}}}}}}"
        )
    };
    for (target, status) in [
        ("manifest: {kind: ConfigMap}", ExitStatus::Well),
        ("manifest: {kind: ConfigMap}, name: other", ExitStatus::Finding),
        ("manifest: {kind: Vault}", ExitStatus::Finding),
        ("name: web", ExitStatus::Finding),
        ("", ExitStatus::Finding),
    ] {
        let ran = beside(&PACKS, &files(target), "dangling").await;
        assert_eq!(ran.status, status, "{target}: {ran:?}");
    }
}

#[tokio::test]
async fn a_trace_names_the_maker_of_what_will_be_there() {
    let other = "{name: web-db, namespace: a}, spec: {target: {creationPolicy: None}}";
    for (certificate, external, status, lines) in [
        (
            "secretName: web-tls",
            "{name: web-db, namespace: a}, spec: {}",
            ExitStatus::Well,
            ["there: ExternalSecret/a/web-db makes it", "there: Certificate/a/c makes it"],
        ),
        ("secretName: web-tls", other, ExitStatus::Finding, ["missing", "there: Certificate/a/c makes it"]),
        ("secretName: other", other, ExitStatus::Finding, ["missing", "missing"]),
    ] {
        let ran = beside(&PACKS, &makers(certificate, external), "trace deployment web -n a").await;
        assert_eq!(ran.status, status, "{ran:?}");
        let targets = ran.out.lines().filter(|line| line.contains("Secret/a/web-"));
        let targets: Vec<_> = targets.filter(|line| !line.starts_with("ExternalSecret")).collect();
        assert_eq!(targets.len(), 2, "{ran:?}");
        assert!(targets.iter().zip(lines).all(|(target, state)| target.ends_with(&format!("   {state}"))), "{ran:?}");
    }
    let ran = beside(&PACKS, &makers("secretName: web-tls", other), "trace deployment web -n a -o json").await;
    assert!(ran.out.contains("\"reason\": \"Certificate/a/c makes it\""), "{ran:?}");
}

#[tokio::test]
async fn a_maker_counts_in_whatever_namespace_it_is() {
    let files = |external: &str| {
        format!(
            "{{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {{name: apps}}, spec: {{\
             dependent: {{group: a.example.com, version: v1, kind: App, resource: apps}}, dependencies: [\
             {{group: '', version: v1, resource: secrets, fieldRef: {{path: .spec.secret, namespacePath: .spec.namespace}}}}]}}}}\n---\n\
             {{apiVersion: a.example.com/v1, kind: App, metadata: {{name: x, namespace: a}}, spec: {{secret: db, namespace: b}}}}\n---\n\
             {{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {{name: db, namespace: {external}}}, spec: {{}}}}"
        )
    };
    for (namespace, status) in [("b", ExitStatus::Well), ("a", ExitStatus::Finding)] {
        let ran = beside(&[], &files(namespace), "dangling -n a").await;
        assert_eq!(ran.status, status, "{namespace}: {ran:?}");
    }
}

#[tokio::test]
async fn a_secret_that_a_certificate_keeps_is_not_unused() {
    let secret = "\n---\n{apiVersion: v1, kind: Secret, metadata: {name: kept, namespace: a}}";
    let no_secret = "{name: e, namespace: a}, spec: {target: {creationPolicy: None}}";
    for (certificate, external, unused) in [
        ("secretName: kept", no_secret, ""),
        ("secretName: other", no_secret, "secrets/kept\n"),
        ("secretName: other", "{name: e, namespace: a}, spec: {target: {name: kept}}", ""),
        (
            "secretName: other",
            "{name: e, namespace: a}, spec: {target: {name: kept, creationPolicy: Merge}}",
            "secrets/kept\n",
        ),
        (
            "secretName: other",
            "{name: e, namespace: a, deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {target: {name: kept}}",
            "secrets/kept\n",
        ),
    ] {
        let ran = beside(
            &[&PACKS[..], &["kubernetes-cluster"]].concat(),
            &(makers(certificate, external) + secret),
            "unused -o name",
        )
        .await;
        assert_eq!(ran.out, unused, "{certificate} {external}: {ran:?}");
    }
}

#[tokio::test]
async fn a_maker_goes_after_the_users_of_what_it_makes_unless_that_holds_it() {
    let order = async |objects: &str| {
        let ran = beside(&PACKS, objects, "order -o json").await;
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
        let waves = report["waves"].as_array().unwrap().iter();
        let names = |wave: &Value| {
            let names = wave.as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap());
            names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
        };
        (ran.status, waves.map(names).collect::<Vec<_>>())
    };
    let other = "{name: e, namespace: a}, spec: {}";
    let (status, waves) = order(&makers("secretName: web-tls", other)).await;
    assert_eq!(
        (status, waves),
        (ExitStatus::Well, vec!["Deployment ExternalSecret".to_owned(), "Certificate".to_owned()])
    );
    let (_, waves) = order(&makers("secretName: other", other)).await;
    assert_eq!(waves, ["Certificate Deployment ExternalSecret"]);
    // The store's token is made by the store itself: without its maker, the store could never go.
    let circle = "{apiVersion: external-secrets.io/v1, kind: SecretStore, metadata: {name: s, namespace: a}, \
                  spec: {provider: {vault: {auth: {tokenSecretRef: {name: token}}}}}}\n---\n\
                  {apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {name: token, namespace: a}, \
                  spec: {secretStoreRef: {name: s}}}";
    assert_eq!(order(circle).await, (ExitStatus::Well, vec!["ExternalSecret".to_owned(), "SecretStore".to_owned()]));
    // Other makers wait beside a circle, and beside a user who stays.
    let beside_it = format!("{circle}\n---\n{}", makers("secretName: web-tls", other));
    let waves = ["Deployment ExternalSecret", "Certificate SecretStore"].map(str::to_owned);
    assert_eq!(order(&beside_it).await, (ExitStatus::Well, waves.into()));
    let stays = "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: stays, namespace: a}, spec: {template: {spec: {\
                 volumes: [{name: v, secret: {secretName: e}}]}}}}\n---\n\
                 {apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: ObjectLock, metadata: {name: l, namespace: a}, \
                 spec: {targets: [{group: apps, resource: statefulsets, name: stays}]}}";
    let (status, waves) = order(&format!("{stays}\n---\n{}", makers("secretName: web-tls", other))).await;
    assert_eq!(
        (status, waves),
        (ExitStatus::Finding, vec!["Deployment ExternalSecret".to_owned(), "Certificate".to_owned()])
    );
}

#[tokio::test]
async fn on_a_cluster_a_secret_is_kept_by_an_existing_certificate() {
    let bed = Bed::kubernetes().await;
    let post = async |path: &str, object: &Value| drop(bed.endpoint().post_json(path, object).await.unwrap());
    post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &depguard_controller::manifests::crd()).await;
    define(&bed.endpoint(), "cert-manager.io", "v1", "certificates", "Certificate", "Namespaced").await;
    for rule in RulePack::by_name("cert-manager").unwrap().rules() {
        post("/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules", &rule).await;
    }
    for name in ["kept", "free"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        post("/api/v1/namespaces/default/secrets", &secret).await;
    }
    let certificate = json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "c"},
        "spec": {"secretName": "kept"}});
    let told = async || bed.depguard(&["unused", "-n", "default", "-o", "json"]).await.out;
    let is_told = |told: &str, name: &str| told.contains(&format!("\"name\": \"{name}\""));
    let before = told().await;
    assert!(is_told(&before, "kept") && is_told(&before, "free"), "{before}");
    post("/apis/cert-manager.io/v1/namespaces/default/certificates", &certificate).await;
    let after = told().await;
    assert!(!is_told(&after, "kept") && is_told(&after, "free"), "{after}");

    // Nobody knows what is made by a kind that is served and was not read, since no rule is about it or for want of a right.
    let [certificates, external] = ["certificates.cert-manager.io", "externalsecrets.external-secrets.io"]
        .map(|makers| format!("{makers} may make it, and were not read"));
    assert!(!after.contains(&certificates) && !after.contains(&external), "{after}");
    define(&bed.endpoint(), "external-secrets.io", "v1", "externalsecrets", "ExternalSecret", "Namespaced").await;
    let unknown = told().await;
    assert!(!unknown.contains(&certificates) && unknown.contains(&external), "{unknown}");
    bed.testbed.faults().inject(Fault::Forbidden, When::always().method("GET").path("/certificates?"));
    let unknown = told().await;
    assert!(is_told(&unknown, "kept") && unknown.contains(&certificates), "{unknown}");
}
