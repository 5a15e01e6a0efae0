//! Allocations of depguard-core: `cargo bench -p depguard-benches --bench allocations`.
//!
//! A count is the same on every machine, so the benchmark asserts it: data that nobody asked for costs nothing.

use allocation_counter::{AllocationInfo, measure};
use depguard_core::protocol::ObjectReview;
use depguard_core::scan::{Extractor, Prefilter};
use depguard_core::{Context, ControlPlane, FieldPath, Review, RuleSet};
use serde_json::{Value, json};

use self::pages::{Size, page};
use self::reviews::{decide, review, rule, sibling};
use self::strangers::{decide_deletion, deletion, foreign_rules};

mod pages;
mod reviews;
mod strangers;

fn main() {
    println!("{:<64} {:>12} {:>12} {:>12}", "", "allocations", "bytes", "at once");
    // The first decision makes the data that a process makes once. Those allocations must not count.
    decide(&RuleSet::load(ControlPlane::Kubernetes, &[]), &review("subnets", Size::Small), b"");
    reviews();
    unnamed_kinds();
    siblings();
    foreign();
    extraction();
    searches();
    decisions();
    updates();
}

/// Prints the allocations of a run, and returns them.
fn count(what: &str, run: impl FnOnce()) -> AllocationInfo {
    let counted = measure(run);
    println!("{what:<64} {:>12} {:>12} {:>12}", counted.count_total, counted.bytes_total, counted.bytes_max);
    counted
}

fn reviews() {
    let parse = |size: Size| {
        let review = review("vpcs", size);
        count(&format!("a review of {} is parsed", size.name()), || drop(Review::parse(&review).expect("a review")))
    };
    let [small, large] = Size::ALL.map(parse);
    assert!(large.bytes_total <= small.bytes_total + 1_000, "what is not asked for is not kept");
}

fn unnamed_kinds() {
    let review = review("subnets", Size::Small);
    let decided = |rules: usize| {
        let rules: Vec<_> = (0..rules).map(rule).collect();
        let set = RuleSet::load(ControlPlane::Kubernetes, &rules);
        let what = format!("of {} rules none names the kind: reviewed and decided", rules.len());
        count(&what, || assert!(decide(&set, &review, b"").allowed()))
    };
    assert_eq!(decided(1).count_total, decided(100).count_total, "no rule costs anything where it applies to nothing");
}

/// Decisions by many rules about the same two kinds, each with a field of its own.
fn siblings() {
    let review = review("vpcs", Size::Small);
    let decided = |number: usize| {
        let rules: Vec<_> = (0..number).map(sibling).collect();
        let set = RuleSet::load(ControlPlane::Kubernetes, &rules);
        let page = page(10, Size::Small, "vpc-0");
        let what = format!("{number} rules about the same kinds: decided");
        let first = count(&what, || assert!(decide(&set, &review, &page).allowed()));
        (first, count(&format!("{what} again"), || assert!(decide(&set, &review, &page).allowed())))
    };
    let [(_, few), (first, many)] = [100, 1_000].map(decided);
    assert!(many.count_total <= few.count_total + 20, "a rule costs a decision no allocation, but for the first one");
    assert!(many.bytes_max < first.bytes_max / 4, "what can be made once for all decisions is");
}

/// Decisions in a logical cluster beside rules of providers that it has not bound, about the same target.
fn foreign() {
    let (review, page) = (deletion(), page(10, Size::Small, "vpc-0"));
    let decided = |foreign: usize| {
        let rules = foreign_rules(foreign);
        let decide = || assert!(decide_deletion(&rules, &review, &page).allowed());
        let counted = count(&format!("{foreign} rules of providers that nobody has bound: decided"), decide);
        (counted.count_total, counted.bytes_total, counted.bytes_max)
    };
    assert_eq!(decided(0), decided(10_000), "a rule that does not bear costs nothing");
}

