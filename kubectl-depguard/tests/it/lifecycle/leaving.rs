//! `status` of an installation, and the state after `uninstall`.

use std::path::Path;

use depguard_controller::{Config, Controller, WebhookTarget, manifests};
use depguard_core::interlock::{Buckets, Register, RegisterName};
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{Endpoint, Preconditions};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::bed::{Bed, eventually, exists};

const INSTALL: [&str; 2] = ["install", "--image=registry.example.com/depguard:0.1.0"];
const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/dependencyrules.dependencies.opendefense.cloud";
const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/dependency-controller";
const NAMESPACE: &str = "/api/v1/namespaces/depguard-system";

fn rule() -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "maps"},
        "spec": {
            "dependent": {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"},
            "dependencies": [{"group": "", "version": "v1", "resource": "configmaps",
                "fieldRef": {"path": ".spec.configMapName"}}],
        },
    })
}

/// Starts a controller whose webhook doesn't run.
async fn controller(bed: &Bed, control_plane: ControlPlane, webhook: WebhookTarget) -> Controller {
    let kubeconfig =
        bed.kubeconfig("controller", if control_plane == ControlPlane::Kcp { "root:dep-ctrl" } else { "" }, "admin");
    let export = ExportName::parse("dependencies.opendefense.cloud").unwrap();
    let config = Config::new(control_plane, export, webhook);
    let config = config.kubeconfig(Some(Path::new(&kubeconfig).to_owned())).probe_addr(None).metrics_addr(None);
    Controller::start(config).await.unwrap()
}

async fn until_installed(at: &Endpoint) {
    eventually("the configuration is there", async || exists(at, CONFIGURATION).await.map(drop).ok_or("it is not"))
        .await;
}

#[tokio::test]
async fn with_the_webhook_dead_nothing_is_left_that_refuses() {
    let bed = Bed::kubernetes().await;
    bed.depguard(&INSTALL).await.well();
    let at = bed.endpoint();
    at.post_json(RULES, &rule()).await.unwrap();
    let service = "depguard-system/depguard-webhook".parse().unwrap();
    let controller = controller(&bed, ControlPlane::Kubernetes, service).await;
    until_installed(&at).await;
    // The controller would write again: it runs as an administrator, and loses no roles.
    controller.stop().await;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    at.post_json(crds, &manifests::register_crd()).await.unwrap();
    let register = Register::new(Buckets::new(1).unwrap().registers().next().unwrap()).to_value();
    eventually("registers are served", async || at.post_json(&RegisterName::collection(), &register).await.map(drop))
        .await;
    for mode in ["client", "server"] {
        let out = bed.depguard(&["uninstall", &format!("--dry-run={mode}")]).await.well();
        assert!(out.contains("\n1 referenceregisters.dependencies.opendefense.cloud would be deleted"), "{out}");
    }

    let done = bed.depguard(&["uninstall", "--yes"]).await;
    let (err, out) = (done.err.clone(), done.well());
    let first = "validatingwebhookconfiguration.admissionregistration.k8s.io/dependency-controller deleted\n\
                 validatingwebhookconfiguration.admissionregistration.k8s.io/depguard-rules deleted\n\
                 1 referenceregisters.dependencies.opendefense.cloud deleted\n";
    assert!(out.starts_with(first), "{out}");
    assert!(at.list_json(&RegisterName::collection()).await.unwrap().items.is_empty());
    assert!(out.ends_with("namespace/depguard-system deleted\n"), "{out}");
    assert!(
        err.contains(
            "stays, with 1 rule, which protects nothing any more: --crd deletes them, and the ClusterRoles of packs"
        ),
        "{err}"
    );
    for gone in [
        CONFIGURATION,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/depguard-webhook",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/depguard-controller",
    ] {
        assert_eq!(exists(&at, gone).await, None, "{gone}");
    }
    eventually("the namespace is gone", async || match exists(&at, NAMESPACE).await {
        None => Ok(()),
        Some(left) => Err(left.to_string()),
    })
    .await;
    assert!(exists(&at, &format!("{RULES}/maps")).await.is_some());

    let out = bed.depguard(&["uninstall", "--crd", "--yes"]).await.well();
    assert_eq!(
        out,
        format!("customresourcedefinition.apiextensions.k8s.io/{} deleted\n", CRD.rsplit_once('/').unwrap().1)
    );
    eventually("the rules are gone", async || exists(&at, CRD).await.map_or(Ok(()), |left| Err(left.to_string())))
        .await;
    let again = bed.depguard(&["uninstall", "--crd", "--yes"]).await;
    assert_eq!(again.well(), "there was nothing to remove\n");
}

