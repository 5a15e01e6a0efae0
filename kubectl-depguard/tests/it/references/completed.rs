//! Files are read as an API server would store them.

use depguard_controller::packs::RulePack;
use kubectl_depguard::ExitStatus;
use serde_json::Value;

use crate::tool::{Ran, depguard, write};

/// Runs a command on objects, beside the rules of the packs about Kubernetes' own kinds.
pub(crate) async fn beside_packs(objects: &str, command: &str) -> Ran {
    beside(&["kubernetes-workloads", "kubernetes-cluster"], objects, command).await
}

/// Runs a command on objects, beside the rules of packs. As a user's own rules, they exclude no names.
pub(crate) async fn beside(packs: &[&str], objects: &str, command: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let rules = packs.iter().flat_map(|pack| RulePack::by_name(pack).unwrap().rules());
    let excluding_none = |mut rule: Value| {
        let dependencies = rule["spec"]["dependencies"].as_array_mut().unwrap();
        for dependency in dependencies.iter_mut().filter_map(Value::as_object_mut) {
            dependency.remove("excludeNames");
        }
        rule.to_string()
    };
    let rules: Vec<_> = rules.map(excluding_none).collect();
    write(folder.path(), "rules.yaml", &rules.join("\n---\n"));
    write(folder.path(), "objects.yaml", objects);
    let args = command.split(' ').chain(["-f", folder.path().to_str().unwrap()]);
    depguard(&args.collect::<Vec<_>>()).await
}

/// Returns dependents and missing targets, as `dangling -o json` prints them.
fn missing(ran: &Ran) -> Vec<String> {
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let name = |object: &Value| format!("{}/{}", object["kind"].as_str().unwrap(), object["name"].as_str().unwrap());
    let dangling = report["dangling"].as_array().unwrap().iter();
    dangling.map(|one| format!("{} -> {}", name(&one["dependent"]), name(&one["target"]))).collect()
}

/// Job of a generated name that uses one ConfigMap, and perhaps a Secret.
fn job(metadata: &str, sources: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: steps, namespace: a}}}}\n---\n\
         {{apiVersion: batch/v1, kind: Job, metadata: {{{metadata}, namespace: a}}, spec: {{template: {{spec: {{\
         restartPolicy: Never, containers: [{{name: c, image: i, envFrom: [{{configMapRef: {{name: steps}}}}{sources}]}}]}}}}}}}}"
    )
}

#[tokio::test]
async fn an_object_whose_name_is_generated_refers_to_what_it_uses() {
    let gone = ", {secretRef: {name: gone}}";
    let ran = beside_packs(&job("generateName: roll-", gone), "dangling -o json").await;
    assert_eq!((ran.status, missing(&ran)), (ExitStatus::Finding, vec!["Job/roll-* -> Secret/gone".to_owned()]));
    let ran = beside_packs(&job("generateName: roll-", ""), "dangling").await;
    assert_eq!((ran.status, ran.err.as_str()), (ExitStatus::Well, "no dangling reference: 1 reference checked\n"));
    for (command, status, says) in [
        ("unused", ExitStatus::Well, ""),
        ("why cm steps -n a", ExitStatus::Finding, "Job/roll-*"),
        ("impact cm steps -n a", ExitStatus::Well, "Job/a/roll-*"),
        ("order -o name", ExitStatus::Well, "jobs.batch/roll-*\nconfigmaps/steps\n"),
        ("graph --objects -n a -o dot", ExitStatus::Well, "Job/a/roll-*"),
        ("trace job roll-* -n a", ExitStatus::Well, "ConfigMap/a/steps"),
    ] {
        let ran = beside_packs(&job("generateName: roll-", ""), command).await;
        assert_eq!(ran.status, status, "{command}: {ran:?}");
        assert!(ran.out.contains(says), "{command}: {ran:?}");
    }
    // Nobody knows what an object without any name refers to, and an API server refuses it.
    for metadata in ["labels: {}", "generateName: ''", "generateName: 7", "name: 7, generateName: roll-"] {
        let ran = beside_packs(&job(metadata, gone), "dangling").await;
        assert_eq!(ran.status, ExitStatus::Failure, "{metadata}: {ran:?}");
    }
    let twice = format!("{}\n---\n{}", job("generateName: roll-", ""), job("generateName: roll-", gone));
    let ran = beside_packs(&twice, "dangling -o json").await;
    assert_eq!((ran.status, missing(&ran)), (ExitStatus::Finding, vec!["Job/roll-*2 -> Secret/gone".to_owned()]));
    let ran = beside_packs(&twice, "why cm steps -n a").await;
    assert!(ran.out.contains("Job/roll-*") && ran.out.contains("Job/roll-*2"), "{ran:?}");
    let both = beside_packs(&job("name: own, generateName: roll-", gone), "dangling -o json").await;
    assert_eq!(missing(&both), ["Job/own -> Secret/gone"]);
}

/// Account, and a workload whose Pods name their account, if they do, by `field`.
fn workload(account: &str, field: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {account}, namespace: a}}, imagePullSecrets: [{{name: pull}}]}}\n---\n\
         {{apiVersion: v1, kind: Secret, metadata: {{name: pull, namespace: a}}}}\n---\n\
         {{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: d, namespace: a}}, spec: {{template: {{spec: {{{field}}}}}}}}}\n---\n\
         {{apiVersion: batch/v1, kind: CronJob, metadata: {{name: c, namespace: a}}, spec: {{jobTemplate: {{spec: {{template: {{spec: {{{field}}}}}}}}}}}}}"
    )
}