fn extraction() {
    let path = FieldPath::parse(".spec.vpcRef.name").expect("a path");
    let extractor = Extractor::new([&path]);
    let read = |objects: usize, size: Size| {
        let page = page(objects, size, "vpc-0");
        count(&format!("{objects} objects of {} are read", size.name()), || {
            let mut found = 0;
            extractor.page(&page, |item| found += usize::from(item.value(0) == Some("vpc-0"))).expect("a page");
            assert_eq!(found, objects);
        })
    };
    let few = read(10, Size::Small);
    assert_eq!(few.count_total, read(500, Size::Small).count_total, "an object costs no allocation");
    assert_eq!(few.count_total, read(500, Size::Large).count_total, "nor does what it holds");
}

fn searches() {
    let path = FieldPath::parse(".spec.vpcRef.name").expect("a path");
    let extractor = Extractor::new([&path]);
    let prefilter = Prefilter::new(["vpc-7"]).expect("names that can be searched for");
    let search = |objects: usize, vpc: &str, hits: usize| {
        let page = page(objects, Size::Small, vpc);
        count(&format!("{objects} objects are searched for a name that {hits} hold"), || {
            let mut found = 0;
            extractor.search(&page, Some(&prefilter), |_| found += 1).expect("a page");
            assert_eq!(found, hits);
        })
    };
    let few = search(10, "vpc-0", 0);
    assert_eq!(
        few.count_total,
        search(500, "vpc-0", 0).count_total,
        "a page without the name costs the same, however long"
    );
    assert_eq!(
        search(10, "vpc-7", 10).count_total,
        search(500, "vpc-7", 500).count_total,
        "nor does an object that holds it cost an allocation"
    );
}

fn decisions() {
    let rules = RuleSet::load(ControlPlane::Kubernetes, [&rule(0)]);
    let review = review("vpcs", Size::Small);
    // The first decision makes what a rule set keeps.
    decide(&rules, &review, &page(1, Size::Small, "vpc-0"));
    let decided = |objects: usize, vpc: &str| {
        let page = page(objects, Size::Small, vpc);
        let allowed = vpc != "a";
        let what = format!("{} by {objects} objects", if allowed { "allowed" } else { "denied" });
        count(&what, || assert_eq!(decide(&rules, &review, &page).allowed(), allowed))
    };
    let few = decided(10, "vpc-0");
    assert_eq!(few.count_total, decided(500, "vpc-0").count_total, "an object that doesn't refer costs no allocation");
    decided(10, "a");
    decided(500, "a");
}

/// An update of an object with more references than are read one by one, so that both its states are compared.
fn updates() {
    let rules = RuleSet::load(ControlPlane::Kubernetes, [&rule_of_lists()]);
    let decided = |parts: usize| {
        let review = update(10_050, parts);
        let counted = count(&format!("an update of 10,050 references and {parts} other parts"), || {
            let review = ObjectReview::parse(&review).expect("a review");
            assert!(rules.evaluate_references(&review, &Context::default()).decide().allowed());
        });
        (counted.bytes_max, review.len() as u64)
    };
    let ((few, short), (many, long)) = (decided(1_000), decided(100_000));
    assert!(many - few <= long - short, "what no rule reads takes no more memory than its text");
}

/// Returns a rule that says that virtual machines refer to VPCs in a list, which must be there.
fn rule_of_lists() -> Value {
    let mut rule = rule(0);
    rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec.vpcs[*].name");
    rule["spec"]["dependencies"][0]["onMissing"] = json!("Deny");
    rule
}

/// Returns a review of an update of a virtual machine, which changes one of the parts of which no rule knows.
fn update(references: usize, parts: usize) -> Vec<u8> {
    let vpcs: Vec<_> = (0..references).map(|n| json!({"name": format!("vpc-{n}")})).collect();
    let [object, old_object] = [1, 2].map(|first| {
        let parts: Vec<_> = (0..parts).map(|n| json!({"a": if n == 0 { first } else { 0 }})).collect();
        json!({"metadata": {"name": "m", "namespace": "default", "uid": "u"}, "spec": {"vpcs": vpcs, "parts": parts}})
    });
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "UPDATE", "name": "m", "namespace": "default", "object": object, "oldObject": old_object,
        "resource": {"group": "compute.example.com", "version": "v1", "resource": "virtualmachines"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
    }});
    review.to_string().into_bytes()
}
