//! Installed configurations follow the rules, whatever happens in between.

use std::time::Duration;

use depguard_controller::{Controller, manifests};
use depguard_testbed::{Fault, When};
use futures::future::join_all;
use serde_json::json;

use crate::bed::{Bed, COMPUTE, NETWORK, URL, metric, probe, until, until_ready, write_bundle};

#[tokio::test]
async fn a_rule_is_installed_in_its_targets_workspace_and_says_so() {
    let bed = Bed::kcp_bound().await;
    let controller = bed.controller().await;
    until_ready(&controller).await;
    bed.rule("vm", &["vpcs"]).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    assert_eq!(bed.configuration(COMPUTE).await, None);
    bed.until_condition(COMPUTE, "vm", "Accepted", "True Accepted").await;
    let said = bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    assert_eq!(said, format!("installed in workspace {NETWORK}"));
    let said = bed.until_condition(COMPUTE, "vm", "ResolvedRefs", "False ExportNotFound").await;
    assert!(said.contains("APIExport compute.example.com not found in workspace root:compute"), "{said}");

    let found = bed.configuration(NETWORK).await.unwrap();
    let webhook = &found["webhooks"][0];
    assert_eq!(found["metadata"]["labels"]["app.kubernetes.io/managed-by"], "depguard");
    assert_eq!(webhook["clientConfig"], json!({"url": URL}));
    assert_eq!(webhook["failurePolicy"], "Fail");

    bed.delete_rule(COMPUTE, "vm").await;
    until("the configuration is gone", async || {
        bed.configuration(NETWORK).await.map_or(Ok(()), |_| Err("there".into()))
    })
    .await;
    controller.stop().await;
}

#[tokio::test]
async fn a_rule_is_installed_though_the_watch_shows_the_configuration_that_was_removed() {
    let bed = Bed::kcp_bound().await;
    let controller = bed.controller().await;
    bed.rule("vm", &["vpcs"]).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    bed.testbed.faults().inject(Fault::WatchSilent, When::always().path("/validatingwebhookconfigurations"));
    bed.delete_rule(COMPUTE, "vm").await;
    until("the configuration is gone", async || {
        bed.configuration(NETWORK).await.map_or(Ok(()), |_| Err("there".into()))
    })
    .await;
    bed.rule("again", &["vpcs"]).await;
    bed.until_condition(COMPUTE, "again", "Programmed", "True Programmed").await;
    assert_eq!(bed.installed(NETWORK).await, ["vpcs"]);
    controller.stop().await;
}

#[tokio::test]
async fn a_rule_removed_while_the_controller_is_down_leaves_nothing_behind() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs", "lans"]).await;
    bed.rule("db", &["lans"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["lans", "vpcs"]).await;
    controller.stop().await;

    bed.delete_rule(COMPUTE, "vm").await;
    assert_eq!(bed.installed(NETWORK).await, ["lans", "vpcs"]);
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["lans"]).await;
    controller.stop().await;

    bed.delete_rule(COMPUTE, "db").await;
    let controller = bed.controller().await;
    until("the configuration is gone", async || {
        bed.configuration(NETWORK).await.map_or(Ok(()), |_| Err("there".into()))
    })
    .await;
    controller.stop().await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_named_with_its_flag() {
    let bed = Bed::kcp_bound().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let configs = [
        (bed.config().probe_addr(Some(address)), "--health-probe-bind-address"),
        (bed.config().metrics_addr(Some(address)), "--metrics-bind-address"),
    ];
    for (config, flag) in configs {
        let Err(error) = Controller::start(config).await else { panic!("it started on a taken address") };
        let error = error.to_string();
        assert!(error.starts_with(&format!("cannot listen on {address}: ")) && error.ends_with(flag), "{error}");
    }
}

/// Four servers go side by side, because a restart mostly waits.
#[tokio::test]
async fn eight_rules_on_one_workspace_keep_all_kinds_through_twenty_restarts() {
    join_all((0..4).map(|_| five_restarts())).await;
}

async fn five_restarts() {
    let bed = Bed::kcp_bound().await;
    let kinds: Vec<_> = (0..8).map(|n| format!("kind{n}s")).collect();
    let kinds: Vec<_> = kinds.iter().map(String::as_str).collect();
    for kind in &kinds {
        bed.rule(kind, &[kind]).await;
    }
    for restart in 0..5 {
        // Two controllers at once: their writes conflict.
        let (one, two) = (bed.controller().await, bed.controller().await);
        if restart == 3 {
            bed.delete_configuration(NETWORK).await;
        }
        until_ready(&one).await;
        until_ready(&two).await;
        bed.until_installed(NETWORK, &kinds).await;
        one.stop().await;
        two.stop().await;
        assert_eq!(bed.installed(NETWORK).await, kinds, "restart {restart}");
    }
}