#[tokio::test]
async fn nothing_is_removed_unasked_or_by_a_dry_run() {
    let bed = Bed::kubernetes().await;
    bed.depguard(&INSTALL).await.well();
    let at = bed.endpoint();
    let configuration = configuration("secrets");
    at.post_json(CONFIGURATION.rsplit_once('/').unwrap().0, &configuration).await.unwrap();
    let unasked = bed.depguard(&["uninstall", "--crd"]).await;
    assert_eq!((unasked.status, unasked.out.as_str()), (ExitStatus::Failure, ""), "{}", unasked.err);
    assert!(
        unasked.err.contains("without a terminal, uninstall can't ask") && unasked.err.contains("--yes"),
        "{}",
        unasked.err
    );
    for (flag, how) in [("--dry-run=client", ""), ("--dry-run=server", " (server dry run)")] {
        let out = bed.depguard(&["uninstall", "--crd", flag]).await.well();
        for name in [
            "validatingwebhookconfiguration.admissionregistration.k8s.io/dependency-controller",
            "deployment.apps/depguard-webhook",
            "namespace/depguard-system",
        ] {
            assert!(out.contains(&format!("{name} would be deleted{how}\n")), "{name}: {out}");
        }
    }
    for there in [CONFIGURATION, CRD, NAMESPACE] {
        assert!(exists(&at, there).await.unwrap()["metadata"]["deletionTimestamp"].is_null(), "{there}");
    }
}

#[tokio::test]
async fn with_the_rules_the_cluster_roles_of_packs_go_and_no_others() {
    let bed = Bed::kubernetes().await;
    bed.depguard(&INSTALL).await.well();
    let at = bed.endpoint();
    bed.depguard(&["rules", "apply", "openmcp", "flux"]).await.well();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let label = json!({"dependencies.opendefense.cloud/aggregate-to-webhook": "true"});
    // A pack's name without its label, the label with another name, and a Helm release's.
    for (name, labels, annotations) in [
        ("depguard-webhook-argo-cd", json!({}), json!({})),
        ("depguard-webhook-fluxcd", label.clone(), json!({})),
        ("depguard-webhook-kubevirt", label.clone(), json!({"meta.helm.sh/release-name": "guard"})),
    ] {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
            "metadata": {"name": name, "labels": labels, "annotations": annotations}});
        at.post_json(roles, &role).await.unwrap();
    }
    let of_packs = ["depguard-webhook-flux", "depguard-webhook-openmcp"];
    let others = ["depguard-webhook-argo-cd", "depguard-webhook-fluxcd", "depguard-webhook-kubevirt"];
    let shown = |name: &str| format!("clusterrole.rbac.authorization.k8s.io/{name}");

    let tried = bed.depguard(&["uninstall", "--crd", "--dry-run=server"]).await.well();
    assert!(of_packs.iter().all(|name| tried.contains(&format!("{} would be deleted", shown(name)))), "{tried}");
    let kept = bed.depguard(&["uninstall", "--yes"]).await;
    assert!(kept.err.contains("--crd deletes them, and the ClusterRoles of packs"), "{}", kept.err);
    for name in [&of_packs[..], &others].concat() {
        assert!(exists(&at, &format!("{roles}/{name}")).await.is_some(), "{name}");
    }

    let done = bed.depguard(&["uninstall", "--crd", "--yes"]).await;
    for name in of_packs {
        assert!(done.out.contains(&format!("{} deleted\n", shown(name))), "{}", done.out);
        assert_eq!(exists(&at, &format!("{roles}/{name}")).await, None, "{name}");
    }
    for name in others {
        assert!(exists(&at, &format!("{roles}/{name}")).await.is_some(), "{name}");
    }
    for said in [
        format!("{} stays: it is no pack's\n", shown("depguard-webhook-argo-cd")),
        format!("{} stays: it is no pack's, but the Helm release `guard`", shown("depguard-webhook-kubevirt")),
    ] {
        assert!(done.err.contains(&said), "{said}: {}", done.err);
    }
    done.well();
}

