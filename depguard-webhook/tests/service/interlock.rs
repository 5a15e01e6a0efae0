//! Interlock: marks are recorded before the reads that count, and only an allowed review leaves any.

use std::time::Duration;

use depguard_core::OverridePolicy;
use depguard_core::interlock::{Buckets, Register};
use depguard_core::probe::{Loaded, LoadedRulesRequest};
use depguard_core::rule::RuleKey;
use depguard_webhook::{Fetched, ReviewService};
use futures::future::join_all;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::cluster::Cluster;
use crate::{allowed, answer, causes, loaded, post, post_bytes, put_off, refused, response, rule};

const REGISTER: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/referenceregisters/bucket-0-of-1";
const VPC: &str = "/apis/network.example.com/v1/namespaces/default/vpcs/a";
const VM: &str = "/apis/compute.example.com/v1/namespaces/default/virtualmachines/m1";

/// Returns a rule that refuses both references to missing VPCs and deletions of referenced ones.
fn denying() -> Value {
    let mut rule = rule();
    rule["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
    rule
}

fn register(uid: &str, open_for: &str) -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "ReferenceRegister",
        "metadata": {"name": "bucket-0-of-1", "uid": uid, "resourceVersion": "1"}, "spec": {"openFor": open_for},
    })
}

fn object(name: &str, uid: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": "7"}})
}

fn vm(uid: &str, vpc: &str) -> Value {
    let mut vm = object("m1", uid);
    vm["spec"] = json!({"vpcRef": {"name": vpc}});
    vm
}

/// Returns a cluster with VPC `a` and an open register.
fn cluster() -> Cluster {
    let cluster = Cluster::default();
    cluster.put(REGISTER, Some(register("r", "r")));
    cluster.put(VPC, Some(object("a", "v")));
    cluster
}

fn service_by(cluster: &Cluster, rule: Value) -> ReviewService<Cluster> {
    let service = ReviewService::new(cluster.clone(), loaded(&[rule]), OverridePolicy::default());
    service.interlocking(Buckets::new(1).unwrap(), cluster.clone())
}

fn service(cluster: &Cluster) -> ReviewService<Cluster> {
    service_by(cluster, denying())
}

/// Returns the review of the deletion of VPC `a` as the cluster stores it.
fn deletion(cluster: &Cluster) -> Value {
    let mut review = crate::review();
    review["request"]["oldObject"] = cluster.object(VPC).unwrap();
    review
}

/// Returns the review of the creation of VM `m1` with this UID, which refers to VPC `a`.
fn creation(uid: &str) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "CREATE", "name": "m1", "namespace": "default",
        "resource": {"group": "compute.example.com", "version": "v1", "resource": "virtualmachines"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": vm(uid, "a"),
    }})
}

/// Returns the review of an update by which VM `m1` begins to refer to VPC `a`.
fn update(old: &Value) -> Value {
    let mut review = creation("m");
    review["request"]["operation"] = "UPDATE".into();
    review["request"]["oldObject"] = old.clone();
    review
}

async fn delete(cluster: &Cluster) -> Value {
    answer(service(cluster), post(&deletion(cluster))).await
}

async fn refer(cluster: &Cluster, review: &Value) -> Value {
    answer(service(cluster), post_bytes("/reference?timeout=10s", review.to_string())).await
}

/// Returns the numbers of flags and of intents in the register.
fn marks(cluster: &Cluster) -> (usize, usize) {
    let register = Register::parse(cluster.object(REGISTER).unwrap().to_string().as_bytes()).unwrap();
    let marks: Vec<_> = register.marks().map(|(_, marks)| (marks.flags.len(), marks.intents.len())).collect();
    (marks.iter().map(|of| of.0).sum(), marks.iter().map(|of| of.1).sum())
}

/// Returns the verbs and the last parts of the paths of all requests.
fn sent(cluster: &Cluster) -> Vec<String> {
    let short = |request: String| {
        let (verb, path) = request.split_once(' ').unwrap();
        format!("{verb} {}", path.split('?').next().unwrap().rsplit('/').next().unwrap())
    };
    cluster.sent().into_iter().map(short).collect()
}

const GET_REGISTER: &str = "GET bucket-0-of-1";
const PUT_REGISTER: &str = "PUT bucket-0-of-1";

