//! Locks: their configurations, their tables, and their statuses.

use std::time::Duration;

use depguard_controller::{Config, Controller, WebhookTarget, manifests};
use depguard_kcp::{Feature, Features, Preconditions};
use depguard_testbed::{Fault, When};
use serde_json::{Value, json};

use crate::bed::{Bed, NETWORK, until};
use crate::hook::allowing;
use crate::removal::{removed, uninstalled};

const GROUP: &str = "/apis/dependencies.opendefense.cloud/v1alpha1";
const LOCKS: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/namespaces/default/objectlocks";
const CLUSTER_LOCKS: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/clusterobjectlocks";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const NONE: Preconditions<'_> = Preconditions { uid: None, resource_version: None };

impl Bed {
    /// Returns the settings of a controller with locks, and with a webhook that allows everything.
    pub(crate) async fn config_of_locks(&self) -> Config {
        let (url, bundle) = allowing(&self.folder).await;
        self.config()
            .webhook(WebhookTarget::Url(url))
            .ca_bundle_path(Some(bundle))
            .enable(Features::new([Feature::Locks], []))
            .resync(Duration::from_secs(2))
    }

    pub(crate) async fn define_locks(&self) {
        for crd in manifests::lock_crds() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            self.at("").post_json(path, &crd).await.unwrap();
        }
        until("locks are served", async || self.at("").list_json(LOCKS).await.map_err(|error| error.to_string())).await;
    }

    /// Makes a lock with these targets in namespace `default`.
    pub(crate) async fn lock(&self, workspace: &str, name: &str, targets: &Value) {
        self.lock_at(LOCKS, workspace, name, targets).await;
    }

    /// Makes an ObjectLock or a ClusterObjectLock, at this path.
    async fn lock_at(&self, path: &str, workspace: &str, name: &str, targets: &Value) {
        let lock = json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1",
            "kind": if path == LOCKS { "ObjectLock" } else { "ClusterObjectLock" },
            "metadata": {"name": name},
            "spec": {"targets": targets},
        });
        // The API server may have learned of the webhook only a moment ago.
        until("the lock is made", async || {
            self.at(workspace).post_json(path, &lock).await.map_err(|error| error.to_string())
        })
        .await;
    }

    pub(crate) async fn unlock(&self, workspace: &str, name: &str) {
        self.at(workspace).delete(&format!("{LOCKS}/{name}"), NONE).await.unwrap();
    }

    /// Waits until a condition of a lock has this status and reason. Returns its message.
    pub(crate) async fn until_lock(&self, workspace: &str, name: &str, type_: &str, expected: &str) -> String {
        self.until_lock_at(LOCKS, workspace, name, type_, expected).await
    }

    async fn until_lock_at(&self, path: &str, workspace: &str, name: &str, type_: &str, expected: &str) -> String {
        until(&format!("{type_} of {name} is {expected}"), async || {
            let lock = self.at(workspace).get_json(&format!("{path}/{name}")).await.unwrap();
            let conditions = lock.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
            let found = conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
            let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            let said = format!("{} {}", text("status"), text("reason"));
            if said == expected { Ok(text("message")) } else { Err(format!("{said}: {}", text("message"))) }
        })
        .await
    }

    /// Returns the reviews that a configuration asks for, such as `UPDATE,DELETE configmaps`; nothing if there is no
    /// configuration.
    pub(crate) async fn reviewed(&self, workspace: &str, configuration: &str) -> Vec<String> {
        let found = match self.at(workspace).get_json(&format!("{CONFIGURATIONS}/{configuration}")).await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => return Vec::new(),
            Err(error) => panic!("{error}"),
        };
        let rules = found["webhooks"][0]["rules"].as_array().unwrap().clone();
        let list = |value: &Value| {
            value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
        };
        rules.iter().map(|rule| format!("{} {}", list(&rule["operations"]), list(&rule["resources"]))).collect()
    }

    pub(crate) async fn until_reviewed(&self, workspace: &str, configuration: &str, expected: &[&str]) {
        until(&format!("{configuration} has {expected:?}"), async || {
            let found = self.reviewed(workspace, configuration).await;
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }

    /// Returns the locks in a table; nothing if there is no table.
    pub(crate) async fn noted(&self, workspace: &str, table: &str) -> Vec<String> {
        match self.at(workspace).get_json(&format!("{GROUP}/locktables/{table}")).await {
            Ok(table) => {
                let entries = table["spec"]["entries"].as_array().cloned().unwrap_or_default();
                entries.iter().map(|entry| entry["lock"].as_str().unwrap().to_owned()).collect()
            }
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => panic!("{error}"),
        }
    }

    async fn until_noted(&self, table: &str, expected: &[&str]) {
        until(&format!("{table} has {expected:?}"), async || {
            let found = self.noted("", table).await;
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }
}

fn config_map(name: &str) -> Value {
    json!([{"group": "", "resource": "configmaps", "name": name}])
}

#[tokio::test]
async fn what_is_reviewed_comes_with_the_first_lock_narrows_and_goes_with_the_last() {
    let bed = Bed::kubernetes().await;
    bed.define_locks().await;
    let controller = Controller::start(bed.config_of_locks().await).await.unwrap();
    let both = "CREATE,UPDATE,DELETE objectlocks,clusterobjectlocks";
    bed.until_reviewed("", "depguard-lock-kinds", &[both]).await;
    assert!(bed.reviewed("", "depguard-locks").await.is_empty());

    bed.lock("", "maps", &config_map("a")).await;
    bed.lock("", "secrets", &json!([{"resource": "secrets", "selector": {}}, {"resource": "pods", "name": "a"}])).await;
    let said = bed.until_lock("", "maps", "Programmed", "True Programmed").await;
    assert_eq!(said, "the webhook reviews requests on configmaps");
    bed.until_lock("", "secrets", "Programmed", "True Programmed").await;
    let all = ["configmaps", "pods", "secrets"].map(|kind| format!("UPDATE,DELETE {kind}"));
    let [maps, pods, secrets] = all.each_ref().map(String::as_str);
    bed.until_reviewed("", "depguard-locks", &[maps, pods, "CREATE pods/eviction", secrets]).await;

    bed.unlock("", "secrets").await;
    bed.until_reviewed("", "depguard-locks", &[maps]).await;
    let (path, what) = (format!("{CONFIGURATIONS}/depguard-locks"), "what somebody deletes or empties comes back");
    bed.at("").delete(&path, NONE).await.unwrap();
    bed.until_reviewed("", "depguard-locks", &[maps]).await;
    bed.edit("", &path, |found| found["webhooks"][0]["rules"] = json!([])).await;
    until(what, async || match &*bed.reviewed("", "depguard-locks").await {
        [found] if found == maps => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    bed.unlock("", "maps").await;
    bed.until_reviewed("", "depguard-locks", &[]).await;
    assert_eq!(bed.reviewed("", "depguard-lock-kinds").await, [both]);

    bed.own_namespace("").await;
    bed.lock("", "maps", &config_map("a")).await;
    bed.until_reviewed("", "depguard-locks", &[maps]).await;
    let done = uninstalled(&bed, 60).await.unwrap();
    let removed: Vec<_> = removed(&done).into_iter().map(|removed| removed.configuration).collect();
    assert_eq!(removed, ["depguard-lock-kinds", "depguard-locks"]);
    controller.stop().await;
}

#[tokio::test]
async fn a_lock_is_in_force_by_what_is_installed_though_the_watch_shows_what_was() {
    let bed = Bed::kubernetes().await;
    bed.define_locks().await;
    let controller = Controller::start(bed.config_of_locks().await).await.unwrap();
    let maps = "UPDATE,DELETE configmaps";
    bed.lock("", "first", &config_map("a")).await;
    bed.until_lock("", "first", "Programmed", "True Programmed").await;
    bed.until_reviewed("", "depguard-locks", &[maps]).await;
    // From now on, the controller goes on seeing this configuration.
    bed.testbed.faults().inject(Fault::WatchSilent, When::always().path("/validatingwebhookconfigurations"));
    bed.unlock("", "first").await;
    bed.until_reviewed("", "depguard-locks", &[]).await;
    bed.lock("", "second", &config_map("a")).await;
    bed.until_lock("", "second", "Programmed", "True Programmed").await;
    assert_eq!(bed.reviewed("", "depguard-locks").await, [maps]);
    controller.stop().await;
}

#[tokio::test]
async fn a_lock_that_was_made_unseen_is_noted_before_it_is_said_to_be_in_force() {
    let bed = Bed::kubernetes().await;
    bed.define_locks().await;
    // No webhook is installed yet.
    bed.lock("", "maps", &config_map("a")).await;
    let faults = bed.testbed.faults();
    let fault = faults.inject(Fault::InternalError, When::always().method("POST").path("locktables"));
    let controller = Controller::start(bed.config_of_locks().await).await.unwrap();
    let said = bed.until_lock("", "maps", "Programmed", "False TableNotWritten").await;
    assert!(said.contains("could not write the lock into its LockTable"), "{said}");
    assert!(bed.noted("", "ns.default.configmaps").await.is_empty());
    faults.clear(fault);
    bed.until_lock("", "maps", "Programmed", "True Programmed").await;
    assert_eq!(bed.noted("", "ns.default.configmaps").await, ["maps"]);

    // A table that somebody deletes is made anew.
    bed.at("").delete(&format!("{GROUP}/locktables/ns.default.configmaps"), NONE).await.unwrap();
    bed.until_noted("ns.default.configmaps", &["maps"]).await;
    controller.stop().await;
}

#[tokio::test]
async fn what_can_not_be_in_force_says_why() {
    let bed = Bed::kubernetes().await;
    bed.define_locks().await;
    bed.lock("", "vm", &json!([{"group": "compute.example.com", "resource": "virtualmachines", "name": "a"}])).await;
    let controller = Controller::start(bed.config_of_locks().await).await.unwrap();
    let said = bed.until_lock("", "vm", "Programmed", "False KindNotServed").await;
    assert!(
        said.starts_with("the API server does not serve virtualmachines.compute.example.com in any version: "),
        "{said}"
    );
    bed.define("compute.example.com", "VirtualMachine").await;
    bed.until_lock("", "vm", "Programmed", "True Programmed").await;

    let ended = "2020-01-01T00:00:00Z";
    bed.edit("", &format!("{LOCKS}/vm"), |lock| lock["spec"]["expiresAt"] = json!(ended)).await;
    bed.until_lock("", "vm", "Programmed", "False Expired").await;
    bed.until_reviewed("", "depguard-locks", &[]).await;
    controller.stop().await;
}

#[tokio::test]
async fn a_table_is_cleaned_only_of_what_is_gone_and_a_new_lock_wins_over_that() {
    let bed = Bed::kubernetes().await;
    bed.define_locks().await;
    bed.lock("", "old", &config_map("a")).await;
    bed.lock("", "other", &config_map("b")).await;
    let config = bed.config_of_locks().await.lock_clean_after(Duration::from_millis(300));
    let controller = Controller::start(config).await.unwrap();
    let table = "ns.default.configmaps";
    bed.until_noted(table, &["old", "other"]).await;
    // A new lock is written before each clean-up is: by then the table is another.
    let path = format!("{GROUP}/locktables/{table}");
    bed.unlock("", "old").await;
    bed.edit("", &path, |found| {
        let revision = found["spec"]["revision"].as_i64().unwrap() + 1;
        found["spec"]["revision"] = json!(revision);
        let entry = json!({"lock": "new", "names": ["a"], "revision": revision});
        found["spec"]["entries"].as_array_mut().unwrap().push(entry);
    })
    .await;
    bed.lock("", "new", &config_map("a")).await;
    bed.until_noted(table, &["new", "other"]).await;
    bed.until_lock("", "new", "Programmed", "True Programmed").await;

    bed.unlock("", "new").await;
    bed.until_noted(table, &["other"]).await;
    bed.unlock("", "other").await;
    until("the empty table is gone", async || match bed.at("").get_json(&path).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    controller.stop().await;
}

#[tokio::test]
async fn without_their_kinds_rules_are_ready_all_the_same() {
    let bed = Bed::kubernetes().await;
    let controller = Controller::start(bed.config_of_locks().await).await.unwrap();
    crate::bed::until_ready(&controller).await;
    bed.define_locks().await;
    bed.lock("", "maps", &config_map("a")).await;
    bed.until_lock("", "maps", "Programmed", "True Programmed").await;
    controller.stop().await;
}

#[tokio::test]
async fn the_older_tools_locks_need_no_lock_of_ours() {
    let bed = Bed::kubernetes().await;
    let kinds = ["pods", "deployments.apps"].map(|kind| kind.parse().unwrap());
    let config = bed.config_of_locks().await.enable(Features::new([], kinds));
    let controller = Controller::start(config).await.unwrap();
    bed.until_reviewed(
        "",
        "depguard-compat-locks",
        &["UPDATE,DELETE pods", "UPDATE,DELETE deployments", "CREATE pods/eviction"],
    )
    .await;
    assert!(bed.reviewed("", "depguard-lock-kinds").await.is_empty());
    controller.stop().await;
}

#[tokio::test]
async fn in_kcp_a_tenants_own_kinds_are_reviewed_there_and_bound_ones_where_their_export_is() {
    let bed = Bed::kcp().await;
    let dep_ctrl = bed.at("root:dep-ctrl");
    let schemas = manifests::lock_schemas().into_iter().map(|schema| (SCHEMAS, schema));
    for (path, object) in schemas.chain([(EXPORTS, manifests::lock_export())]) {
        dep_ctrl.post_json(path, &object).await.unwrap();
    }
    bed.workspace("tenant").await;
    bed.bind_locks(TENANT).await;
    bed.export_disks(NETWORK).await;
    bed.bind_disks(TENANT, NETWORK).await;
    bed.lock(TENANT, "maps", &config_map("a")).await;
    bed.lock(TENANT, "disks", &json!([{"group": "network.example.com", "resource": "disks", "name": "a"}])).await;
    let controller = Controller::start(bed.config_of_locks().await).await.unwrap();

    bed.until_reviewed(
        "root:dep-ctrl",
        "depguard-lock-kinds",
        &["CREATE,UPDATE,DELETE objectlocks,clusterobjectlocks"],
    )
    .await;
    bed.until_lock(TENANT, "maps", "Programmed", "True Programmed").await;
    bed.until_reviewed(TENANT, "depguard-locks", &["UPDATE,DELETE configmaps"]).await;
    assert_eq!(bed.noted(TENANT, "ns.default.configmaps").await, ["maps"]);
    let said = bed.until_lock(TENANT, "disks", "Programmed", "False NotBound").await;
    assert!(said.starts_with("disks.network.example.com can't be locked yet: "), "{said}");
    bed.bind(NETWORK, &manifests::provider_binding("root:dep-ctrl")).await;
    bed.until_lock(TENANT, "disks", "Programmed", "True Programmed").await;
    bed.until_reviewed(NETWORK, "depguard-locks", &["UPDATE,DELETE disks"]).await;
    // Discovery tells that bound kinds are in namespaces, too.
    let mut target = json!([{"group": "network.example.com", "resource": "disks", "name": "a"}]);
    bed.lock_at(CLUSTER_LOCKS, TENANT, "nowhere", &target).await;
    bed.until_lock_at(CLUSTER_LOCKS, TENANT, "nowhere", "Programmed", "False WrongScope").await;
    target[0]["namespace"] = json!("default");
    bed.lock_at(CLUSTER_LOCKS, TENANT, "there", &target).await;
    bed.until_lock_at(CLUSTER_LOCKS, TENANT, "there", "Programmed", "True Programmed").await;

    for name in ["nowhere", "there"] {
        bed.at(TENANT).delete(&format!("{CLUSTER_LOCKS}/{name}"), NONE).await.unwrap();
    }
    bed.unlock(TENANT, "disks").await;
    bed.until_reviewed(NETWORK, "depguard-locks", &[]).await;
    let path = format!("{CONFIGURATIONS}/depguard-locks");
    bed.at(TENANT).delete(&path, NONE).await.unwrap();
    bed.until_reviewed(TENANT, "depguard-locks", &["UPDATE,DELETE configmaps"]).await;
    bed.unlock(TENANT, "maps").await;
    bed.until_reviewed(TENANT, "depguard-locks", &[]).await;
    controller.stop().await;
}

const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
const TENANT: &str = "root:tenant";

impl Bed {
    async fn bind_locks(&self, workspace: &str) {
        let at = self.at(workspace);
        at.post_json(BINDINGS, &manifests::tenant_binding("root:dep-ctrl")).await.unwrap();
        until("locks are served there", async || at.list_json(LOCKS).await.map_err(|error| error.to_string())).await;
    }

    /// Exports a kind from this workspace.
    async fn export_disks(&self, workspace: &str) {
        let schema = json!({"type": "object"});
        let schema = json!({
            "apiVersion": "apis.kcp.io/v1alpha1",
            "kind": "APIResourceSchema",
            "metadata": {"name": "v1.disks.network.example.com"},
            "spec": {
                "group": "network.example.com",
                "names": {"kind": "Disk", "listKind": "DiskList", "plural": "disks", "singular": "disk"},
                "scope": "Namespaced",
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        });
        let resource = json!({
            "group": "network.example.com", "name": "disks", "schema": "v1.disks.network.example.com",
            "storage": {"crd": {}},
        });
        let export = json!({
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIExport",
            "metadata": {"name": "network.example.com"},
            "spec": {"resources": [resource]},
        });
        self.at(workspace).post_json(SCHEMAS, &schema).await.unwrap();
        self.at(workspace).post_json(EXPORTS, &export).await.unwrap();
    }

    async fn bind_disks(&self, workspace: &str, of: &str) {
        let binding = json!({
            "apiVersion": "apis.kcp.io/v1alpha2",
            "kind": "APIBinding",
            "metadata": {"name": "disks"},
            "spec": {"reference": {"export": {"path": of, "name": "network.example.com"}}},
        });
        self.at(workspace).post_json(BINDINGS, &binding).await.unwrap();
        let disks = "/apis/network.example.com/v1/namespaces/default/disks";
        let at = self.at(workspace);
        until("disks are served there", async || at.list_json(disks).await.map_err(|error| error.to_string())).await;
    }
}

#[tokio::test]
async fn a_lock_across_scopes_is_not_programmed_until_it_is_mended() {
    let bed = Bed::kubernetes().await;
    bed.define_locks().await;
    let controller = Controller::start(bed.config_of_locks().await).await.unwrap();
    let namespaces = |more: &Value| {
        let mut target = json!({"resource": "namespaces"});
        target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([target])
    };
    let (maps, there) = (config_map("a"), json!([{"resource": "configmaps", "name": "a", "namespace": "default"}]));
    let (name, labels) = (json!({"name": "a"}), json!({"selector": {"matchLabels": {"keep": "yes"}}}));
    for (number, inert, mended) in [
        (1, (LOCKS, namespaces(&name)), (CLUSTER_LOCKS, namespaces(&name))),
        (2, (LOCKS, namespaces(&labels)), (CLUSTER_LOCKS, namespaces(&labels))),
        (3, (CLUSTER_LOCKS, maps), (CLUSTER_LOCKS, there)),
        (
            4,
            (CLUSTER_LOCKS, namespaces(&json!({"name": "a", "namespace": "default"}))),
            (CLUSTER_LOCKS, namespaces(&name)),
        ),
    ] {
        for ((path, targets), word, expected) in
            [(inert, "inert", "False WrongScope"), (mended, "mended", "True Programmed")]
        {
            let name = format!("{word}-{number}");
            bed.lock_at(path, "", &name, &targets).await;
            bed.until_lock_at(path, "", &name, "Programmed", expected).await;
        }
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_lock_of_what_nobody_is_asked_about_says_that_it_holds_nothing() {
    let bed = Bed::kubernetes().await;
    bed.define_locks().await;
    let controller = Controller::start(bed.config_of_locks().await).await.unwrap();
    let webhooks =
        json!({"group": "admissionregistration.k8s.io", "resource": "validatingwebhookconfigurations", "name": "a"});
    bed.lock_at(CLUSTER_LOCKS, "", "l", &json!([webhooks])).await;
    let said = bed.until_lock_at(CLUSTER_LOCKS, "", "l", "Programmed", "False NotPossible").await;
    assert!(said.contains("API servers ask no webhook about them"), "{said}");
    controller.stop().await;
}