#[tokio::test]
async fn what_somebody_else_put_there_stays() {
    let bed = Bed::kubernetes().await;
    bed.depguard(&INSTALL).await.well();
    let at = bed.endpoint();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}});
    at.post_json(&format!("{NAMESPACE}/secrets"), &secret).await.unwrap();
    let service = format!("{NAMESPACE}/services/depguard-webhook");
    let mut theirs = exists(&at, &service).await.unwrap();
    theirs["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    theirs["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "guard"});
    at.put_json(&service, &theirs).await.unwrap();

    let done = bed.depguard(&["uninstall", "--yes"]).await;
    for said in [
        "service/depguard-webhook stays: install did not make it, but the Helm release `guard`: `helm uninstall guard`",
        "namespace/depguard-system stays: it contains secret/mine and 1 more",
    ] {
        assert!(done.err.contains(said), "{said}: {}", done.err);
    }
    done.well();
    assert!(exists(&at, NAMESPACE).await.unwrap()["metadata"]["deletionTimestamp"].is_null());
    assert!(exists(&at, &service).await.is_some());
}

#[tokio::test]
async fn where_configurations_stay_everything_does() {
    let bed = Bed::kubernetes().await;
    bed.depguard(&INSTALL).await.well();
    let deletes = depguard_testbed::When::always().method("GET").path("validatingwebhookconfigurations");
    bed.testbed.faults().inject(depguard_testbed::Fault::InternalError, deletes);
    let done = bed.depguard(&["uninstall", "--yes", "--timeout=2"]).await;
    assert_eq!((done.status, done.out.as_str()), (ExitStatus::Failure, ""));
    assert!(done.err.contains("nothing else was removed"), "{}", done.err);
    assert!(exists(&bed.endpoint(), &format!("{NAMESPACE}/services/depguard-webhook")).await.is_some());
}

