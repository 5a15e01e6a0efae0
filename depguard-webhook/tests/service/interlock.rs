//! Interlock: marks are recorded before the reads that count, and only an allowed review leaves any.

use std::time::Duration;

use depguard_core::OverridePolicy;
use depguard_core::interlock::{Buckets, Register, RegisterKey};
use depguard_core::probe::{Loaded, LoadedRulesRequest};
use depguard_core::rule::RuleKey;
use depguard_kcp::cli::{LogFormat, to_writer};
use depguard_testbed::LogBuffer;
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

/// Nothing else shows afterwards who held others' requests up.
#[tokio::test]
async fn an_allowed_review_that_left_a_mark_is_found_in_the_log() {
    let log = LogBuffer::default();
    let _guard = to_writer(LogFormat::Json, "debug", log.writer());
    let referring = cluster();
    allowed(&refer(&referring, &creation("m")).await);
    let deleting = cluster();
    allowed(&delete(&deleting).await);
    // A dry run leaves none.
    let mut dry = creation("m");
    dry["request"]["dryRun"] = true.into();
    allowed(&refer(&cluster(), &dry).await);
    assert_eq!((marks(&referring), marks(&deleting)), ((0, 2), (1, 0)));
    let lines: Vec<Value> = log.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let allowed = lines.iter().filter(|line| line["message"] == "allowed");
    let said = |line: &Value| ["level", "name", "kind", "requester", "marks"].map(|field| line[field].clone());
    let line = |name, kind, marks: Value| [json!("DEBUG"), json!(name), json!(kind), json!("alice"), marks];
    let expected = [
        line("m1", "virtualmachines.compute.example.com", json!("bucket-0-of-1=2")),
        line("a", "vpcs.network.example.com", json!("bucket-0-of-1=1")),
        line("m1", "virtualmachines.compute.example.com", Value::Null),
    ];
    assert_eq!(allowed.map(said).collect::<Vec<_>>(), expected);
}

const LIST_NAME: &str = "GET virtualmachines";
const GET_REGISTER: &str = "GET bucket-0-of-1";
const PUT_REGISTER: &str = "PUT bucket-0-of-1";

#[tokio::test]
async fn only_a_path_of_its_own_registers_or_of_none_is_answered() {
    let [keyed, other] = [7, 8].map(|byte| Buckets::new(1).unwrap().keyed(RegisterKey::new([byte; RegisterKey::LEN])));
    let segment = |buckets: Buckets| buckets.generation().unwrap().to_segment();
    let path = |segment: &str| format!("/reference{segment}?timeout=10s");
    let cluster = cluster();
    let name = keyed.registers().next().unwrap();
    let mut own = register("r", "r");
    own["metadata"]["name"] = name.to_string().into();
    cluster.put(&name.path(), Some(own));
    let without = ReviewService::new(cluster.clone(), loaded(&[denying()]), OverridePolicy::default());
    let with = |buckets| without.clone().interlocking(buckets, cluster.clone());
    let own_path = path(&format!("/{}", segment(keyed)));
    for (service, path, status) in [
        (without.clone(), &own_path, 404),
        (with(Buckets::new(1).unwrap()), &own_path, 404),
        (with(Buckets::new(2).unwrap().keyed(RegisterKey::new([7; RegisterKey::LEN]))), &own_path, 404),
        (with(other), &own_path, 404),
        (with(keyed), &path(&format!("/{}/x", segment(keyed))), 404),
    ] {
        let answered = service.oneshot(post_bytes(path, creation("m").to_string())).await.unwrap();
        assert_eq!(answered.status(), status, "{path}");
    }
    assert!(sent(&cluster).is_empty());
    assert!(allowed(&answer(with(keyed), post_bytes(&own_path, creation("m").to_string())).await));
    assert_eq!(
        sent(&cluster),
        [format!("GET {name}"), LIST_NAME.to_owned(), format!("PUT {name}"), "GET a".to_owned()]
    );
    // Nobody promised anything about a path without registers but a version before keys, whose registers have none.
    assert!(allowed(&answer(with(keyed), post_bytes(&path(""), creation("n").to_string())).await));
    assert_eq!(marks(&cluster), (0, 2));
}