#[tokio::test]
async fn an_account_counts_by_the_old_name_of_its_field_too() {
    for (account, field, unused) in [
        ("robot", "serviceAccount: robot", false),
        ("robot", "serviceAccountName: '', serviceAccount: robot", false),
        ("robot", "serviceAccountName: robot", false),
        ("robot", "serviceAccountName: other, serviceAccount: robot", true),
        ("robot", "hostNetwork: true", true),
        ("default", "hostNetwork: true", false),
    ] {
        let ran = beside_packs(&workload(account, field), "unused -o name").await;
        assert_eq!(ran.out, if unused { "serviceaccounts/robot\n" } else { "" }, "{account} {field}: {ran:?}");
    }
    let ran = beside_packs(&workload("robot", "serviceAccount: gone"), "dangling -o json").await;
    assert_eq!(missing(&ran), ["CronJob/c -> ServiceAccount/gone", "DaemonSet/d -> ServiceAccount/gone"]);
}

#[tokio::test]
async fn a_pod_of_a_file_waits_to_run_unless_the_file_says_otherwise() {
    let pod = |status: &str| {
        format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: used, namespace: a}}}}\n---\n\
             {{apiVersion: v1, kind: ServiceAccount, metadata: {{name: default, namespace: a}}}}\n---\n\
             {{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: a}}, {status}\
             spec: {{containers: [{{name: c, envFrom: [{{secretRef: {{name: used}}}}]}}]}}}}"
        )
    };
    for (status, is_used) in [
        ("", true),
        ("status: {}, ", true),
        ("status: {phase: ''}, ", true),
        ("status: {phase: Running}, ", true),
        ("status: {phase: Succeeded}, ", false),
    ] {
        let expected = if is_used { ExitStatus::Finding } else { ExitStatus::Well };
        for target in ["secret used", "serviceaccount default"] {
            let ran = beside_packs(&pod(status), &format!("why {target} -n a")).await;
            assert_eq!((ran.status, ran.out.contains("Pod/p")), (expected, is_used), "{status} {target}: {ran:?}");
        }
    }
}

#[tokio::test]
async fn a_claim_has_its_source_by_the_old_name_of_the_field_too() {
    let claim = |spec: &str| {
        let claim = "apiVersion: v1, kind: PersistentVolumeClaim, metadata";
        format!(
            "{{{claim}: {{name: new, namespace: a}}, spec: {{{spec}}}}}\n---\n{{{claim}: {{name: old, namespace: a}}}}"
        )
    };
    for (spec, is_used) in [
        ("dataSource: {kind: PersistentVolumeClaim, name: old}", true),
        ("dataSourceRef: {kind: PersistentVolumeClaim, name: old}", true),
        ("dataSource: {kind: VolumeSnapshot, name: old}", false),
        ("accessModes: []", false),
    ] {
        let ran = beside_packs(&claim(spec), "impact pvc old -n a").await;
        assert_eq!(ran.out.contains("PersistentVolumeClaim/a/new"), is_used, "{spec}: {ran:?}");
    }
}

/// Definition, rule and object of a kind that may have a network by default.
fn network(schema: &str, object: &str) -> String {
    format!(
        "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: hosts.net.example.com}}, \
         spec: {{group: net.example.com, scope: Namespaced, names: {{kind: Host, plural: hosts}}, versions: [\
         {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {schema}}}}}}}}},\
         {{name: v2, served: true, schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}]}}}}\n---\n\
         {{apiVersion: dependencies.opendefense.cloud/v1alpha1, kind: DependencyRule, metadata: {{name: hosts}}, spec: {{\
         dependent: {{group: net.example.com, version: v1, kind: Host, resource: hosts}}, dependencies: [\
         {{group: '', version: v1, kind: ConfigMap, resource: configmaps, fieldRef: {{path: '.spec.nets[*].name', kindPath: '.spec.nets[*].kind'}}}}]}}}}\n---\n\
         {object}"
    )
}

#[tokio::test]
async fn the_defaults_of_a_schema_in_the_files_count() {
    let kind = "{type: array, items: {type: object, properties: {name: {type: string}, kind: {type: string, default: Secret}}}}";
    let plain = kind.replace(", default: Secret", "");
    let nets = plain.replace("array", "array, default: [{name: gone, kind: ConfigMap}]");
    let host = |version: &str, spec: &str| {
        format!(
            "{{apiVersion: net.example.com/{version}, kind: Host, metadata: {{name: h, namespace: a}}, spec: {spec}}}"
        )
    };
    for (nets_are, schema, object, dangles) in [
        ("of a default kind that the rule isn't about", kind, host("v1", "{nets: [{name: gone}]}"), false),
        ("of no kind", plain.as_str(), host("v1", "{nets: [{name: gone}]}"), true),
        ("of a null kind", kind, host("v1", "{nets: [{name: gone, kind: null}]}"), false),
        ("of a kind", kind, host("v1", "{nets: [{name: gone, kind: ConfigMap}]}"), true),
        ("default themselves", nets.as_str(), host("v1", "{}"), true),
        ("default themselves", nets.as_str(), host("v1", "{nets: null}"), true),
        ("given", nets.as_str(), host("v1", "{nets: []}"), false),
        ("default in another version", nets.as_str(), host("v2", "{}"), false),
    ] {
        let schema = format!("{{type: object, properties: {{nets: {schema}}}}}");
        let ran = beside(&[], &network(&schema, &object), "dangling -o json").await;
        let expected = if dangles { vec!["Host/h -> ConfigMap/gone".to_owned()] } else { vec![] };
        assert_eq!(ran.out.contains("gone"), dangles, "nets are {nets_are}: {ran:?}");
        if dangles {
            assert_eq!(missing(&ran), expected, "nets are {nets_are}: {ran:?}");
        }
    }
}