#[tokio::test]
async fn a_status_tells_what_there_is_and_what_is_not() {
    let bed = Bed::kubernetes().await;
    let nothing = bed.depguard(&["status"]).await;
    assert_eq!((nothing.status, nothing.out.as_str()), (ExitStatus::Finding, ""));
    assert!(nothing.err.starts_with("depguard is not installed here"), "{}", nothing.err);

    bed.depguard(&INSTALL).await.well();
    let at = bed.endpoint();
    let installed = bed.depguard(&["status"]).await;
    assert_eq!(installed.status, ExitStatus::Finding, "no process is ready");
    for said in [
        "there are no rules, so depguard refuses no deletion for a reference\n",
        "no pod of depguard-webhook is ready",
        "could not read the last refusals: no pod of the webhook is in",
    ] {
        assert!(installed.err.contains(said), "{said}: {}", installed.err);
    }
    let out = installed.out;
    assert!(out.contains("depguard-webhook      0/2     registry.example.com/depguard:0.1.0\n"), "{out}");
    // The certificate was issued a moment ago for 365 days, and ends at the midnight before.
    assert!(out.contains("secret/depguard-webhook-tls   2") && out.contains("   364d\n"), "{out}");
    for process in ["depguard-controller", "depguard-webhook"] {
        let path = format!("/apis/apps/v1/namespaces/depguard-system/deployments/{process}");
        let mut ready = at.get_json(&path).await.unwrap();
        ready["status"] = json!({"readyReplicas": 1});
        at.put_json(&format!("{path}/status"), &ready).await.unwrap();
    }
    bed.depguard(&["status"]).await.well();

    at.post_json(RULES, &rule()).await.unwrap();
    let unseen = bed.depguard(&["status", "-owide"]).await;
    assert_eq!(unseen.status, ExitStatus::Finding);
    assert!(unseen.out.contains("no controller has checked it yet"), "{}", unseen.out);
    let unseen = bed.depguard(&["status"]).await;
    assert!(unseen.err.contains("no controller has checked 1 rule yet"), "{}", unseen.err);
    let say = async |resolved: &str| {
        let mut enforced = at.get_json(&format!("{RULES}/maps")).await.unwrap();
        let condition = |type_: &str| {
            let status = if type_ == "ResolvedRefs" { resolved } else { "True" };
            json!({"type": type_, "status": status, "reason": type_, "message": "as it should be",
                "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let conditions = ["Accepted", "ResolvedRefs", "Programmed", "Enforced"].map(condition);
        enforced["status"] = json!({"conditions": conditions});
        at.put_json(&format!("{RULES}/maps/status"), &enforced).await.unwrap();
    };
    say("True").await;
    // Whatever the condition says: no API server calls the webhook.
    let gone = bed.depguard(&["status"]).await;
    assert_eq!(gone.status, ExitStatus::Finding, "{}", gone.out);
    assert!(gone.out.contains("maps   True       True       True         False (NotInstalled)"), "{}", gone.out);
    let configurations = CONFIGURATION.rsplit_once('/').unwrap().0;
    let mut configuration = configuration("secrets");
    at.post_json(configurations, &configuration).await.unwrap();
    let other = bed.depguard(&["status", "-owide"]).await;
    assert!(other.out.contains("covers deletions of configmaps"), "{}", other.out);
    configuration = at.get_json(CONFIGURATION).await.unwrap();
    configuration["webhooks"] = self::configuration("configmaps")["webhooks"].clone();
    at.put_json(CONFIGURATION, &configuration).await.unwrap();
    let out = bed.depguard(&["status"]).await.well();
    assert!(out.starts_with("RULE   ACCEPTED   RESOLVED   PROGRAMMED   ENFORCED   AGE\nmaps   True       True       True         True       "), "{out}");
    let json: Value = serde_json::from_str(&bed.depguard(&["status", "-ojson"]).await.well()).unwrap();
    assert_eq!(json["rules"][0]["conditions"][3]["message"], "as it should be");
    assert_eq!(json["processes"][1]["desired"], 2);
    assert_eq!(json["kind"], "StatusReport");
    crate::reports::assert_fits(&json);
    let yaml = bed.depguard(&["status", "-oyaml"]).await.well();
    assert!(yaml.contains("enforced: true"), "{yaml}");
    // A rule about a kind that doesn't exist is not well, even if its webhook is installed.
    say("False").await;
    assert_eq!(bed.depguard(&["status"]).await.status, ExitStatus::Finding);
    say("True").await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "depguard-controller"},
        "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    at.post_json("/apis/coordination.k8s.io/v1/namespaces/depguard-system/leases", &lease).await.unwrap();
    let stopped = bed.depguard(&["status"]).await;
    assert_eq!(stopped.status, ExitStatus::Finding);
    assert!(stopped.err.contains("no controller has renewed its Lease for"), "{}", stopped.err);
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/depguard-system/leases";

/// Returns the configuration that the controller writes to protect a core kind.
fn configuration(resource: &str) -> Value {
    let name = "dependency-controller.dependencies.opendefense.cloud";
    let own = |operator: &str| json!([{"key": "kubernetes.io/metadata.name", "operator": operator, "values": ["depguard-system"]}]);
    let webhook = |name: &str, resource: &str, scope: &str, fields: Value| {
        let mut webhook = json!({
            "name": name, "sideEffects": "NoneOnDryRun", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "depguard-system", "name": "depguard-webhook", "path": "/validate"}},
            "rules": [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["*"], "resources": [resource], "scope": scope}],
        });
        webhook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        webhook
    };
    let mut refuses = webhook(name, resource, "*", json!({"namespaceSelector": {"matchExpressions": own("NotIn")}}));
    if resource == "secrets" {
        refuses["matchConditions"] = json!([{"name": "not-a-helm-release", "expression": "request.resource.group != '' || \
             request.resource.resource != 'secrets' || !has(oldObject.type) || oldObject.type != 'helm.sh/release.v1'"}]);
    }
    let canary = webhook(
        &format!("canary.{name}"),
        "configmaps",
        "Namespaced",
        json!({
            "failurePolicy": "Ignore",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "depguard-system"}},
            "objectSelector": {"matchLabels": {"dependencies.opendefense.cloud/canary": "true"}},
        }),
    );
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "dependency-controller"}, "webhooks": [refuses, canary],
    })
}