#[tokio::test]
async fn a_reference_reads_its_target_after_its_intent_is_recorded() {
    let cluster = cluster();
    assert!(allowed(&refer(&cluster, &creation("m")).await));
    assert_eq!(sent(&cluster), [GET_REGISTER, LIST_NAME, PUT_REGISTER, "GET a"]);
    // One for a VPC in the namespace, and one for a kind without namespaces.
    assert_eq!(marks(&cluster), (0, 2));
}

#[tokio::test]
async fn a_creation_whose_name_is_taken_is_refused_and_leaves_no_mark() {
    let cluster = cluster();
    cluster.put(VM, Some(vm("earlier", "b")));
    let status = |answer: &Value| answer["status"].clone();
    let answer = refer(&cluster, &creation("m")).await;
    let taken = status(&answer);
    assert_eq!((&taken["code"], &taken["reason"]), (&json!(409), &json!("AlreadyExists")));
    assert_eq!(taken["message"], "virtualmachines.compute.example.com \"m1\" already exists");
    let kind = json!({"name": "m1", "group": "compute.example.com", "kind": "virtualmachines", "causes": []});
    assert_eq!((&taken["details"], marks(&cluster)), (&kind, (0, 0)));

    // The API server turns a creation by server-side apply into an update.
    let mut applied = creation("m");
    applied["request"]["object"]["metadata"]["managedFields"] = json!([{"manager": "a", "operation": "Apply"}]);
    assert_eq!(causes(&refer(&cluster, &applied).await), ["Contended"]);
    assert_eq!(marks(&cluster), (0, 0));

    // A list that an API server answers from its cache may show what is gone.
    cluster.put(VM, None);
    let behind = response(200, &json!({"metadata": {"resourceVersion": "1"}, "items": [vm("earlier", "b")]}));
    cluster.break_at("&resourceVersion=0", behind);
    sent(&cluster);
    assert!(allowed(&refer(&cluster, &creation("m")).await));
    assert!(sent(&cluster).contains(&"GET m1".to_owned()));

    // An API server that generates the name has not said it in the request. Nobody follows an earlier creation here.
    let cluster = self::cluster();
    let mut generated = creation("m");
    generated["request"].as_object_mut().unwrap().remove("name");
    assert!(allowed(&refer(&cluster, &generated).await));
    assert_eq!(sent(&cluster)[..3], [GET_REGISTER, PUT_REGISTER, "GET a"]);
}

#[tokio::test]
async fn a_deletion_lists_the_dependents_again_after_its_flag_is_recorded() {
    let cluster = cluster();
    assert!(allowed(&delete(&cluster).await));
    assert_eq!(sent(&cluster), ["GET virtualmachines", GET_REGISTER, PUT_REGISTER, "GET virtualmachines"]);
    assert_eq!(marks(&cluster), (1, 0));
}

#[tokio::test]
async fn a_deletion_that_was_put_off_twice_goes_before_further_creations() {
    let cluster = cluster();
    assert!(allowed(&refer(&cluster, &creation("m")).await));
    for _ in 0..2 {
        put_off(&delete(&cluster).await);
    }
    let review = refer(&cluster, &creation("another")).await;
    let message = put_off(&review);
    assert!(message.contains("have waited for longer, and come first"), "{message}");
    assert_eq!(marks(&cluster), (0, 2));
    // Once the creation is stored, the deletion is decided by what it lists.
    cluster.put(VM, Some(vm("m", "a")));
    assert_eq!(refused(&delete(&cluster).await), "cannot delete vpcs/a: still referenced by VirtualMachine/m1");
}

