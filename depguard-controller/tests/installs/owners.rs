//! GlobalOwners: objects that they adopt, that they release, and that they leave alone.

use std::collections::BTreeSet;

use depguard_controller::{Config, Controller, WebhookTarget, manifests};
use depguard_kcp::{Feature, Features, Preconditions};
use depguard_testbed::{Fault, When};
use serde_json::{Value, json};

use crate::bed::{Bed, until};
use crate::hook;
use crate::removal::uninstalled;

#[cfg(feature = "bin")]
mod log;

const GLOBAL: &str = "/apis/globalowner.metacontroller.io/v1alpha1/globalowners";
const GROUPS: &str = "/apis/globalowner.metacontroller.io/v1alpha1/groupowners";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const GUARD: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/depguard-owners";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Starts a cluster with the kinds of owners, and a controller for them.
async fn start() -> (Bed, Controller) {
    let (bed, config) = prepare().await;
    let controller = Controller::start(config).await.unwrap();
    (bed, controller)
}

/// Starts the same cluster, and returns the controller's settings.
async fn prepare() -> (Bed, Config) {
    let bed = Bed::kubernetes().await;
    for crd in manifests::owner_crds() {
        bed.at("").post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.unwrap();
    }
    until("GlobalOwners are served", async || {
        let (global, groups) = (bed.at("").list_json(GLOBAL).await, bed.at("").list_json(GROUPS).await);
        global.and(groups).map(drop).map_err(|error| error.to_string())
    })
    .await;
    let (url, bundle) = hook::allowing(&bed.folder).await;
    let mut config = bed.config();
    config.enable = Features::new([Feature::Owners], []);
    config.webhook = WebhookTarget::Url(url);
    config.ca_bundle_path = Some(bundle);
    (bed, config)
}

fn config_map(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}})
}

/// Makes a ConfigMap and a Secret of this name, which are to be adopted.
async fn create_both(bed: &Bed, name: &str) {
    let adopt = json!({"adopt": "true"});
    bed.at("").post_json(CONFIG_MAPS, &config_map(name, &adopt)).await.unwrap();
    let mut secret = config_map(name, &adopt);
    secret["kind"] = json!("Secret");
    bed.at("").post_json(SECRETS, &secret).await.unwrap();
}

fn global_owner(children: &Value) -> Value {
    json!({
        "apiVersion": "globalowner.metacontroller.io/v1alpha1",
        "kind": "GlobalOwner",
        "metadata": {"name": "global-owner"},
        "spec": {"selector": {"matchExpressions": [{"key": "adopt", "operator": "Exists"}]}, "childResources": children},
    })
}

/// Returns the names of the owners of an object.
async fn owners(bed: &Bed, path: &str) -> BTreeSet<String> {
    let object = bed.at("").get_json(path).await.unwrap();
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default();
    owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect()
}

async fn until_owners(bed: &Bed, path: &str, fit: impl Fn(&BTreeSet<String>) -> bool) -> BTreeSet<String> {
    until(&format!("{path} has the right owners"), async || {
        let owners = owners(bed, path).await;
        if fit(&owners) { Ok(owners) } else { Err(format!("{owners:?}")) }
    })
    .await
}

/// Waits until a condition of the GlobalOwner has this status and reason. Returns its message.
async fn until_said(bed: &Bed, type_: &str, expected: &str) -> String {
    until(&format!("{type_} is {expected}"), async || {
        let object = bed.at("").get_json(&format!("{GLOBAL}/global-owner")).await.unwrap();
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == type_);
        let found = found.ok_or_else(|| format!("no such condition: {}", object["status"]))?;
        let said = format!("{} {}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap());
        let message = found["message"].as_str().unwrap().to_owned();
        let is_new = found["observedGeneration"] == object["metadata"]["generation"];
        if said == expected && is_new { Ok(message) } else { Err(format!("{said}: {message}")) }
    })
    .await
}

/// Makes a GlobalOwner of ConfigMaps, and one ConfigMap that it owns. Returns the name of its GroupOwner.
async fn own_one(bed: &Bed) -> String {
    bed.at("").post_json(CONFIG_MAPS, &config_map("a", &json!({"adopt": "true"}))).await.unwrap();
    let owner = global_owner(&json!([{"apiVersion": "v1", "resource": "configmaps"}]));
    bed.at("").post_json(GLOBAL, &owner).await.unwrap();
    until_said(bed, "Ready", "True Ready").await;
    owners(bed, &format!("{CONFIG_MAPS}/a")).await.pop_first().unwrap()
}

