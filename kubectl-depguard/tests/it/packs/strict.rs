//! Strict rules: they refuse what the default rules let go, and `rules apply` names it.

use depguard_controller::packs::RulePack;
use depguard_core::Rule;
use depguard_core::api::OnDelete;
use depguard_core::rule::Edge;
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use super::former::{RULES, bed, former};
use super::{file, root, suite};
use crate::tool::{depguard, write};

/// Beginning of the name of each test of a suite that strict rules fail.
const BY_DEFAULT: &str = "by default, ";
const PACKS: [&str; 2] = ["kubernetes-workloads", "kubernetes-cluster"];

fn parsed(pack: &RulePack) -> Vec<Rule> {
    let with_cluster = |mut rule: Value| {
        rule["metadata"]["annotations"] = json!({"kcp.io/cluster": "any"});
        Rule::parse(pack.control_plane, &rule).unwrap()
    };
    pack.rules().into_iter().map(with_cluster).collect()
}

#[test]
fn each_default_reference_is_part_of_a_strict_one_that_refuses() {
    let mut split = Vec::new();
    for pack in RulePack::all() {
        let by_default = parsed(pack);
        for strict in parsed(pack.strict()) {
            let of_name = |rule: &&Rule| rule.key() == strict.key();
            let by_default = by_default.iter().find(of_name).unwrap();
            // Some rules only tell what is used.
            let warns = strict.key().name == "kubernetes-cluster-clusterroles";
            let refuses = |edge: &Edge| (edge.on_delete == OnDelete::Deny) != warns && !edge.optional;
            assert!(strict.edges().iter().all(refuses), "{}", strict.key());
            let is_part = |edge, of| strict.covers(of, by_default, edge);
            for edge in by_default.edges() {
                assert!(strict.edges().iter().any(|of| is_part(edge, of)), "{}: {edge:?}", strict.key());
            }
            for of in strict.edges() {
                let same_target = by_default.edges().iter().filter(|edge| edge.target == of.target);
                assert!(same_target.filter(|edge| is_part(edge, of)).count() > 0, "{}: {of:?}", strict.key());
            }
            if strict != *by_default {
                split.push(strict.key().name.clone());
            }
        }
        let only_by_default = by_default.len() - pack.strict().rules().len();
        assert_eq!(only_by_default, usize::from(pack.name == "kubernetes-workloads"), "{}", pack.name);
        assert!(pack.by_default.is_empty() || PACKS.contains(&pack.name));
    }
    let is_known = |name: &String| {
        ["kubernetes-workloads-", "kubernetes-cluster-persistentvolumeclaims", "flux-", "kubevirt-"]
            .iter()
            .any(|known| name.starts_with(known))
    };
    assert!(split.len() == 13 && split.iter().all(is_known), "{split:?}");
}

#[tokio::test]
async fn strict_rules_pass_the_same_tests_but_those_of_the_default() {
    let mut by_default = 0;
    for pack in RulePack::all() {
        let folder = tempfile::tempdir().unwrap();
        file(&folder, "rules.yaml", &pack.strict().rules());
        let suite = write(folder.path(), "pack.test.yaml", &suite(pack, "rules.yaml"));
        let ran = depguard(&["test", "-f", suite.to_str().unwrap(), "-o", "json"]).await;
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {}", ran.err));
        let suites = report["suites"].as_array().unwrap().iter();
        for test in suites.flat_map(|suite| suite["tests"].as_array().unwrap()) {
            let is_of_default = test["name"].as_str().unwrap().starts_with(BY_DEFAULT);
            assert_eq!(test["result"] == "pass", !is_of_default, "{}: {test:#}", pack.name);
            by_default += usize::from(is_of_default);
        }
    }
    assert_eq!(by_default, 10);
}

#[tokio::test]
async fn what_a_cluster_has_and_the_pack_weakens_is_named() {
    let bed = bed().await;
    let apply = async |more: &[&str]| {
        let applied = bed.depguard(&[&["rules", "apply"], &PACKS[..], more].concat()).await;
        assert_eq!(applied.status, ExitStatus::Well, "{}", applied.err);
        let notes = applied.err.lines().filter(|line| line.contains(" deletions of "));
        notes.map(str::to_owned).collect::<Vec<_>>()
    };
    // Nothing is there, and then nothing becomes weaker.
    assert!(apply(&["--strict"]).await.is_empty() && apply(&["--strict"]).await.is_empty());

    let told = apply(&["--dry-run=server"]).await;
    assert_eq!(apply(&[]).await, told);
    let of = |rule: &str, words: &str| {
        let line = told.iter().find(|line| line.contains(&format!("/{rule} {words} in ")));
        line.unwrap_or_else(|| panic!("{rule} {words}: {told:#?}")).clone()
    };
    let pods = of("kubernetes-workloads-pods", "refuses in fewer cases than before deletions of secrets");
    for field in
        ["spec.volumes[*].secret.secretName", "spec.imagePullSecrets[*].name", "spec.volumes[*].rbd.secretRef.name"]
    {
        assert!(pods.contains(field), "{pods}");
    }
    let deployments = of("kubernetes-workloads-deployments", "refuses in fewer cases than before deletions of secrets");
    assert!(
        !deployments.contains("imagePullSecrets") && deployments.contains("envFrom[*].secretRef.name"),
        "{deployments}"
    );
    of("kubernetes-workloads-pods", "only warns, where it refused, about deletions of persistentvolumeclaims");
    of(
        "kubernetes-cluster-persistentvolumeclaims",
        "only warns, where it refused, about deletions of persistentvolumes",
    );
    // Configmaps and secrets of six kinds, and the claims and volumes.
    assert!(told.len() == 14 && !told.iter().any(|line| line.contains("serviceaccounts")), "{told:#?}");

    assert!(apply(&[]).await.is_empty());
    // The strict rules do without one.
    let of_replicasets = apply(&["--strict"]).await;
    let is_it = |line: &String| line.contains("/kubernetes-workloads-replicasets no longer refuses deletions of ");
    assert!(!of_replicasets.is_empty() && of_replicasets.iter().all(is_it), "{of_replicasets:#?}");
    assert!(apply(&["--strict"]).await.is_empty());
}

