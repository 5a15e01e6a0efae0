//! Removal of depguard: nothing is left that refuses deletions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use depguard_controller::{Config, Controller, Removed, Uninstall, UninstallError, Uninstalled, manifests, uninstall};
use depguard_core::interlock::{Buckets, Register, RegisterName};
use depguard_kcp::Preconditions;
use depguard_testbed::{Fault, When};
use serde_json::json;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::bed::{Bed, COMPUTE, NETWORK, RULES, answer, local_rule, ok, probe, rule, until, until_ready};
use crate::takeover::configuration;

/// Lease that marks an uninstall.
const MARK: &str = "/leases/depguard-controller-uninstall";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) async fn uninstalled(bed: &Bed, seconds: u64) -> Result<Uninstalled, UninstallError> {
    let config = bed.config();
    uninstall(
        Uninstall::new(config.control_plane, config.export_name)
            .kubeconfig(config.kubeconfig)
            .timeout(Duration::from_secs(seconds)),
    )
    .await
}

/// Returns what was removed, but the configuration about rules themselves: a controller that is stopped early may not have
/// installed it.
pub(crate) fn removed(done: &Uninstalled) -> Vec<&Removed> {
    done.removed.iter().filter(|removed| removed.configuration != "depguard-rules").collect()
}

#[tokio::test]
async fn what_is_ours_goes_and_stays_away_though_a_controller_runs() {
    let bed = Bed::kcp_bound().await;
    bed.own_namespace("root:dep-ctrl").await;
    bed.put_configuration(COMPUTE, &configuration(&["mine.example.com"])).await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["vpcs"]).await;

    let done = uninstalled(&bed, 60).await.unwrap();
    assert_eq!(
        removed(&done).iter().map(|removed| &*removed.place).collect::<Vec<_>>(),
        [format!("workspace {NETWORK}")]
    );
    let note = done.notes.first().unwrap();
    assert_eq!(*note, format!("the configuration in workspace {COMPUTE} is not depguard's and was left alone"));
    assert!(bed.configuration(COMPUTE).await.is_some());
    // The controller would have work to do now, and does not do it.
    bed.rule("lan", &["lans"]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bed.configuration(NETWORK).await, None);
    assert_eq!(probe(&controller, "/readyz").await, 503);

    let again = uninstalled(&bed, 60).await.unwrap();
    assert!(again.removed.is_empty());
    assert!(again.to_string().starts_with("there was nothing to remove\n"), "{again}");
    controller.stop().await;
}

