//! Tests of a plain Kubernetes: CRDs, and webhooks of its one cluster.

use depguard_testbed::Options;
use serde_json::{Value, json};

use crate::bed::{Bed, becomes, condition, gone};
use crate::fixtures::{CONFIGURATIONS, CRDS, names, version};
use crate::hook::{Hook, deletes};

pub(crate) const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

/// Returns `gadgets.example.com`, served as `v1` and `v1beta1`, selectable by `spec.owner`.
pub(crate) fn gadgets() -> Value {
    let mut served = version("v1", true);
    served["schema"] = json!({"openAPIV3Schema": served["schema"]});
    served["selectableFields"] = json!([{"jsonPath": ".spec.owner"}]);
    let mut older = served.clone();
    older["name"] = json!("v1beta1");
    older["storage"] = json!(false);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "names": names("Gadget", "gadgets"), "scope": "Namespaced",
            "versions": [served, older],
        },
    })
}

pub(crate) fn gadget(name: &str, owner: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"owner": owner}})
}

impl Bed {
    /// Returns a plain Kubernetes with gadgets.
    pub(crate) async fn with_gadgets() -> Self {
        let bed = Self::kubernetes().await;
        bed.admin.create(CRDS, &gadgets()).await.ok();
        becomes(&bed.admin, &format!("{CRDS}/gadgets.example.com"), |found| {
            condition(found, "Established").is_some_and(|condition| condition["status"] == "True")
        })
        .await;
        bed
    }
}

#[tokio::test]
async fn a_custom_resource_is_the_same_in_every_served_version() {
    let bed = Bed::with_gadgets().await;
    bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let older = bed.admin.get("/apis/example.com/v1beta1/namespaces/default/gadgets/a").await.ok();
    assert_eq!(older["apiVersion"], "example.com/v1beta1");
    assert_eq!(older["spec"], json!({"owner": "x"}));
    assert_eq!(older["metadata"]["annotations"], json!(null), "nothing of kcp in a plain cluster");
    bed.admin.delete(&format!("{CRDS}/gadgets.example.com")).await.ok();
    gone(&bed.admin, &format!("{CRDS}/gadgets.example.com")).await;
    let missing = bed.admin.get(GADGETS).await;
    assert_eq!((missing.code, missing.text.as_str()), (404, "404 page not found\n"));
    bed.testbed.stop().await;
}

#[tokio::test]
async fn a_service_is_called_where_the_options_say_and_else_refuses() {
    let hook = Hook::denying().await;
    let bed = Bed::start(Options::kubernetes().service("default", "hook", hook.server.address())).await;
    bed.admin.create(CRDS, &gadgets()).await.ok();
    bed.admin.create(GADGETS, &gadget("a", "x")).await.ok();
    let mut configuration = hook.configuration(&deletes("example.com", "gadgets"));
    let config = &mut configuration["webhooks"][0]["clientConfig"];
    *config = json!({
        "caBundle": config["caBundle"],
        "service": {"namespace": "default", "name": "hook", "port": 8443, "path": "/validate"},
    });
    bed.admin.apply(&format!("{CONFIGURATIONS}/guard"), "test", &configuration).await.ok();
    let denied = bed.admin.delete(&format!("{GADGETS}/a")).await;
    assert_eq!((denied.code, denied.message().contains("still referenced")), (403, true), "{}", denied.body);

    configuration["webhooks"][0]["clientConfig"]["service"]["name"] = json!("other");
    bed.admin.apply(&format!("{CONFIGURATIONS}/guard"), "test", &configuration).await.ok();
    let refused = bed.admin.delete(&format!("{GADGETS}/a")).await;
    assert_eq!((refused.code, refused.message().contains("failed calling webhook")), (500, true));
    bed.testbed.stop().await;
}