#[tokio::test]
async fn a_status_is_well_only_if_both_processes_were_seen_and_the_configuration_is_as_written() {
    let bed = Bed::kubernetes().await;
    let at = bed.endpoint();
    bed.depguard(&INSTALL).await.well();
    at.post_json(CONFIGURATION.rsplit_once('/').unwrap().0, &configuration("configmaps")).await.unwrap();
    at.post_json(RULES, &rule()).await.unwrap();
    let mut enforced = at.get_json(&format!("{RULES}/maps")).await.unwrap();
    let conditions = ["Accepted", "ResolvedRefs", "Programmed", "Enforced"].map(|type_| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "m", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    enforced["status"] = json!({"conditions": conditions});
    at.put_json(&format!("{RULES}/maps/status"), &enforced).await.unwrap();
    let deployment = |process: &str| format!("/apis/apps/v1/namespaces/depguard-system/deployments/{process}");
    for process in ["depguard-controller", "depguard-webhook"] {
        at.delete(&deployment(process), Preconditions::default()).await.unwrap();
    }
    // Processes beside the cluster: the webhook's address is a URL at which nobody listens.
    let beside = async || {
        let mut stored = at.get_json(CONFIGURATION).await.unwrap();
        for webhook in stored["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"] = json!({"url": "https://127.0.0.1:1/validate"});
        }
        at.put_json(CONFIGURATION, &stored).await.unwrap();
    };
    beside().await;
    let dead = bed.depguard(&["status"]).await;
    assert_eq!(dead.status, ExitStatus::Failure, "{}{}", dead.out, dead.err);
    assert!(dead.err.contains("nothing shows that the controller and the webhook run"), "{}", dead.err);

    let lease = |renewed: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "depguard-controller"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 36_000, "renewTime": renewed}})
    };
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    at.post_json(LEASES, &lease(&now)).await.unwrap();
    // The controller that holds the Lease calls the rule enforced, so the webhook answered it.
    bed.depguard(&["status"]).await.well();

    for (field, value) in [
        ("failurePolicy", json!("Ignore")),
        ("objectSelector", json!({"matchLabels": {"a": "b"}})),
        (
            "namespaceSelector",
            json!({"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["depguard-system", "shop"]},
            ]}),
        ),
        ("matchConditions", json!([{"name": "never", "expression": "false"}])),
    ] {
        let stored = at.get_json(CONFIGURATION).await.unwrap();
        let mut edited = stored.clone();
        edited["webhooks"][0][field] = value;
        at.put_json(CONFIGURATION, &edited).await.unwrap();
        let told = bed.depguard(&["status"]).await;
        assert_eq!(told.status, ExitStatus::Finding, "{field}: {}{}", told.out, told.err);
        let said = format!("{field} of dependency-controller.dependencies.opendefense.cloud");
        assert!(told.err.contains(&said), "{}", told.err);
        edited["webhooks"] = stored["webhooks"].clone();
        edited["metadata"] = at.get_json(CONFIGURATION).await.unwrap()["metadata"].clone();
        at.put_json(CONFIGURATION, &edited).await.unwrap();
        bed.depguard(&["status"]).await.well();
    }

    // Without rules the configuration is all that is left, and the status says so.
    at.delete(&format!("{RULES}/maps"), Preconditions::default()).await.unwrap();
    let left = bed.depguard(&["status"]).await;
    assert_eq!(left.status, ExitStatus::Failure, "nobody shows that the webhook runs: {}", left.err);
    assert!(left.err.contains("reviewed by rules of elsewhere: of configmaps\n"), "{}", left.err);
}