#[tokio::test]
async fn with_the_webhook_dead_everything_can_be_deleted_afterwards() {
    let bed = Bed::kubernetes().await;
    bed.own_namespace("").await;
    let at = bed.at("");
    for namespace in ["default", "depguard-system"] {
        for name in ["one", "two"] {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            at.post_json(&format!("/api/v1/namespaces/{namespace}/configmaps"), &object).await.unwrap();
        }
    }
    bed.at("").post_json(RULES, &local_rule("maps", "", "v1", "configmaps")).await.unwrap();
    let controller = bed.controller().await;
    bed.until_installed("", &["configmaps"]).await;
    let delete = async |path: String| at.delete(&path, Preconditions::default()).await;
    until("nothing is deleted with the webhook dead", async || match delete(format!("{CONFIG_MAPS}/one")).await {
        Err(error) if error.to_string().contains("failed calling webhook") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // Objects in depguard's own namespace never need its webhook.
    delete("/api/v1/namespaces/depguard-system/configmaps/one".to_owned()).await.unwrap();
    controller.kill();

    let done = uninstalled(&bed, 60).await.unwrap();
    let said = "removed ValidatingWebhookConfiguration dependency-controller from the cluster\n";
    assert!(done.to_string().starts_with(said), "{done}");
    for path in
        [format!("{CONFIG_MAPS}/one"), format!("{CONFIG_MAPS}/two"), "/api/v1/namespaces/depguard-system".to_owned()]
    {
        delete(path.clone()).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// Creates the kind of reference registers in depguard's own workspace or cluster, and the registers of two numbers.
async fn registers(bed: &Bed, own: &str) {
    let at = bed.at(own);
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    at.post_json(crds, &manifests::register_crd()).await.unwrap();
    until("registers are served", async || ok(at.list_json(&RegisterName::collection()).await)).await;
    for name in [2, 3].into_iter().flat_map(|number| Buckets::new(number).unwrap().registers()) {
        at.post_json(&RegisterName::collection(), &Register::new(name).to_value()).await.unwrap();
    }
}

async fn registers_left(bed: &Bed, own: &str) -> usize {
    bed.at(own).list_json(&RegisterName::collection()).await.unwrap().items.len()
}

#[tokio::test]
async fn reference_registers_go_after_the_configurations_and_their_kind_stays() {
    tokio::join!(registers_go(""), registers_go("root:dep-ctrl"));
}

async fn registers_go(own: &str) {
    let bed = if own.is_empty() { Bed::kubernetes().await } else { Bed::kcp_bound().await };
    bed.own_namespace(own).await;
    registers(&bed, own).await;
    let place = if own.is_empty() { "" } else { NETWORK };
    let rule = if own.is_empty() { local_rule("maps", "", "v1", "configmaps") } else { rule("vm", &["vpcs"]) };
    bed.at(if own.is_empty() { "" } else { COMPUTE }).post_json(RULES, &rule).await.unwrap();
    let controller = bed.controller().await;
    bed.until_installed(place, if own.is_empty() { &["configmaps"] } else { &["vpcs"] }).await;
    controller.stop().await;

    // While a configuration is left, webhooks may still write marks.
    let faults = bed.testbed.faults();
    let deletes = When::always().method("DELETE").path("validatingwebhookconfigurations");
    let fault = faults.inject(Fault::InternalError, deletes);
    uninstalled(&bed, 2).await.unwrap_err();
    assert_eq!(registers_left(&bed, own).await, 5);
    faults.clear(fault);

    let fault = faults.inject(Fault::InternalError, When::always().method("DELETE").path("bucket-0-of-3"));
    let done = uninstalled(&bed, 60).await.unwrap();
    assert_eq!((removed(&done).len(), done.registers), (1, 4));
    let note = done.notes.first().unwrap();
    assert!(note.starts_with("ReferenceRegisters are left, such as bucket-0-of-3 ("), "{note}");
    faults.clear(fault);

    let done = uninstalled(&bed, 60).await.unwrap();
    assert_eq!(done.to_string(), "removed 1 ReferenceRegister\n");
    assert_eq!(registers_left(&bed, own).await, 0);
}

#[tokio::test]
async fn what_is_left_is_named() {
    let bed = Bed::kcp_bound().await;
    bed.own_namespace("root:dep-ctrl").await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    controller.stop().await;

    let faults = bed.testbed.faults();
    let deletes = When::always().method("DELETE").path("validatingwebhookconfigurations");
    let fault = faults.inject(Fault::InternalError, deletes);
    let error = uninstalled(&bed, 2).await.unwrap_err().to_string();
    assert!(
        error.contains(&format!("is left in workspace {NETWORK} (")) && error.ends_with("delete it by hand"),
        "{error}"
    );
    faults.clear(fault);

    let fault = faults.inject(Fault::InternalError, When::always().method("GET").path("apiexportendpointslices"));
    let error = uninstalled(&bed, 2).await.unwrap_err().to_string();
    assert!(error.starts_with("could not find all installed configurations ("), "{error}");
    faults.clear(fault);
    assert_eq!(bed.installed(NETWORK).await, ["vpcs"]);
    assert_eq!(removed(&uninstalled(&bed, 60).await.unwrap()).len(), 1);
}

#[tokio::test]
async fn a_controller_that_cannot_be_told_is_noticed() {
    // The namespace for the mark does not exist.
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    let error = uninstalled(&bed, 60).await.unwrap_err().to_string();
    assert!(error.contains(&format!("in workspace {NETWORK} again: stop the controller")), "{error}");
    controller.stop().await;
    let done = uninstalled(&bed, 60).await.unwrap();
    assert!(done.notes.first().unwrap().starts_with("could not tell running controllers to stop writing"), "{done}");
}

/// Counts the messages of one module of the controller.
struct Counted(&'static str, Arc<AtomicUsize>);

impl Subscriber for Counted {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == self.0
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_controller_that_may_not_write_rests_though_a_write_is_overdue() {
    let bed = Bed::kcp_bound().await;
    bed.own_namespace("root:dep-ctrl").await;
    let when = When::always().method("POST").path("validatingwebhookconfigurations");
    bed.testbed.faults().inject(Fault::InternalError, when);
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "False ApplyFailed").await;

    // A second subscriber, so that tracing asks each of them, and not only the one of the thread that logs first.
    let _ = tracing::subscriber::set_global_default(Counted("", Arc::default()));
    let messages = Arc::new(AtomicUsize::new(0));
    let counted = Counted("depguard_controller::rules::runner", Arc::clone(&messages));
    let _counting = tracing::subscriber::set_default(counted);
    uninstalled(&bed, 60).await.unwrap();
    assert_eq!(probe(&controller, "/readyz").await, 503);
    // The controller writes one message each time that it checks for work.
    assert_ne!(messages.swap(0, Ordering::Relaxed), 0);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let messages = messages.load(Ordering::Relaxed);
    assert!(messages <= 3, "{messages}");
    controller.stop().await;
}

#[tokio::test]
async fn a_controller_of_another_namespace_is_told_there() {
    let bed = Bed::kubernetes().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}});
    bed.at("").post_json("/api/v1/namespaces", &namespace).await.unwrap();
    bed.at("").post_json(RULES, &local_rule("maps", "", "v1", "configmaps")).await.unwrap();
    let config = bed.config();
    let service = "elsewhere/depguard-webhook".parse().unwrap();
    let config = Config::new(config.control_plane, config.export_name, service)
        .kubeconfig(config.kubeconfig)
        .probe_addr(config.probe_addr)
        .metrics_addr(None);
    let controller = Controller::start(config).await.unwrap();
    bed.until_installed("", &["configmaps"]).await;
    let done = uninstalled(&bed, 60).await.unwrap();
    assert_eq!(removed(&done).len(), 1);
    assert!(done.notes.is_empty(), "{done}");
    let mark = "/apis/coordination.k8s.io/v1/namespaces/elsewhere/leases/depguard-controller-uninstall";
    bed.at("").get_json(mark).await.unwrap();
    controller.stop().await;
}

#[tokio::test]
async fn a_workspace_that_unbinds_depguard_loses_its_configuration_first() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    until_ready(&controller).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    // The finalizer holds the binding, as objects of the binding do.
    bed.rebind(NETWORK, |binding| binding["metadata"]["finalizers"] = json!(["example.com/hold"])).await;
    let path = "/apis/apis.kcp.io/v1alpha2/apibindings/dependencies.opendefense.cloud";
    bed.at(NETWORK).delete(path, Preconditions::default()).await.unwrap();
    until("the configuration is gone", async || {
        bed.configuration(NETWORK).await.map_or(Ok(()), |_| Err("there".into()))
    })
    .await;
    let said = bed.until_condition(COMPUTE, "vm", "Programmed", "False Unbinding").await;
    assert_eq!(
        said,
        format!("the configuration was removed from workspace {NETWORK}: the APIBinding there is being deleted")
    );
    controller.stop().await;
}

/// Deletes a binding that nothing holds: in kcp, such a binding has ended before anybody could use it once more.
#[tokio::test]
async fn of_a_workspace_whose_binding_is_gone_nobody_says_that_nothing_is_installed_there() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    let path = "/apis/apis.kcp.io/v1alpha2/apibindings/dependencies.opendefense.cloud";
    bed.at(NETWORK).delete(path, Preconditions::default()).await.unwrap();
    let said = bed.until_condition(COMPUTE, "vm", "Programmed", "False Pending").await;
    assert!(said.contains("can't see what is left there"), "{said}");
    assert!(said.contains("delete ValidatingWebhookConfiguration dependency-controller there"), "{said}");
    controller.stop().await;
}