/// Waits until a GroupOwner and its role are gone.
async fn until_dismissed(bed: &Bed, group: &str) {
    until("its GroupOwner and its role are gone", async || {
        let roles = bed.at("").get_json(&format!("{ROLES}/{group}")).await;
        let groups = bed.at("").get_json(&format!("{GROUPS}/{group}")).await;
        if roles.is_err() && groups.is_err() { Ok(()) } else { Err(format!("{roles:?} {groups:?}")) }
    })
    .await;
}

#[tokio::test]
async fn the_older_tools_example_is_adopted_and_released_with_its_label() {
    let (bed, controller) = start().await;
    create_both(&bed, "test").await;
    let owner = global_owner(&json!([
        {"apiVersion": "v1", "resource": "secrets", "namespace": "default", "names": ["test"]},
        {"apiVersion": "v1", "resource": "configmaps"},
    ]));
    bed.at("").post_json(GLOBAL, &owner).await.unwrap();

    let (config_map_path, secret_path) = (format!("{CONFIG_MAPS}/test"), format!("{SECRETS}/test"));
    let of_config_map = until_owners(&bed, &config_map_path, |owners| owners.len() == 1).await.pop_first().unwrap();
    let of_secret = until_owners(&bed, &secret_path, |owners| owners.len() == 1).await.pop_first().unwrap();
    assert_ne!(of_config_map, of_secret);
    assert_eq!(until_said(&bed, "Ready", "True Ready").await, "2 objects in 2 groups are owned");
    let global = bed.at("").get_json(&format!("{GLOBAL}/global-owner")).await.unwrap();
    assert_eq!(global["status"]["observedGeneration"], 1);
    assert_eq!(global["metadata"]["finalizers"], json!(["dependencies.opendefense.cloud/teardown"]));
    let group = bed.at("").get_json(&format!("{GROUPS}/{of_secret}")).await.unwrap();
    assert_eq!(
        group["status"]["ownedResources"],
        json!([{"apiVersion": "v1", "kind": "Secret", "namespace": "default", "name": "test"}])
    );
    assert_eq!(group["metadata"]["ownerReferences"][0]["uid"], global["metadata"]["uid"]);
    let reference = &bed.at("").get_json(&secret_path).await.unwrap()["metadata"]["ownerReferences"][0];
    assert_eq!(reference["uid"], group["metadata"]["uid"]);
    assert_eq!((&reference["controller"], &reference["blockOwnerDeletion"]), (&json!(false), &json!(false)));

    // No object was adopted before the GlobalOwner's deletion was guarded, and the guard stays.
    let guard = bed.at("").get_json(GUARD).await.unwrap();
    assert_eq!(guard["webhooks"][0]["rules"][0]["resources"], json!(["globalowners", "groupowners"]));
    bed.edit("", GUARD, |guard| guard["webhooks"][0]["failurePolicy"] = json!("Ignore")).await;

    // A new object is adopted, and one without the label is released.
    bed.at("").post_json(CONFIG_MAPS, &config_map("later", &json!({"adopt": "true"}))).await.unwrap();
    until_owners(&bed, &format!("{CONFIG_MAPS}/later"), |owners| owners.contains(&of_config_map)).await;
    bed.edit("", &config_map_path, |object| object["metadata"]["labels"] = json!({})).await;
    until_owners(&bed, &config_map_path, BTreeSet::is_empty).await;
    until("the status says so", async || {
        let group = bed.at("").get_json(&format!("{GROUPS}/{of_config_map}")).await.unwrap();
        let said = group["status"]["ownedResources"].clone();
        if said[0]["name"] == "later" && said[1].is_null() { Ok(()) } else { Err(said.to_string()) }
    })
    .await;
    until("the guard is put right", async || {
        let guard = bed.at("").get_json(GUARD).await.unwrap();
        if guard["webhooks"][0]["failurePolicy"] == "Fail" { Ok(()) } else { Err(guard.to_string()) }
    })
    .await;
    controller.stop().await;
}