#[tokio::test]
async fn a_reference_reads_its_target_after_its_intent_is_recorded() {
    let cluster = cluster();
    assert!(allowed(&refer(&cluster, &creation("m")).await));
    assert_eq!(sent(&cluster), [GET_REGISTER, PUT_REGISTER, "GET a"]);
    // One for a VPC in the namespace, and one for a kind without namespaces.
    assert_eq!(marks(&cluster), (0, 2));
}

#[tokio::test]
async fn a_deletion_lists_the_dependents_again_after_its_flag_is_recorded() {
    let cluster = cluster();
    assert!(allowed(&delete(&cluster).await));
    assert_eq!(sent(&cluster), ["GET virtualmachines", GET_REGISTER, PUT_REGISTER, "GET virtualmachines"]);
    assert_eq!(marks(&cluster), (1, 0));
}

#[tokio::test]
async fn a_dependent_that_is_stored_before_the_flag_is_found_by_the_second_list() {
    let cluster = cluster();
    cluster.put_after_write(REGISTER, VM, vm("m", "a"));
    assert_eq!(refused(&delete(&cluster).await), "cannot delete vpcs/a: still referenced by VirtualMachine/m1");
    assert_eq!(marks(&cluster), (0, 0), "who is refused leaves no mark");
}

#[tokio::test]
async fn a_target_that_is_gone_before_the_intent_is_recorded_is_found_missing() {
    let cluster = cluster();
    cluster.put(VPC, None);
    let answer = refer(&cluster, &creation("m")).await;
    assert_eq!(refused(&answer), "cannot create virtualmachines/m1: vpcs/a not found (.spec.vpcRef.name)");
    assert_eq!(sent(&cluster), [GET_REGISTER, PUT_REGISTER, "GET a", GET_REGISTER, PUT_REGISTER]);
    assert_eq!(marks(&cluster), (0, 0));
}

#[tokio::test]
async fn a_referenced_target_is_refused_without_a_mark() {
    let cluster = cluster();
    cluster.put(VM, Some(vm("m", "a")));
    assert!(refused(&delete(&cluster).await).contains("still referenced by VirtualMachine/m1"));
    assert_eq!(sent(&cluster), ["GET virtualmachines"]);
}

#[tokio::test]
async fn a_deletion_under_way_puts_a_reference_off_until_the_target_has_changed() {
    let cluster = cluster();
    assert!(allowed(&delete(&cluster).await));
    let answer = refer(&cluster, &creation("m")).await;
    assert!(put_off(&answer).contains("another request that may change the answer is under way"), "{answer}");
    assert_eq!((causes(&answer), marks(&cluster)), (vec!["Contended"], (1, 0)));
    // The deletion was not carried out: its object has changed since. It will be reviewed again.
    cluster.put(VPC, Some(object("a", "v")));
    assert!(allowed(&refer(&cluster, &creation("m")).await));
    assert_eq!(marks(&cluster), (1, 2), "the void flag is left to the controller");
}

#[tokio::test]
async fn a_target_that_was_deleted_and_made_anew_can_be_referred_to() {
    let cluster = cluster();
    assert!(allowed(&delete(&cluster).await));
    cluster.put(VPC, None);
    assert!(refused(&refer(&cluster, &creation("m")).await).contains("vpcs/a not found"));
    cluster.put(VPC, Some(object("a", "another")));
    assert!(allowed(&refer(&cluster, &creation("m")).await));
}

#[tokio::test]
async fn a_creation_under_way_puts_a_deletion_off_until_its_object_is_stored() {
    let cluster = cluster();
    assert!(allowed(&refer(&cluster, &creation("m")).await));
    assert!(put_off(&delete(&cluster).await).contains("another request that may change the answer is under way"));
    assert_eq!(marks(&cluster).0, 0);
    // The object of an earlier creation of the same name says nothing about this one.
    cluster.put(VM, Some(vm("earlier", "b")));
    assert_eq!(causes(&delete(&cluster).await), ["Contended"]);
    // The object was stored, and has changed since: the second list shows all that it refers to.
    cluster.put(VM, Some(vm("m", "b")));
    assert!(allowed(&delete(&cluster).await));
}

