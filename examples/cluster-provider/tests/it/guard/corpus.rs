//! Tests of the same deletions with both webhooks.

use std::collections::BTreeMap;

use depguard_e2e::{Outcome, Reply, eventually};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bench::Bench;

/// Case of the corpus; see the file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    objects: Vec<Thing>,
    delete: Deletion,
    refused: String,
    /// JSON pointers into the case, and the values that the twin has there.
    twin: BTreeMap<String, Value>,
}

/// Object without the fields that all objects of its kind need.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Thing {
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
    /// Set if the object is being deleted, and a finalizer holds it.
    #[serde(default)]
    is_going: bool,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Deletion {
    kind: String,
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    by: By,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum By {
    #[default]
    Admin,
    Scheduler,
    Tenant,
}

#[tokio::test(flavor = "multi_thread")]
async fn both_webhooks_decide_alike() {
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("corpus.yaml")).unwrap();
    let (provider, stock) = tokio::try_join!(Bench::provider(), Bench::stock()).unwrap();
    for case in &cases {
        let (ours, theirs) = tokio::try_join!(refused(&provider, case), refused(&stock, case)).unwrap();
        // Beside the message, the refusal has a cause for each referrer.
        assert_eq!(ours["details"], theirs["details"], "{}", case.case);
        assert!(ours["details"]["causes"].as_array().is_some_and(|causes| !causes.is_empty()), "{}", case.case);
        let twin = case.twin();
        tokio::try_join!(allowed(&provider, &twin), allowed(&stock, &twin)).unwrap();
    }
    tokio::try_join!(provider.end(), stock.end()).unwrap();
}

/// Returns the answer to a deletion that must be refused.
async fn refused(bench: &Bench, case: &Case) -> Outcome<Value> {
    case.set_up(bench).await?;
    let expected = format!("admission webhook \"{}\" denied the request: {}", bench.webhook, case.refused);
    // The webhook is not there at first, so the deletion is repeated.
    let reply = eventually(&case.case, bench.patience(), async || {
        let reply = case.delete.try_on(bench).await?;
        if reply.status == 403 && reply.message() == expected { Ok(reply) } else { Err(reply.unexpected(&expected)) }
    });
    let reply = reply.await?;
    case.clear_up(bench).await?;
    Ok(reply.body)
}

async fn allowed(bench: &Bench, case: &Case) -> Outcome {
    case.set_up(bench).await?;
    case.delete.try_on(bench).await?.ok()?;
    case.clear_up(bench).await
}

impl Case {
    fn twin(&self) -> Self {
        let mut twin = json!(self);
        for (pointer, value) in &self.twin {
            let place = twin.pointer_mut(pointer).unwrap_or_else(|| panic!("{}: nothing at {pointer}", self.case));
            assert_ne!(place, value, "{}: the twin is the same", self.case);
            *place = value.clone();
        }
        assert_eq!(self.twin.len(), 1, "{}: the twin is one edit away", self.case);
        serde_json::from_value(twin).unwrap()
    }

    async fn set_up(&self, bench: &Bench) -> Outcome {
        for object in &self.objects {
            object.make(bench).await?;
        }
        Ok(())
    }

    /// Deletes the objects in an order in which nothing refers to the deleted one. That this is allowed is part of the
    /// case.
    async fn clear_up(&self, bench: &Bench) -> Outcome {
        for object in self.objects.iter().rev() {
            let path = path(&object.kind, &object.namespace, &object.name);
            if object.is_going {
                bench.admin.merge(&path, &json!({"metadata": {"finalizers": null}})).await?.ok()?;
            } else {
                bench.admin.delete(&path).await?.ok()?;
            }
        }
        Ok(())
    }
}

impl Thing {
    async fn make(&self, bench: &Bench) -> Outcome {
        let mut object = json!({
            "apiVersion": "clusters.openmcp.cloud/v1alpha1",
            "kind": self.kind,
            "metadata": {"name": self.name, "annotations": self.annotations},
            "spec": least(&self.kind),
        });
        if !self.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        if self.is_going {
            object["metadata"]["finalizers"] = json!(["example.com/held"]);
        }
        lay(&mut object["spec"], &self.spec);
        let collection = path(&self.kind, &self.namespace, "");
        let made = eventually("the kind is served", bench.patience(), async || {
            bench.admin.post(&collection, &object).await?.ok()
        });
        made.await?;
        let path = path(&self.kind, &self.namespace, &self.name);
        if !self.status.is_null() {
            let mut status = json!({"observedGeneration": 1, "phase": "Pending"});
            lay(&mut status, &self.status);
            bench.admin.merge(&format!("{path}/status"), &json!({"status": status})).await?.ok()?;
        }
        if self.is_going {
            bench.admin.delete(&path).await?.ok()?;
        }
        Ok(())
    }
}

impl Deletion {
    /// Tries the deletion as a dry run, which is decided like a real one.
    async fn try_on(&self, bench: &Bench) -> Outcome<Reply> {
        let api = match self.by {
            By::Admin => &bench.admin,
            By::Scheduler => &bench.scheduler,
            By::Tenant => &bench.tenant,
        };
        api.dry_run_delete(&path(&self.kind, &self.namespace, &self.name)).await
    }
}

/// Returns the fields that every object of a kind needs.
fn least(kind: &str) -> Value {
    match kind {
        "ClusterProfile" => {
            json!({"providerRef": {"name": "p"}, "providerConfigRef": {"name": "p"}, "supportedVersions": []})
        }
        "Cluster" => json!({"profile": "none", "tenancy": "Exclusive"}),
        "ClusterRequest" => json!({"purpose": "test"}),
        "AccessRequest" => json!({"token": {}}),
        other => panic!("{other} is none of the contract's kinds"),
    }
}

fn path(kind: &str, namespace: &str, name: &str) -> String {
    let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let path = format!("/apis/clusters.openmcp.cloud/v1alpha1{place}/{}s/{name}", kind.to_lowercase());
    path.trim_end_matches('/').to_owned()
}

/// Puts fields over the existing ones.
fn lay(below: &mut Value, above: &Value) {
    for (field, value) in above.as_object().into_iter().flatten() {
        below[field] = value.clone();
    }
}