#[tokio::test]
async fn a_mark_from_long_ago_stops_nobody() {
    let bed = Bed::kcp_bound().await;
    bed.own_namespace("root:dep-ctrl").await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "depguard-controller-uninstall"},
        "spec": {"holderIdentity": "uninstall", "leaseDurationSeconds": 120, "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    let path = "/apis/coordination.k8s.io/v1/namespaces/depguard-system/leases";
    bed.at("root:dep-ctrl").post_json(path, &lease).await.unwrap();
    bed.rule("vm", &["vpcs"]).await;
    let controller = Controller::start(bed.config()).await.unwrap();
    bed.until_installed(NETWORK, &["vpcs"]).await;
    controller.stop().await;
}

/// Counts the looks for an uninstall. At rest there are none.
#[tokio::test]
async fn a_controller_at_rest_does_not_look_for_an_uninstall_and_one_that_writes_does() {
    let bed = Bed::kcp_bound().await;
    bed.own_namespace("root:dep-ctrl").await;
    let faults = bed.testbed.faults();
    let looks = faults.inject(Fault::Latency(Duration::ZERO), When::always().method("GET").path(MARK));
    bed.rule("vm", &["vpcs"]).await;
    let controller = Controller::start(bed.config().resync(Duration::from_secs(3600))).await.unwrap();
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    let count = || faults.hits(looks).unwrap();
    until("it rests", async || {
        let before = count();
        // Longer than a look counts.
        tokio::time::sleep(Duration::from_secs(4)).await;
        if count() == before { Ok(()) } else { Err(format!("{} looks", count() - before)) }
    })
    .await;
    let at_rest = count();
    bed.rule("lan", &["lans"]).await;
    bed.until_installed(NETWORK, &["lans", "vpcs"]).await;
    assert!(count() > at_rest, "it wrote without a look");
    controller.stop().await;
}