/// Tests that a target can be deleted at once after its dependent was created and deleted again.
#[tokio::test(start_paused = true)]
async fn the_marks_of_a_request_are_taken_down_once_it_is_stored() {
    for before in [None, Some(vm("m", "b"))] {
        let cluster = cluster();
        cluster.put(VM, before);
        let review = cluster.object(VM).map_or_else(|| creation("m"), |old| update(&old));
        assert!(allowed(&refer(&cluster, &review).await));
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(marks(&cluster), (0, 2), "the request may still be stored");
        cluster.put(VM, Some(vm("m", "a")));
        while marks(&cluster) != (0, 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        cluster.put(VM, None);
        assert!(allowed(&delete(&cluster).await));
    }
}

/// Returns the number of writes of the register since the last requests were looked at.
fn writes(cluster: &Cluster) -> usize {
    sent(cluster).iter().filter(|request| *request == PUT_REGISTER).count()
}

/// Tests that the removal of marks costs no write where others write the register, and is not lost if such a write fails.
#[tokio::test(start_paused = true)]
async fn the_marks_of_a_stored_request_are_taken_down_by_the_next_write() {
    for conflicts in [0, 16] {
        let cluster = cluster();
        let service = service(&cluster);
        let refer = async |uid: &str| {
            let review = creation(uid).to_string();
            answer(service.clone(), post_bytes("/reference?timeout=10s", review)).await
        };
        cluster.put(VM, Some(vm("m", "a")));
        assert!(allowed(&refer("m").await));
        while !sent(&cluster).contains(&"GET m1".to_owned()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(marks(&cluster), (0, 2));
        cluster.conflict(conflicts);
        let next = refer("n").await;
        match conflicts {
            0 => assert_eq!((allowed(&next), writes(&cluster), marks(&cluster)), (true, 1, (0, 2))),
            _ => assert_eq!((causes(&next), writes(&cluster), marks(&cluster)), (vec!["Contended"], 16, (0, 2))),
        }
        cluster.put(VM, Some(vm("n", "a")));
        while marks(&cluster) != (0, 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(writes(&cluster), 1);
    }
}

#[tokio::test]
async fn an_update_under_way_puts_a_deletion_off_until_its_object_has_changed() {
    let cluster = cluster();
    cluster.put(VM, Some(vm("m", "b")));
    let old = cluster.object(VM).unwrap();
    assert!(allowed(&refer(&cluster, &update(&old)).await));
    assert_eq!(causes(&delete(&cluster).await), ["Contended"]);
    cluster.put(VM, Some(vm("m", "c")));
    assert!(allowed(&delete(&cluster).await));
}

#[tokio::test]
async fn reviews_that_are_not_interlocked_write_nothing() {
    let cluster = cluster();
    let (mut dry_deletion, mut dry_creation) = (deletion(&cluster), creation("m"));
    dry_deletion["request"]["dryRun"] = true.into();
    dry_creation["request"]["dryRun"] = true.into();
    assert!(allowed(&answer(service(&cluster), post(&dry_deletion)).await));
    assert!(allowed(&refer(&cluster, &dry_creation).await));
    for (field, value) in [("onMissing", "Warn"), ("onDelete", "Warn"), ("failurePolicy", "Ignore")] {
        let mut rule = denying();
        let ignore = field == "failurePolicy";
        let place = if ignore { &mut rule["spec"] } else { &mut rule["spec"]["dependencies"][0] };
        place[field] = value.into();
        let (validate, reference) =
            if ignore { ("/validate/ignore", "/reference/ignore") } else { ("/validate", "/reference") };
        let service = service_by(&cluster, rule);
        assert!(allowed(&answer(service.clone(), post_bytes(validate, deletion(&cluster).to_string())).await));
        assert!(allowed(&answer(service, post_bytes(reference, creation("m").to_string())).await));
    }
    assert!(!sent(&cluster).iter().any(|request| request.contains("bucket")));
}

/// Tests all ways in which the register is of no use: nobody knows then what the other side does.
#[tokio::test]
async fn nothing_is_allowed_without_the_register() {
    let not_served = response(404, &json!({"message": "no such kind"}));
    let forbidden = response(403, &json!({"message": "user depguard cannot update"}));
    for (broken, register, said) in [
        (None, None, "found no such register; the controller makes one anew"),
        (None, Some(register("r", "another")), "another request that may change the answer is under way"),
        (None, Some(json!({"kind": "Other"})), "delete it, and depguard makes it anew"),
        (Some(("GET /apis/dependencies", not_served)), Some(register("r", "r")), "apply the manifests"),
        (Some(("PUT /apis/dependencies", forbidden)), Some(register("r", "r")), "get and update referenceregisters"),
        (Some(("PUT /apis/dependencies", response(500, &json!({})))), Some(register("r", "r")), "failed with HTTP 500"),
        (Some(("GET /apis/dependencies", Fetched::Failed("no route".into()))), Some(register("r", "r")), "no route"),
    ] {
        let cluster = cluster();
        cluster.put(REGISTER, register);
        if let Some((part, fetched)) = broken {
            cluster.break_at(part, fetched);
        }
        for answer in [delete(&cluster).await, refer(&cluster, &creation("m")).await] {
            let status = &answer["status"];
            assert!(status["message"].as_str().unwrap_or_default().contains(said), "{said}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_review_without_the_identity_of_its_objects_is_refused() {
    let cluster = cluster();
    let mut deletion = deletion(&cluster);
    deletion["request"]["oldObject"]["metadata"]["resourceVersion"].take();
    let answer = answer(service(&cluster), post(&deletion)).await;
    assert!(refused(&answer).contains("no valid uid or no valid resourceVersion"), "{answer}");
    let mut creation = creation("m");
    creation["request"]["object"]["metadata"]["uid"].take();
    assert!(refused(&refer(&cluster, &creation).await).contains("no valid uid"));
    assert_eq!(marks(&cluster), (0, 0));
}

#[tokio::test]
async fn an_override_raises_the_flag_and_is_not_refused_for_it() {
    let cluster = cluster();
    cluster.put(VM, Some(vm("m", "a")));
    let mut review = deletion(&cluster);
    review["request"]["oldObject"]["metadata"]["annotations"] =
        json!({"dependencies.opendefense.cloud/skip-protection": "true"});
    review["request"]["userInfo"]["groups"] = json!(["system:masters"]);
    assert!(allowed(&answer(service(&cluster), post(&review)).await));
    assert_eq!(marks(&cluster), (1, 0));
    cluster.put(REGISTER, None);
    assert!(allowed(&answer(service(&cluster), post(&review)).await));
}

/// Tests that one write records what several reviews note, and that others may write the register meanwhile.
#[tokio::test]
async fn creations_at_one_moment_share_writes() {
    let cluster = cluster();
    cluster.conflict(3);
    let service = service(&cluster);
    let reviews = (0..12).map(|number| {
        let review = creation(&format!("m{number}"));
        answer(service.clone(), post_bytes("/reference", review.to_string()))
    });
    assert!(join_all(reviews).await.iter().all(allowed));
    let writes = writes(&cluster);
    assert!(writes <= 5, "{writes}");
    assert_eq!(marks(&cluster), (0, 24));
}

/// Tests a review whose connection is gone after its mark was recorded.
#[tokio::test(start_paused = true)]
async fn a_mark_of_a_review_that_is_given_up_is_taken_down() {
    let cluster = cluster();
    cluster.slow(Duration::from_millis(10));
    let review = tokio::spawn(answer(service(&cluster), post(&deletion(&cluster))));
    while marks(&cluster) != (1, 0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    review.abort();
    assert!(review.await.unwrap_err().is_cancelled());
    while marks(&cluster) != (0, 0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Tests a write that is carried out, and whose answer is lost.
#[tokio::test(start_paused = true)]
async fn a_mark_whose_write_is_not_answered_in_time_is_taken_down() {
    let cluster = cluster();
    cluster.lose_answer();
    let answer = delete(&cluster).await;
    assert!(put_off(&answer).contains("were not answered in time"), "{answer}");
    assert_eq!(marks(&cluster), (1, 0));
    while marks(&cluster) != (0, 0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn the_controller_hears_the_number_of_registers() {
    let cluster = cluster();
    let key = RuleKey { cluster: None, name: "virtualmachines".to_owned() };
    let request = LoadedRulesRequest::new("u-1", [&key]);
    let plain = ReviewService::new(cluster.clone(), loaded(&[denying()]), OverridePolicy::default());
    for (service, registers) in [(service(&cluster), 1), (plain, 0)] {
        let post = post_bytes("/validate", request.to_review());
        let body = service.oneshot(post).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let Loaded::Rules(rules) = request.read(&body).unwrap() else { panic!("not loaded") };
        assert_eq!(rules[&key].registers, registers);
    }
}