#[tokio::test]
async fn what_a_rule_of_a_former_name_or_with_more_references_refused_is_named() {
    let bed = bed().await;
    bed.endpoint().post_json(RULES, &former("pods")).await.unwrap();
    let mut more = RulePack::by_name(PACKS[0]).unwrap().rules().remove(2);
    let name = more["metadata"]["name"].as_str().unwrap().to_owned();
    let nodes = json!({"group": "", "version": "v1", "resource": "nodes", "fieldRef": {"path": ".spec.template.spec.nodeName"}});
    more["spec"]["dependencies"].as_array_mut().unwrap().push(nodes);
    bed.endpoint().apply(&format!("{RULES}/{name}"), &more, "kubectl-depguard", true).await.unwrap();
    let applied = bed.depguard(&["rules", "apply", PACKS[0], "--strict"]).await;
    let of_nodes = format!("/{name} no longer refuses deletions of nodes in spec.template.spec.nodeName\n");
    assert!(applied.status == ExitStatus::Well && applied.err.contains(&of_nodes), "{}", applied.err);
    assert_eq!(applied.err.matches(" deletions of ").count(), 1, "{}", applied.err);

    // Another rule of the pack refuses the same.
    let mut one = RulePack::by_name("gateway-api").unwrap().rules();
    let index = |name: &str| one.iter().position(|rule| rule["metadata"]["name"] == name).unwrap();
    let [all, of_xbackends] = ["gateway-api-tcproutes", "gateway-api-tcproutes-xbackends"].map(index);
    let moved = one[of_xbackends]["spec"]["dependencies"][0].clone();
    one[all]["spec"]["dependencies"].as_array_mut().unwrap().push(moved);
    bed.endpoint().apply(&format!("{RULES}/gateway-api-tcproutes"), &one[all], "kubectl-depguard", true).await.unwrap();
    let applied = bed.depguard(&["rules", "apply", "gateway-api"]).await;
    assert!(applied.status == ExitStatus::Well && !applied.err.contains(" deletions of "), "{}", applied.err);

    let bed = self::bed().await;
    let mut strict = RulePack::by_name(PACKS[0]).unwrap().strict().rules().remove(0);
    strict["metadata"] = json!({"name": "pods"});
    bed.endpoint().apply(&format!("{RULES}/pods"), &strict, "kubectl-depguard", true).await.unwrap();
    let applied = bed.depguard(&["rules", "apply", PACKS[0]]).await;
    assert_eq!(
        applied.err.matches("-pods refuses in fewer cases than before deletions of ").count(),
        2,
        "{}",
        applied.err
    );
}

#[tokio::test]
async fn strict_rules_are_shown() {
    let shown = depguard(&["rules", "show", "--strict", PACKS[0]]).await.well();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&shown).unwrap();
    let rules: Vec<_> = documents.into_iter().filter(|object| object["kind"] == "DependencyRule").collect();
    assert_eq!(rules, RulePack::by_name(PACKS[0]).unwrap().strict().rules());
    // The default rule about ReplicaSets may be there, and stays if somebody changed it.
    let replicasets = shown.matches("- replicasets\n").count();
    assert!(shown.contains("# These are the strict rules.\n") && replicasets == 1, "{shown}");
    let same = depguard(&["rules", "show", "--strict", "openmcp"]).await.well();
    assert_eq!(same, std::fs::read_to_string(root().join("config/rules/openmcp.yaml")).unwrap());
}

#[tokio::test]
async fn an_optional_reference_that_points_to_nothing_does_not_dangle() {
    const DEPLOYMENT: &str = "
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: x}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      initContainers:
      - name: init
        image: shop
        envFrom: [{configMapRef: {name: maybe, optional: true}}]
        env: [{name: A, valueFrom: {secretKeyRef: {name: maybe, key: a, optional: true}}}]
      containers: [{name: main, image: shop}]
      volumes: [{name: a, projected: {sources: [{secret: {name: maybe, optional: true}}, {configMap: {name: needed}}]}}]
";
    for more in [&[][..], &["--strict"]] {
        let rules = depguard(&[&["rules", "show", PACKS[0]], more].concat()).await.well();
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "all.yaml", &format!("{rules}{DEPLOYMENT}"));
        let told = depguard(&["dangling", "-f", file.to_str().unwrap()]).await;
        assert_eq!(told.status, ExitStatus::Finding, "{}", told.err);
        assert!(told.out.contains("needed"), "{}", told.out);
        assert_eq!(told.out.contains("maybe"), !more.is_empty(), "{}", told.out);
    }
}