#[tokio::test]
async fn nothing_is_taken_from_another_controller_nor_against_an_opt_out() {
    let (bed, controller) = start().await;
    let other = bed.at("").post_json(CONFIG_MAPS, &config_map("other", &json!({}))).await.unwrap();
    let reference = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other["metadata"]["uid"], "controller": true,
    }]);
    let adopt = json!({"adopt": "true"});
    let mut controlled = config_map("controlled", &adopt);
    controlled["metadata"]["ownerReferences"] = reference.clone();
    let mut out = config_map("out", &adopt);
    out["metadata"]["annotations"] = json!({"dependencies.opendefense.cloud/adopt": "false"});
    for object in [controlled, out, config_map("free", &adopt)] {
        bed.at("").post_json(CONFIG_MAPS, &object).await.unwrap();
    }
    let mut owner = global_owner(&json!([{"apiVersion": "v1", "resource": "configmaps"}]));
    owner["spec"]["childResources"][0]["resource"] = json!("nothings");
    bed.at("").post_json(GLOBAL, &owner).await.unwrap();
    let said = until_said(&bed, "Adopted", "False NotListed").await;
    assert!(said.contains("the API server does not serve nothings v1"), "{said}");
    bed.edit("", &format!("{GLOBAL}/global-owner"), |owner| {
        owner["spec"]["childResources"][0]["resource"] = json!("configmaps");
    })
    .await;

    until_owners(&bed, &format!("{CONFIG_MAPS}/free"), |owners| owners.len() == 1).await;
    let said = until_said(&bed, "Adopted", "False NotAdopted").await;
    assert_eq!(said, "ConfigMap default/controlled is controlled by ConfigMap other");
    assert_eq!(owners(&bed, &format!("{CONFIG_MAPS}/controlled")).await, BTreeSet::from(["other".to_owned()]));
    assert!(owners(&bed, &format!("{CONFIG_MAPS}/out")).await.is_empty());

    // An owned object is released once its annotation says so.
    bed.edit("", &format!("{CONFIG_MAPS}/free"), |object| {
        object["metadata"]["annotations"] = json!({"dependencies.opendefense.cloud/adopt": "false"});
    })
    .await;
    until_owners(&bed, &format!("{CONFIG_MAPS}/free"), BTreeSet::is_empty).await;

    bed.edit("", &format!("{GLOBAL}/global-owner"), |owner| {
        owner["spec"].as_object_mut().unwrap().remove("selector");
    })
    .await;
    let said = until_said(&bed, "Accepted", "False Invalid").await;
    assert!(said.contains("spec.childResources[0]: has no selector, names or namespace"), "{said}");
    controller.stop().await;
}

#[tokio::test]
async fn nobody_elses_reference_is_lost_while_others_write() {
    const OBJECTS: usize = 20;
    const OTHERS: usize = 6;
    let (bed, controller) = start().await;
    let mut others = Vec::new();
    for index in 0..OTHERS {
        let other = config_map(&format!("other-{index}"), &json!({}));
        others.push(bed.at("").post_json(CONFIG_MAPS, &other).await.unwrap()["metadata"]["uid"].clone());
    }
    let owner = global_owner(&json!([{"apiVersion": "v1", "resource": "configmaps"}]));
    bed.at("").post_json(GLOBAL, &owner).await.unwrap();
    for index in 0..OBJECTS {
        bed.at("").post_json(CONFIG_MAPS, &config_map(&format!("a-{index}"), &json!({"adopt": ""}))).await.unwrap();
    }
    for (other, uid) in others.iter().enumerate() {
        for index in 0..OBJECTS {
            bed.edit("", &format!("{CONFIG_MAPS}/a-{index}"), |object| {
                let reference =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("other-{other}"), "uid": uid});
                let metadata = object["metadata"].as_object_mut().unwrap();
                let owners = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
                owners.as_array_mut().unwrap().push(reference);
            })
            .await;
        }
    }
    for index in 0..OBJECTS {
        let path = format!("{CONFIG_MAPS}/a-{index}");
        let found = until_owners(&bed, &path, |owners| owners.len() > OTHERS).await;
        assert_eq!(found.iter().filter(|name| name.starts_with("other-")).count(), OTHERS);
    }
    controller.stop().await;
}