/// Returns a certificate that expired long ago, in base64.
fn expired() -> Value {
    let mut of = rcgen::CertificateParams::new(["a".to_owned()]).unwrap();
    of.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let certificate = of.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    json!(base64::Engine::encode(&base64::prelude::BASE64_STANDARD, certificate.pem()))
}

#[tokio::test]
async fn a_status_is_not_well_where_it_could_not_look_or_a_certificate_has_expired() {
    let bed = Bed::kubernetes().await;
    bed.depguard(&INSTALL).await.well();
    let at = bed.endpoint();
    for process in ["depguard-controller", "depguard-webhook"] {
        let path = format!("/apis/apps/v1/namespaces/depguard-system/deployments/{process}");
        let mut ready = at.get_json(&path).await.unwrap();
        ready["status"] = json!({"readyReplicas": 1});
        at.put_json(&format!("{path}/status"), &ready).await.unwrap();
    }
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "dependency-controller"},
        "webhooks": [{"name": "dependency-controller.dependencies.opendefense.cloud", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"service": {"namespace": "a", "name": "b"}}}],
    });
    at.post_json(CONFIGURATION.rsplit_once('/').unwrap().0, &configuration).await.unwrap();
    bed.depguard(&["status"]).await.well();

    // The processes are in another namespace, and the command has not seen them.
    let elsewhere = bed.depguard(&["status", "-n", "elsewhere"]).await;
    assert_eq!(elsewhere.status, ExitStatus::Failure, "{}{}", elsewhere.out, elsewhere.err);
    assert!(
        elsewhere.err.contains("deployment depguard-webhook: it is not in namespace elsewhere"),
        "{}",
        elsewhere.err
    );

    let faults = bed.testbed.faults();
    let leases = depguard_testbed::When::always().method("GET").path("/leases/");
    let fault = faults.inject(depguard_testbed::Fault::Forbidden, leases);
    let unread = bed.depguard(&["status"]).await;
    assert_eq!(unread.status, ExitStatus::Failure, "{}{}", unread.out, unread.err);
    assert!(unread.err.contains("you need the right to get leases.coordination.k8s.io"), "{}", unread.err);
    faults.clear(fault);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "depguard-controller"},
        "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 15}});
    at.post_json(LEASES, &lease).await.unwrap();
    let timeless = bed.depguard(&["status"]).await;
    assert_eq!(timeless.status, ExitStatus::Finding, "{}{}", timeless.out, timeless.err);
    assert!(timeless.err.contains("has no renewTime, so it is unknown whether a controller runs"), "{}", timeless.err);
    at.delete(&format!("{LEASES}/depguard-controller"), Preconditions::default()).await.unwrap();
    bed.depguard(&["status"]).await.well();

    let path = "/api/v1/namespaces/depguard-system/secrets/depguard-webhook-tls";
    let mut secret = at.get_json(path).await.unwrap();
    secret["data"]["tls.crt"] = expired();
    at.put_json(path, &secret).await.unwrap();
    let late = bed.depguard(&["status"]).await;
    assert_eq!(late.status, ExitStatus::Finding, "{}{}", late.out, late.err);
    assert!(late.err.contains("the certificate of secret/depguard-webhook-tls has expired: renew it"), "{}", late.err);
}