#[tokio::test]
async fn a_configuration_deleted_or_weakened_by_hand_is_put_right() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    let right = bed.configuration(NETWORK).await.unwrap()["webhooks"].clone();

    bed.delete_configuration(NETWORK).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    type Edit = fn(&mut serde_json::Value);
    let edits: [Edit; 5] = [
        |w| w["failurePolicy"] = json!("Ignore"),
        |w| w["objectSelector"] = json!({"matchLabels": {"protect": "me"}}),
        |w| w["matchConditions"] = json!([{"name": "never", "expression": "false"}]),
        |w| w["rules"][0]["scope"] = json!("Cluster"),
        |w| w["clientConfig"]["url"] = json!("https://elsewhere.example.com/validate"),
    ];
    for edit in edits {
        bed.edit_configuration(NETWORK, |found| edit(&mut found["webhooks"][0])).await;
        until("it is put right", async || {
            let found = bed.configuration(NETWORK).await.unwrap_or_default()["webhooks"].clone();
            if found == right { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_rule_before_its_provider_s_binding_is_installed_once_it_binds() {
    let bed = Bed::kcp().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    let said = bed.until_condition(COMPUTE, "vm", "ResolvedRefs", "False NotBound").await;
    assert!(said.starts_with("workspace root:network has not bound dependencies.opendefense.cloud: create"), "{said}");
    bed.until_condition(COMPUTE, "vm", "Programmed", "False Pending").await;

    bed.bind(NETWORK, &manifests::provider_binding("root:dep-ctrl")).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    controller.stop().await;
}

#[tokio::test]
async fn a_workspace_that_is_not_there_is_named() {
    let bed = Bed::kcp().await;
    let mut rule = crate::bed::rule("vm", &["vpcs"]);
    rule["spec"]["dependencies"][0]["apiExportRef"]["path"] = json!("root:nowhere");
    let rules = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
    bed.at(COMPUTE).post_json(rules, &rule).await.unwrap();
    let controller = bed.controller().await;
    let said = bed.until_condition(COMPUTE, "vm", "ResolvedRefs", "False WorkspaceNotFound").await;
    assert!(said.starts_with("workspace root:nowhere not found: "), "{said}");
    controller.stop().await;
}

#[tokio::test]
async fn a_claim_that_is_not_accepted_shows_and_is_used_once_it_is() {
    let bed = Bed::kcp().await;
    let mut binding = manifests::provider_binding("root:dep-ctrl");
    binding["spec"]["permissionClaims"] = json!([]);
    bed.bind(NETWORK, &binding).await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    let said = bed.until_condition(COMPUTE, "vm", "Programmed", "False ClaimNotAccepted").await;
    assert!(
        said.starts_with("workspace root:network has not accepted the claim on validatingwebhookconfigurations"),
        "{said}"
    );

    let claims = manifests::provider_binding("")["spec"]["permissionClaims"].clone();
    bed.rebind(NETWORK, |binding| binding["spec"]["permissionClaims"] = claims.clone()).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    controller.stop().await;
}

#[tokio::test]
async fn the_reference_s_claim_without_patch_is_enough() {
    let bed = Bed::kcp().await;
    let mut binding = manifests::provider_binding("root:dep-ctrl");
    binding["spec"]["permissionClaims"] = json!([{
        "group": "admissionregistration.k8s.io",
        "resource": "validatingwebhookconfigurations",
        "verbs": ["get", "list", "watch", "create", "update", "delete"],
        "selector": {"matchAll": true},
        "state": "Accepted",
    }]);
    bed.bind(NETWORK, &binding).await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    bed.rule("lan", &["lans"]).await;
    bed.until_installed(NETWORK, &["lans", "vpcs"]).await;
    bed.until_condition(COMPUTE, "vm", "ResolvedRefs", "False ExportNotFound").await;
    controller.stop().await;
}

#[tokio::test]
async fn a_changed_ca_bundle_is_installed() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let bundle = write_bundle(&bed.folder, "QQ==");
    let mut config = bed.config();
    config.ca_bundle_path = Some(bundle);
    let controller = Controller::start(config).await.unwrap();
    bed.until_installed(NETWORK, &["vpcs"]).await;
    let ca = async || bed.configuration(NETWORK).await.unwrap()["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let first = ca().await;
    assert!(first.is_string());
    write_bundle(&bed.folder, "Qg==");
    until("the new bundle is installed", async || if ca().await == first { Err("old".into()) } else { Ok(()) }).await;
    controller.stop().await;
}

#[tokio::test]
async fn a_changed_ca_bundle_reaches_what_is_installed_beside_rules_too() {
    let bed = Bed::kubernetes().await;
    let mut config = bed.config();
    config.ca_bundle_path = Some(write_bundle(&bed.folder, "QQ=="));
    config.enable.owners = true;
    config.enable.compat_lock_kinds = ["configmaps".parse().unwrap()].into();
    let controller = Controller::start(config).await.unwrap();
    let bundle = async |name: &str| {
        let path = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}");
        let found = bed.at("").get_json(&path).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(found["webhooks"][0]["clientConfig"]["caBundle"].clone())
    };
    let names = ["depguard-owners", "depguard-compat-locks"];
    let mut first = Vec::new();
    for name in names {
        first.push(until("it is installed", async || bundle(name).await).await);
    }
    assert!(first.iter().all(serde_json::Value::is_string), "{first:?}");
    write_bundle(&bed.folder, "Qg==");
    for (name, first) in names.into_iter().zip(first) {
        until("the new bundle is installed", async || match bundle(name).await? {
            bundle if bundle == first => Err(format!("{name} has the old one")),
            _ => Ok(()),
        })
        .await;
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_ca_that_is_rotated_by_swapping_folders_is_followed() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    // The kubelet mounts a Secret like this: the file is a link through `..data`, which is exchanged as a whole.
    let mount = bed.folder.path().join("mount");
    let swap = |version: &str, certificates: &[&str]| {
        let pem = |content: &&str| format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
        std::fs::create_dir_all(mount.join(version)).unwrap();
        let bundle = certificates.iter().map(pem).collect::<String>();
        std::fs::write(mount.join(version).join("ca.crt"), &bundle).unwrap();
        std::os::unix::fs::symlink(version, mount.join("..data_tmp")).unwrap();
        std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
        bundle
    };
    let old = swap("..1", &["QQ=="]);
    std::os::unix::fs::symlink("..data/ca.crt", mount.join("ca.crt")).unwrap();
    let mut config = bed.config();
    config.ca_bundle_path = Some(mount.join("ca.crt"));
    let controller = Controller::start(config).await.unwrap();
    let installed = async |expected: &str| {
        until("the bundle is installed", async || {
            let found = bed.configuration(NETWORK).await.unwrap_or_default();
            let bundle = found["webhooks"][0]["clientConfig"]["caBundle"].clone();
            let expected = json!(k8s_openapi::ByteString(expected.as_bytes().to_vec()));
            if bundle == expected { Ok(()) } else { Err(bundle.to_string()) }
        })
        .await;
    };
    installed(&old).await;
    // While both certificates are in use, the bundle holds both.
    for (version, certificates) in [("..2", &["QQ==", "Qg=="][..]), ("..3", &["Qg=="])] {
        let bundle = swap(version, certificates);
        // There is other work to do meanwhile.
        bed.rule(&format!("rule{}", certificates.len()), &["lans"]).await;
        installed(&bundle).await;
    }
    controller.stop().await;
}

#[tokio::test]
async fn nothing_is_written_before_everything_is_loaded() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    controller.stop().await;

    // A controller that believes there are no rules would delete the configuration.
    for hidden in ["dependencyrules", "apibindings", "validatingwebhookconfigurations", "apiexportendpointslices"] {
        let fault = bed.testbed.faults().inject(Fault::InternalError, When::always().method("GET").path(hidden));
        let controller = bed.controller().await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!((probe(&controller, "/healthz").await, probe(&controller, "/readyz").await), (200, 503), "{hidden}");
        bed.testbed.faults().clear(fault);
        assert_eq!(bed.installed(NETWORK).await, ["vpcs"], "{hidden}");
        until_ready(&controller).await;
        controller.stop().await;
    }
    // The virtual workspace's list is empty, and shows nothing of what exists.
    let empty = When::always().path("/services/apiexport/");
    let fault = bed.testbed.faults().inject(Fault::EmptyList, empty);
    let controller = bed.controller().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(probe(&controller, "/readyz").await, 503);
    bed.testbed.faults().clear(fault);
    assert_eq!(bed.installed(NETWORK).await, ["vpcs"]);
    controller.stop().await;
}

#[tokio::test]
async fn nothing_is_taken_away_by_rules_that_cannot_be_followed() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    controller.stop().await;

    // The first list is answered, its watch breaks, and then no list shows the changes since.
    let faults = bed.testbed.faults();
    let no_list = faults.inject(Fault::InternalError, When::always().path("dependencyrules?limit=").after(1));
    faults.inject(Fault::Cut, When::always().path("dependencyrules?watch=true").times(1));
    let controller = bed.controller().await;
    until("it says that it can't follow", async || match probe(&controller, "/readyz").await {
        503 if faults.hits(no_list) > Some(0) => Ok(()),
        code => Err(code.to_string()),
    })
    .await;
    // Another controller, which knows a newer rule, installs its target.
    bed.rule("lan", &["lans"]).await;
    bed.edit_configuration(NETWORK, |found| {
        let mut lans = found["webhooks"][0]["rules"][0].clone();
        lans["resources"] = json!(["lans"]);
        found["webhooks"][0]["rules"].as_array_mut().unwrap().insert(0, lans);
    })
    .await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(bed.installed(NETWORK).await, ["lans", "vpcs"]);

    faults.clear_all();
    until_ready(&controller).await;
    assert_eq!(bed.installed(NETWORK).await, ["lans", "vpcs"]);
    bed.until_condition(COMPUTE, "lan", "Programmed", "True Programmed").await;
    controller.stop().await;
}

#[tokio::test]
async fn a_write_that_fails_is_tried_again_and_shows_meanwhile() {
    let bed = Bed::kcp_bound().await;
    let failing = When::always().method("POST").path("validatingwebhookconfigurations");
    let fault = bed.testbed.faults().inject(Fault::InternalError, failing);
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    let said = bed.until_condition(COMPUTE, "vm", "Programmed", "False ApplyFailed").await;
    assert!(said.contains("500"), "{said}");
    bed.testbed.faults().clear(fault);
    bed.until_installed(NETWORK, &["vpcs"]).await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    controller.stop().await;
}

#[tokio::test]
async fn what_is_in_order_is_not_written_again() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    controller.stop().await;
    let writes = ["PUT", "POST", "PATCH", "DELETE"]
        .map(|method| bed.testbed.faults().inject(Fault::Latency(Duration::ZERO), When::always().method(method)));
    let mut config = bed.config();
    config.resync = Duration::from_secs(1);
    let controller = Controller::start(config).await.unwrap();
    until_ready(&controller).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    controller.stop().await;
    assert_eq!(writes.map(|fault| bed.testbed.faults().hits(fault)), [Some(0); 4]);
}

/// A watch that is late shows a status after the controller has tried to write the status again. Nothing is left to try
/// then.
#[tokio::test]
async fn a_status_that_the_watch_shows_late_leaves_no_round_overdue() {
    let bed = Bed::kcp_bound().await;
    bed.rule("vm", &["vpcs"]).await;
    let config = bed.config().metrics_addr(Some(([127, 0, 0, 1], 0).into()));
    let controller = Controller::start(config).await.unwrap();
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;

    let silent = bed.testbed.faults().inject(Fault::WatchSilent, When::always().path("/dependencyrules?"));
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport",
        "metadata": {"name": "compute.example.com"}, "spec": {},
    });
    let exports = "/apis/apis.kcp.io/v1alpha2/apiexports";
    bed.at(COMPUTE).post_json(exports, &export).await.unwrap();
    let mut changes = 0;
    until("a status is written by an old version", async || {
        changes += 1;
        bed.edit(COMPUTE, &format!("{exports}/compute.example.com"), |export| {
            export["metadata"]["annotations"]["example.com/changes"] = json!(changes.to_string());
        })
        .await;
        let outdated = metric(&controller, r#"depguard_controller_status_writes_total{outcome="outdated"}"#).await;
        if outdated > 0.0 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    bed.testbed.faults().clear(silent);

    // A try that failed twice is due again after two seconds: more than a hundred looks.
    let (mut rounds, mut alike) = (0.0, 0);
    until("no round follows another", async || {
        let now = metric(&controller, "depguard_controller_round_duration_seconds_count").await;
        alike = if now.to_bits() == f64::to_bits(rounds) { alike + 1 } else { 0 };
        rounds = now;
        if alike == 120 { Ok(()) } else { Err(format!("{now} rounds")) }
    })
    .await;
    controller.stop().await;
}