#[tokio::test]
async fn a_group_that_is_taken_out_leaves_its_objects_and_nothing_else() {
    let (bed, controller) = start().await;
    create_both(&bed, "a").await;
    let both = json!([{"apiVersion": "v1", "resource": "configmaps"}, {"apiVersion": "v1", "resource": "secrets"}]);
    bed.at("").post_json(GLOBAL, &global_owner(&both)).await.unwrap();
    until_said(&bed, "Ready", "True Ready").await;
    let group = owners(&bed, &format!("{CONFIG_MAPS}/a")).await.pop_first().unwrap();
    let role = bed.at("").get_json(&format!("{ROLES}/{group}")).await.unwrap();
    assert_eq!(role["metadata"]["labels"][manifests::AGGREGATE_TO_OWNERS], "true");
    let allowed = json!([{
        "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch", "delete"],
    }]);
    assert_eq!(role["rules"], allowed);

    bed.edit("", &format!("{GLOBAL}/global-owner"), |owner| {
        owner["spec"]["childResources"].as_array_mut().unwrap().remove(0);
    })
    .await;
    until_owners(&bed, &format!("{CONFIG_MAPS}/a"), BTreeSet::is_empty).await;
    until_dismissed(&bed, &group).await;
    assert_eq!(until_said(&bed, "Ready", "True Ready").await, "1 objects in 1 groups are owned");
    assert!(owners(&bed, &format!("{CONFIG_MAPS}/a")).await.is_empty());
    let left = owners(&bed, &format!("{SECRETS}/a")).await.pop_first().unwrap();
    assert!(bed.at("").get_json(&format!("{ROLES}/{left}")).await.is_ok());
    controller.stop().await;
}

#[tokio::test]
async fn what_a_global_owner_owned_stays_when_its_finalizer_is_taken_off_by_hand() {
    let (bed, config) = prepare().await;
    let controller = Controller::start(config.clone()).await.unwrap();
    let group = own_one(&bed).await;
    controller.stop().await;

    bed.at("").delete(&format!("{GLOBAL}/global-owner"), Preconditions::default()).await.unwrap();
    bed.edit("", &format!("{GLOBAL}/global-owner"), |owner| owner["metadata"]["finalizers"] = json!([])).await;
    until("it is gone", async || match bed.at("").get_json(&format!("{GLOBAL}/global-owner")).await {
        Err(error) if error.is_not_found() => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await;
    let controller = Controller::start(config).await.unwrap();
    until_dismissed(&bed, &group).await;
    assert!(owners(&bed, &format!("{CONFIG_MAPS}/a")).await.is_empty());
    controller.stop().await;
}

#[tokio::test]
async fn what_guards_owners_stays_where_nobody_knows_what_they_own() {
    let (bed, controller) = start().await;
    bed.own_namespace("").await;
    let group = own_one(&bed).await;
    controller.stop().await;

    bed.edit("", &format!("{GROUPS}/{group}/status"), |group| group["status"]["phase"] = json!("Released")).await;
    bed.testbed.faults().inject(Fault::InternalError, When::always().method("GET").path("groupowners"));
    let error = uninstalled(&bed, 60).await.unwrap_err().to_string();
    assert!(error.contains("could not find out whether GroupOwners own objects"), "{error}");
    bed.at("").get_json(GUARD).await.unwrap();
}

#[tokio::test]
async fn what_guards_owners_is_uninstalled_only_where_they_own_nothing() {
    let (bed, controller) = start().await;
    bed.own_namespace("").await;
    let group = own_one(&bed).await;
    controller.stop().await;

    let error = uninstalled(&bed, 60).await.unwrap_err().to_string();
    assert!(error.contains("only ValidatingWebhookConfiguration depguard-owners is left in the cluster"), "{error}");
    assert!(error.contains(&format!("({group}) at once: delete the GlobalOwners first, or release")), "{error}");
    bed.edit("", &format!("{GROUPS}/{group}/status"), |group| group["status"]["phase"] = json!("Released")).await;
    let done = uninstalled(&bed, 60).await.unwrap();
    assert!(done.to_string().contains("removed ValidatingWebhookConfiguration depguard-owners"), "{done}");
    assert!(bed.at("").get_json(GUARD).await.unwrap_err().is_not_found());
}
