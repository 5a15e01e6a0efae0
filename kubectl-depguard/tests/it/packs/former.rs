//! Rules of packs that had another name: `rules apply` takes them over, and leaves what others wrote.

use depguard_controller::manifests;
use depguard_controller::packs::RulePack;
use depguard_testbed::{Fault, When};
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};

use crate::bed::{Bed, exists};

pub(super) const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const PACK: &str = "kubernetes-workloads";

/// Starts a cluster that serves rules.
pub(super) async fn bed() -> Bed {
    let bed = Bed::kubernetes().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    bed.endpoint().post_json(definitions, &manifests::crd()).await.unwrap();
    bed
}

/// Returns the pack's rule under its former name.
pub(super) fn former(name: &str) -> Value {
    let pack = RulePack::by_name(PACK).unwrap();
    let (_, mut rule) = pack.formerly().find(|(former, _)| *former == name).unwrap();
    rule["metadata"]["name"] = json!(name);
    rule
}

/// Applies a rule as another field manager.
async fn apply(bed: &Bed, rule: &Value, manager: &str) {
    let path = format!("{RULES}/{}", rule["metadata"]["name"].as_str().unwrap());
    bed.endpoint().apply(&path, rule, manager, true).await.unwrap();
}

async fn names(bed: &Bed) -> Vec<String> {
    let rules = bed.endpoint().list_json(RULES).await.unwrap().items;
    rules.iter().map(|rule| rule["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_rule_that_the_pack_wrote_under_a_former_name_goes_over() {
    let bed = bed().await;
    // Written by somebody else, word for word.
    bed.endpoint().post_json(RULES, &former("pods")).await.unwrap();
    // Written by the command in a former version, in which the pack said less.
    let mut less = former("jobs");
    less["spec"]["dependencies"].as_array_mut().unwrap().truncate(2);
    apply(&bed, &less, "kubectl-depguard").await;

    for (dry_run, how) in [("--dry-run=client", "dry run"), ("--dry-run=server", "server dry run")] {
        let tried = bed.depguard(&["rules", "apply", PACK, dry_run]).await;
        for name in ["pods", "jobs"] {
            let says = format!("/{name} would be deleted: its name is {PACK}-{name} now ({how})\n");
            assert!(tried.status == ExitStatus::Well && tried.err.contains(&says), "{}", tried.err);
        }
    }
    assert_eq!(names(&bed).await, ["jobs", "pods"]);

    bed.testbed.keep_journal();
    let applied = bed.depguard(&["rules", "apply", PACK]).await;
    assert!(applied.err.contains(&format!("/pods deleted: its name is {PACK}-pods now\n")), "{}", applied.err);
    let of_pack: Vec<_> = ["cronjobs", "daemonsets", "deployments", "jobs", "pods", "replicasets", "statefulsets"]
        .map(|name| format!("{PACK}-{name}"))
        .into();
    assert_eq!(names(&bed).await, of_pack);
    // At no moment there was neither the old rule nor the new one.
    let changes = bed.testbed.journal();
    let made = changes.iter().position(|change| change.name == format!("{PACK}-pods"));
    let gone = changes.iter().position(|change| change.name == "pods" && change.object.is_none());
    assert!(made.is_some() && made < gone, "{made:?} {gone:?}");

    let again = bed.depguard(&["rules", "apply", PACK]).await;
    assert!(!again.err.contains("deleted"), "{}", again.err);
    assert!(again.well().lines().all(|line| line.ends_with("unchanged")));
}

#[tokio::test]
async fn a_rule_of_a_former_name_that_is_not_the_packs_stays_and_is_told() {
    let bed = bed().await;
    let mut own = former("jobs");
    own["spec"]["dependent"]["group"] = json!("compute.example.com");
    bed.endpoint().post_json(RULES, &own).await.unwrap();
    // The pack's rule, which a user has weakened.
    apply(&bed, &former("pods"), "kubectl-depguard").await;
    let mut weaker = former("pods");
    weaker["spec"]["dependencies"][0]["onDelete"] = json!("Warn");
    apply(&bed, &weaker, "somebody").await;
    let mut released = former("cronjobs");
    released["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": "rules"});
    bed.endpoint().post_json(RULES, &released).await.unwrap();

    for _ in 0..2 {
        let applied = bed.depguard(&["rules", "apply", PACK]).await;
        for (name, why) in [
            ("jobs", "it is not as the pack wrote it; delete it if nobody needs it"),
            ("pods", "it is not as the pack wrote it; delete it if nobody needs it"),
            ("cronjobs", "it belongs to the Helm release `rules`; take it out there"),
        ] {
            let says = format!("/{name} stays beside {PACK}-{name}: {why}\n");
            assert!(applied.status == ExitStatus::Well && applied.err.contains(&says), "{}", applied.err);
            assert!(exists(&bed.endpoint(), &format!("{RULES}/{name}")).await.is_some());
        }
    }
    assert_eq!(names(&bed).await.len(), 10);
}

#[tokio::test]
async fn a_default_rule_that_the_strict_ones_do_without_goes_unless_somebody_changed_it() {
    let strict = ["rules", "apply", PACK, "--strict"];
    let name = format!("{PACK}-replicasets");
    let bed = bed().await;
    bed.depguard(&strict[..3]).await.well();
    for (dry_run, how) in [("--dry-run=client", "dry run"), ("--dry-run=server", "server dry run")] {
        let tried = bed.depguard(&[&strict[..], &[dry_run]].concat()).await;
        let says = format!("/{name} would be deleted: the strict rules do without it ({how})\n");
        assert!(tried.status == ExitStatus::Well && tried.err.contains(&says), "{}", tried.err);
    }
    assert_eq!(names(&bed).await.len(), 7);
    bed.testbed.keep_journal();
    let applied = bed.depguard(&strict).await;
    assert!(applied.err.contains(&format!("/{name} deleted: the strict rules do without it\n")), "{}", applied.err);
    assert!(applied.err.contains(&format!("/{name} no longer refuses deletions of configmaps in ")), "{}", applied.err);
    assert!(!names(&bed).await.contains(&name));
    // The strict rule about Pods was there first.
    let changes = bed.testbed.journal();
    let strict_pods = changes.iter().position(|change| change.name == format!("{PACK}-pods"));
    let gone = changes.iter().position(|change| change.name == name && change.object.is_none());
    assert!(strict_pods.is_some() && strict_pods < gone, "{strict_pods:?} {gone:?}");
    assert!(!bed.depguard(&strict).await.err.contains("deleted"));
    // And back.
    bed.depguard(&strict[..3]).await.well();
    assert!(names(&bed).await.contains(&name));

    let mut own = bed.endpoint().get_json(&format!("{RULES}/{name}")).await.unwrap();
    own["spec"]["dependencies"].as_array_mut().unwrap().truncate(1);
    own["metadata"].as_object_mut().unwrap().remove("managedFields");
    bed.endpoint().put_json(&format!("{RULES}/{name}"), &own).await.unwrap();
    let applied = bed.depguard(&strict).await;
    let says = format!(
        "/{name} stays beside the strict rules: it is not as the pack wrote it; delete it if nobody needs it\n"
    );
    assert!(applied.status == ExitStatus::Well && applied.err.contains(&says), "{}", applied.err);
    assert!(!applied.err.contains("no longer refuses"), "{}", applied.err);
    assert!(names(&bed).await.contains(&name));
}

#[tokio::test]
async fn nothing_is_applied_if_the_rule_of_a_former_name_can_t_be_deleted() {
    let bed = bed().await;
    bed.endpoint().post_json(RULES, &former("pods")).await.unwrap();
    let faults = bed.testbed.faults();
    let fault = faults.inject(Fault::Forbidden, When::always().method("DELETE").path("dependencyrules/pods"));
    let refused = bed.depguard(&["rules", "apply", PACK]).await;
    assert!(refused.status == ExitStatus::Failure && refused.out.is_empty(), "{}{}", refused.out, refused.err);
    assert!(refused.err.contains("nothing was applied: "), "{}", refused.err);
    assert!(
        refused.err.contains(&format!("/pods can't be deleted, and its name is {PACK}-pods now")),
        "{}",
        refused.err
    );
    assert_eq!(names(&bed).await, ["pods"]);
    faults.clear(fault);
    bed.depguard(&["rules", "apply", PACK]).await.well();
    assert_eq!(names(&bed).await.len(), 7);
}