#[tokio::test]
async fn a_dry_run_leaves_no_wait() {
    let cluster = cluster();
    assert!(allowed(&refer(&cluster, &creation("m")).await));
    let mut review = deletion(&cluster);
    review["request"]["dryRun"] = true.into();
    for _ in 0..2 {
        answer(service(&cluster), post(&review)).await;
    }
    assert!(allowed(&refer(&cluster, &creation("m")).await));
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
    assert_eq!(sent(&cluster), [GET_REGISTER, LIST_NAME, PUT_REGISTER, "GET a", GET_REGISTER, PUT_REGISTER]);
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

/// Tests that a dependent which nobody saw, because it was deleted at once, holds its target up no longer. An earlier object
/// of its name proves nothing.
#[tokio::test(start_paused = true)]
async fn a_dependent_that_was_deleted_at_once_is_found_by_a_watch() {
    let cluster = cluster();
    let put = |uid: &str| {
        cluster.put(VM, Some(vm(uid, "a")));
        cluster.put(VM, None);
    };
    put("before");
    assert!(allowed(&refer(&cluster, &creation("m")).await));
    put("another");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(marks(&cluster), (0, 2), "the request may still be carried out");
    assert!(allowed(&refer(&cluster, &creation("n")).await));
    put("another");
    put("n");
    while marks(&cluster) != (0, 2) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let asked: Vec<_> = cluster.sent().into_iter().filter(|request| request.contains("watch=true")).collect();
    let watch = "GET /apis/compute.example.com/v1/namespaces/default/virtualmachines?fieldSelector=metadata.name%3Dm1&limit=1\
                 &watch=true&timeoutSeconds=1&resourceVersion=";
    assert!(asked.iter().all(|request| request.starts_with(watch)), "{asked:?}");
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
        sent(&cluster);
        while !sent(&cluster).contains(&"GET m1".to_owned()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(marks(&cluster), (0, 2));
        cluster.put(VM, None);
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

/// Tests that marks which promise nothing hold nobody up: a Pod's binding leaves none, and is not reviewed.
#[tokio::test]
async fn a_pod_by_the_packs_rules_writes_no_register() {
    let pack = include_str!("../../../config/rules/kubernetes-workloads.yaml");
    let mut rules: Vec<Value> = serde_saphyr::from_multiple(pack).unwrap();
    rules.retain(|object| object["kind"] == "DependencyRule");
    let edges = rules.iter_mut().flat_map(|rule| rule["spec"]["dependencies"].as_array_mut().unwrap());
    edges.filter(|edge| edge["optional"].is_null()).for_each(|edge| edge["onMissing"] = "Deny".into());
    let cluster = cluster();
    cluster.put("/api/v1/namespaces/default/configmaps/c", Some(object("c", "c")));
    let service = ReviewService::new(cluster.clone(), loaded(&rules), OverridePolicy::default());
    let service = service.interlocking(Buckets::new(1).unwrap(), cluster.clone());
    let create = async |group: &str, resource: &str, edit: &dyn Fn(Value) -> Value| {
        let mut review = creation("m");
        review["request"]["resource"] = json!({"group": group, "version": "v1", "resource": resource});
        review["request"]["object"]["spec"] = edit(json!({"volumes": [{"configMap": {"name": "c"}}]}));
        review["request"]["object"]["status"] = json!({"phase": "Pending"});
        assert!(allowed(&answer(service.clone(), post_bytes("/reference", review.to_string())).await));
        sent(&cluster)
    };
    assert_eq!(create("", "pods", &|spec| spec).await, ["GET c"]);
    let template = |spec| json!({"template": {"spec": spec}});
    assert!(create("apps", "deployments", &template).await.contains(&PUT_REGISTER.to_owned()));
}

/// Tests all ways in which the register is of no use: nobody knows then what the other side does.
#[tokio::test]
async fn nothing_is_allowed_without_the_register() {
    let not_served = response(404, &json!({"message": "no such kind"}));
    let forbidden = response(403, &json!({"message": "user depguard cannot update"}));
    for (broken, register, said) in [
        (None, None, "found no such register; the controller makes one anew"),
        (
            None,
            Some(register("r", "another")),
            "the write of ReferenceRegister bucket-0-of-1 is put off: the register was made",
        ),
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