#[tokio::test]
async fn without_rights_it_says_which_are_missing() {
    let bed = Bed::kubernetes_with_rights().await;
    bed.depguard(&INSTALL).await.well();
    let tenant = bed.kubeconfig("tenant", "", "tenant");
    let status = ["status", "--kubeconfig", &tenant];
    let refused = crate::tool::depguard(&status).await;
    assert_eq!(refused.status, ExitStatus::Failure);
    assert_eq!(refused.err.matches("you need the right to ").count(), 1, "{}", refused.err);
    assert!(refused.err.contains("to list dependencyrules.dependencies.opendefense.cloud"), "{}", refused.err);

    let at = bed.endpoint();
    let rbac =
        |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "rules"}});
    let mut role = rbac("ClusterRole");
    role["rules"] =
        json!([{"apiGroups": ["dependencies.opendefense.cloud"], "resources": ["dependencyrules"], "verbs": ["list"]}]);
    let mut binding = rbac("ClusterRoleBinding");
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rules"});
    binding["subjects"] = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tenant"}]);
    at.post_json("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await.unwrap();
    at.post_json("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await.unwrap();
    let partly = crate::tool::depguard(&status).await;
    for right in ["list validatingwebhookconfigurations", "get deployments.apps in namespace depguard-system"] {
        let line = partly.err.lines().find(|line| line.contains("you need the right to "));
        assert!(line.is_some_and(|line| line.contains(right)), "{right}: {}", partly.err);
    }
    // It is unknown whether anything is installed.
    assert_ne!(partly.status, ExitStatus::Well);
}

#[tokio::test]
async fn in_kcp_a_status_is_of_a_workspace_or_of_all() {
    let bed = Bed::kcp().await;
    let workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
    for name in ["compute", "network"] {
        let workspace =
            json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
        bed.endpoint().post_json(workspaces, &workspace).await.unwrap();
    }
    bed.depguard(&["install", "--provider=root:compute", "--provider=root:network"]).await.well();
    let compute = bed.workspace("root:compute");
    let mut rule = rule();
    rule["spec"]["dependent"]["resource"] = json!("configmaps");
    rule["spec"]["dependent"]["kind"] = json!("ConfigMap");
    rule["spec"]["dependencies"][0]["resource"] = json!("secrets");
    eventually("the workspace takes it", async || compute.post_json(RULES, &rule).await.map(drop)).await;
    // The server listens but is no webhook: its certificate is shown all the same.
    let at = format!("{}/validate", bed.testbed.url());
    let controller = controller(&bed, ControlPlane::Kcp, WebhookTarget::Url(at)).await;
    until_installed(&compute).await;

    let here = bed.kubeconfig("compute", "root:compute", "admin");
    let own = crate::tool::depguard(&["status", "--kubeconfig", &here]).await;
    assert_eq!(own.status, ExitStatus::Finding);
    assert!(own.out.contains("\nmaps   "), "{}", own.out);
    let host = bed.testbed.url().trim_start_matches("https://").to_owned();
    assert!(own.out.contains(&format!("\n{host}   ")), "{}", own.out);
    assert!(own.err.contains("name it with --pods-kubeconfig"), "{}", own.err);

    let dep_ctrl = bed.kubeconfig("dep-ctrl", "root:dep-ctrl", "admin");
    eventually("all rules are shown", async || {
        let all = crate::tool::depguard(&["status", "--kubeconfig", &dep_ctrl]).await;
        if all.out.contains("\nroot:compute   maps   ") { Ok(()) } else { Err(all.out + &all.err) }
    })
    .await;

    controller.stop().await;
    let done = crate::tool::depguard(&["uninstall", "--yes", "--kubeconfig", &dep_ctrl]).await;
    let err = done.err.clone();
    let out = done.well();
    assert!(out.starts_with("validatingwebhookconfiguration.admissionregistration.k8s.io/dependency-controller deleted in workspace root:compute\n"), "{out}");
    assert!(out.ends_with("namespace/depguard-system deleted in workspace root:dep-ctrl\n"), "{out}");
    assert!(err.contains("APIBindings stay: every rule would go with them"), "{err}");
    assert_eq!(exists(&compute, CONFIGURATION).await, None);
    compute.delete(&format!("{RULES}/maps"), Preconditions::default()).await.unwrap();
}
