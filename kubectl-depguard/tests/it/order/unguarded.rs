//! Machines on networks on networks, without depguard's webhook: whatever the command deletes is gone.

use serde_json::{Value, json};

use crate::bed::{eventually, exists};
use crate::references::scene::{RULES, Scene, define, post};
use crate::tool::Ran;

pub(crate) const VPCS: &str = "/apis/network.example.com/v1/namespaces/red/vpcs";
pub(crate) const VMS: &str = "/apis/compute.example.com/v1/namespaces/red/virtualmachines";
pub(crate) const BACKUPS: &str = "/apis/backup.example.com/v1/namespaces/red/backups";

/// Scene with the machines `red/m1` and `blue/m2` on the network `red/a`, which is on `red/base`; the machine `red/m3`
/// is on `red/free`, and `red/b1` is a backup of `red/a`, though no rule says so. `m1` has a finalizer.
pub(crate) struct Unguarded {
    pub(crate) scene: Scene,
}

impl Unguarded {
    pub(crate) async fn set() -> Self {
        let scene = Scene::kubernetes().await;
        define(scene.objects(), "backup.example.com", "v1", "backups", "Backup", "Namespaced").await;
        let stage = Self { scene };
        stage.add_rule("networks", &network_rule()).await;
        for name in ["base", "free"] {
            stage.scene.vpc("red", name).await;
        }
        stage.create(VPCS, &vpc("a", &json!({"base": "base"}))).await;
        let mut held = vm("m1", "a");
        held["metadata"]["finalizers"] = json!(["example.com/detach"]);
        stage.create(VMS, &held).await;
        stage.scene.vm("blue", "m2", &["red/a"]).await;
        stage.create(VMS, &vm("m3", "free")).await;
        stage.create(BACKUPS, &backup("b1", "a")).await;
        stage
    }

    pub(crate) async fn order(&self, more: &[&str]) -> Ran {
        self.scene.run(&[&["order"], more].concat()).await
    }

    /// Deletes the network `base` with all that depends on it, without a question.
    pub(crate) async fn delete_base(&self, more: &[&str]) -> Ran {
        self.order(&[&["vpc", "base", "-n", "red", "--delete", "--yes"], more].concat()).await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) {
        post(self.scene.objects(), path, object).await;
    }

    pub(crate) async fn add_rule(&self, name: &str, spec: &Value) {
        let rule = json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
            "metadata": {"name": name}, "spec": spec,
        });
        self.create(RULES, &rule).await;
    }

    pub(crate) async fn patch(&self, path: &str, operations: &Value) {
        self.scene.objects().json_patch(path, operations).await.unwrap();
    }

    /// Takes away the finalizer of `m1`.
    pub(crate) async fn release(&self) {
        let operations = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
        self.patch(&format!("{VMS}/m1"), &operations).await;
    }

    /// Waits until `m1` is being deleted.
    pub(crate) async fn until_going(&self) {
        eventually("m1 is being deleted", async || {
            let found = exists(self.scene.objects(), &format!("{VMS}/m1")).await.ok_or("m1 is gone")?;
            if found["metadata"]["deletionTimestamp"].is_string() { Ok(()) } else { Err("nobody has deleted m1") }
        })
        .await;
    }

    pub(crate) async fn until_gone(&self, path: &str) {
        eventually(path, async || match exists(self.scene.objects(), path).await {
            None => Ok(()),
            Some(found) => Err(found),
        })
        .await;
    }

    /// Checks that exactly these objects exist, and that nobody has deleted them. Faults on lists with a query don't hit
    /// this.
    pub(crate) async fn there_are(&self, expected: &[&str]) {
        let machines = "/apis/compute.example.com/v1/virtualmachines";
        let mut names = Vec::new();
        for path in ["/apis/network.example.com/v1/vpcs", machines, "/apis/backup.example.com/v1/backups"] {
            let list = self.scene.objects().get_json(path).await.unwrap();
            for object in list["items"].as_array().unwrap() {
                let going = if object["metadata"]["deletionTimestamp"].is_string() { " (going)" } else { "" };
                names.push(format!("{}{going}", object["metadata"]["name"].as_str().unwrap()));
            }
        }
        names.sort();
        assert_eq!(names, expected);
    }
}

pub(crate) fn vpc(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {"name": name}, "spec": spec})
}

pub(crate) fn vm(name: &str, vpc: &str) -> Value {
    let spec = json!({"networks": [{"vpc": vpc}]});
    json!({"apiVersion": "compute.example.com/v1", "kind": "VirtualMachine", "metadata": {"name": name}, "spec": spec})
}

fn backup(name: &str, vpc: &str) -> Value {
    let spec = json!({"vpc": vpc});
    json!({"apiVersion": "backup.example.com/v1", "kind": "Backup", "metadata": {"name": name}, "spec": spec})
}

fn network_rule() -> Value {
    json!({
        "dependent": {"group": "network.example.com", "version": "v1", "kind": "VPC", "resource": "vpcs"},
        "dependencies": [
            {"group": "network.example.com", "version": "v1", "resource": "vpcs", "fieldRef": {"path": ".spec.base"}},
        ],
    })
}

/// Builds the spec of a rule by which backups refer to networks.
pub(crate) fn backup_rule(on_delete: &str) -> Value {
    let target = json!({
        "group": "network.example.com", "version": "v1", "resource": "vpcs", "onDelete": on_delete,
        "fieldRef": {"path": ".spec.vpc"},
    });
    json!({
        "dependent": {"group": "backup.example.com", "version": "v1", "kind": "Backup", "resource": "backups"},
        "dependencies": [target],
    })
}