#[tokio::test]
async fn a_controller_that_cannot_look_for_an_uninstall_writes_nothing() {
    let bed = Bed::kcp_bound().await;
    bed.own_namespace("root:dep-ctrl").await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = Controller::start(bed.config().resync(Duration::from_secs(1))).await.unwrap();
    bed.until_installed(NETWORK, &["vpcs"]).await;
    let faults = bed.testbed.faults();
    for fault in [Fault::InternalError, Fault::Latency(Duration::from_secs(30))] {
        let fault = faults.inject(fault, When::always().method("GET").path(MARK));
        until("it says why", async || match answer(&controller, "/readyz").await {
            said if said.contains("could not find out whether depguard is being uninstalled") => Ok(()),
            said => Err(said),
        })
        .await;
        bed.rule("lan", &["lans"]).await;
        let looks = faults.hits(fault);
        until("it looks again", async || match faults.hits(fault) {
            now if now > looks.map(|looks| looks + 1) => Ok(()),
            now => Err(format!("{now:?}")),
        })
        .await;
        assert_eq!(bed.installed(NETWORK).await, ["vpcs"]);
        faults.clear(fault);
        bed.until_installed(NETWORK, &["lans", "vpcs"]).await;
        bed.delete_rule(COMPUTE, "lan").await;
        bed.until_installed(NETWORK, &["vpcs"]).await;
    }
    controller.stop().await;
}
