//! Inputs of a status: a status changes only with them.

use std::sync::LazyLock;
use std::time::Duration;

use depguard_core::api::DanglingReferences;
use depguard_core::interlock::Buckets;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::interlocked::{SETTLING, in_order_for, refer_back};
use super::workspaces::found;
use super::*;
use crate::interlock::RegisterReadiness;
use crate::model::reference_count::{ReferenceCount, Uncounted};
use crate::probe::result::NOT_LOADED;
use crate::testing::{kind, looking};

type Edit = fn(&mut Setting);

/// Facts that two settings share: they count by their address.
static OTHER_FACTS: LazyLock<KindState> = LazyLock::new(|| facts("vpcs", |facts| facts.namespaced = false));
static AGGREGATED_FACTS: LazyLock<KindState> =
    LazyLock::new(|| facts("vpcs", |facts| facts.is_aggregated = Some(true)));
static BLIND_FACTS: LazyLock<KindState> = LazyLock::new(|| facts("virtualmachines", |facts| facts.schema = None));
static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn interlock(setting: &mut Setting) -> &mut InterlockView {
    setting.interlock.as_mut().unwrap()
}

fn reject(object: &mut Value, resource: &str) {
    for claim in object["spec"]["permissionClaims"].as_array_mut().unwrap() {
        if claim["resource"] == resource {
            claim["state"] = json!("Rejected");
        }
    }
}

/// Changes of all that surrounds a rule.
const EDITS: [Edit; 48] = [
    |setting| drop(setting.bindings.pop()),
    |setting| drop(setting.bindings.remove(0)),
    |setting| setting.bindings.push(binding("liar", NETWORK)),
    |setting| setting.bindings.iter_mut().for_each(|binding| reject(binding, "apiexports")),
    |setting| setting.bindings.iter_mut().for_each(|binding| reject(binding, "apiresourceschemas")),
    |setting| setting.bindings.iter_mut().for_each(|binding| binding["status"] = json!({})),
    |setting| {
        let time = json!("2026-01-01T00:00:00Z");
        setting.bindings.iter_mut().for_each(|one| one["metadata"]["deletionTimestamp"] = time.clone());
    },
    |setting| setting.bindings.iter_mut().for_each(|one| one["metadata"]["name"] = json!("other")),
    |setting| {
        let annotations = setting.bindings.first_mut().and_then(|one| one["metadata"]["annotations"].as_object_mut());
        annotations.into_iter().for_each(|annotations| drop(annotations.remove("kcp.io/path")));
    },
    |setting| setting.exports = None,
    |setting| setting.exports = Some(vec![export("compute", "virtualmachines.compute.example.com")]),
    |setting| setting.exports = Some(vec![export("network", "vpcs.network.example.com")]),
    |setting| {
        let other = export("network", "lans.network.example.com");
        setting.exports = Some(vec![export("compute", "virtualmachines.compute.example.com"), other]);
    },
    |setting| {
        let other = export("compute", "disks.compute.example.com");
        setting.exports = Some(vec![export("network", "vpcs.network.example.com"), other]);
    },
    |setting| setting.exports.iter_mut().flatten().for_each(|one| one["spec"]["resources"][0]["name"] = json!("lans")),
    |setting| setting.exports.iter_mut().flatten().for_each(|one| *one = accepting(one.take(), "root:compute")),
    |setting| setting.exports.iter_mut().flatten().for_each(|one| *one = accepting(one.take(), "root:other")),
    |setting| setting.exports.iter_mut().flatten().for_each(|one| *one = accepting(one.take(), "no/path")),
    |setting| drop(setting.lookups.insert(path(NETWORK), found("network"))),
    |setting| drop(setting.lookups.insert(path(NETWORK), found("liar"))),
    |setting| drop(setting.lookups.insert(path(NETWORK), WorkspaceLookup::NotFound)),
    |setting| drop(setting.lookups.insert(path(NETWORK), WorkspaceLookup::Unknown { why: "403".to_owned() })),
    |setting| drop(setting.lookups.insert(path("root:compute"), found("compute"))),
    |setting| drop(setting.lookups.insert(path("root:compute"), found("other"))),
    |setting| drop(setting.lookups.insert(path("root:compute"), WorkspaceLookup::NotFound)),
    |setting| setting.outcome = Outcome::Failed("500".to_owned()),
    |setting| setting.outcome = Outcome::Newer { in_force: true },
    |setting| setting.of_dependents.0 = Some(Outcome::Foreign),
    |setting| setting.of_dependents.1 = Some(ProbeResult::of_problem(Finding::no(NOT_LOADED, "not yet"))),
    |setting| {
        let problem = ProbeResult::of_problem(Finding::no(NOT_LOADED, "not yet"));
        setting.of_dependents.1 = Some(ProbeResult { is_unanswered: true, ..problem });
    },
    |setting| setting.seen.push(("vpcs", OTHER_FACTS.clone())),
    |setting| setting.seen.push(("virtualmachines", BLIND_FACTS.clone())),
    |setting| setting.seen.push(("virtualmachines", KindState::NotServed)),
    |setting| setting.seen.push(("vpcs", AGGREGATED_FACTS.clone())),
    |setting| setting.arriving = [kind("vpcs.network.example.com")].into(),
    |setting| setting.seen.push(("vpcs", KindState::Unknown("500".to_owned()))),
    |setting| setting.outstanding = Some(BTreeSet::new()),
    |setting| setting.outstanding = Some([RuleKey { cluster: Some(cluster("compute")), name: "a".to_owned() }].into()),
    |setting| refer_back(setting, "network"),
    |setting| setting.own_namespace = Some("depguard".to_owned()),
    |setting| setting.interlock = None,
    |setting| setting.interlock.iter_mut().for_each(|view| view.has_locks = true),
    |setting| setting.interlock.iter_mut().for_each(|view| view.buckets = Buckets::new(8).unwrap()),
    |setting| {
        let not_open = RegisterReadiness::NotOpen { why: "closed".to_owned() };
        setting.interlock.iter_mut().for_each(|view| view.readiness = not_open.clone());
    },
    |setting| _ = setting.registers.insert(Side::Targets, (0, *BEGUN)),
    |setting| _ = setting.registers.remove(&Side::Dependents),
    |setting| setting.count = Some(ReferenceCount::Known(DanglingReferences::default())),
    |setting| {
        let why = Uncounted { reason: "Unclear", message: "one can't be told".to_owned() };
        setting.count = Some(ReferenceCount::Unknown(why));
    },
];

/// Returns rules that look for their targets or don't, without a status or in force, and a local one.
fn rules() -> [Value; 6] {
    let [looking, other] = ["Deny", "Ignore"].map(|on_missing| looking(vm_to_vpc(), on_missing));
    let in_force = |rule: &Value| edited(rule, &[]).changed().remove(0);
    let mut owning = in_force(&looking);
    owning["spec"]["dependencies"][0]["ownedDependents"] = json!("Ignore");
    [in_force(&looking), in_force(&other), owning, looking, other, local(vm_to_vpc())]
}

/// Returns a setting after these edits, which was in order for so long that only the edits matter.
fn edited(rule: &Value, edits: &[Edit]) -> Setting {
    let mut setting = in_order_for(SETTLING);
    setting.rules = vec![rule.clone()];
    interlock(&mut setting).now = *BEGUN + SETTLING * 2;
    interlock(&mut setting).readiness = RegisterReadiness::Open { since: *BEGUN, full: None };
    setting.registers.values_mut().for_each(|(_, since)| *since = *BEGUN);
    edits.iter().for_each(|edit| edit(&mut setting));
    setting
}

/// Returns the inputs of the rule's status, and the status.
fn told(rule: &Value, edits: &[Edit]) -> (u64, Value) {
    edited(rule, edits).in_round(|input, plan, found| {
        let graph = ReferenceGraph::of_rules(plan);
        let (status, _) = change(input, &plan.rules[0], found, &graph, NOW);
        (super::super::inputs::inputs(input, &plan.rules[0], found, &graph), json!(status))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Covers what may be forgotten among the inputs: whoever settles a rule by them would keep a status that is wrong.
    #[test]
    fn a_status_changes_only_with_its_inputs(
        one in subsequence(EDITS.to_vec(), 0..=3), other in subsequence(EDITS.to_vec(), 0..=3), rule in 0..6_usize,
    ) {
        let rule = &rules()[rule];
        let ((inputs, status), (others, other)) = (told(rule, &one), told(rule, &other));
        prop_assert!(inputs != others || status == other, "{status}\n{other}");
    }
}

#[test]
fn no_two_single_changes_are_taken_for_each_other() {
    let mut statuses = BTreeSet::new();
    for rule in rules() {
        let unchanged = told(&rule, &[]);
        assert_eq!(told(&rule, &[]), unchanged, "the same inputs have the same hash");
        let single: Vec<_> = EDITS.iter().map(|edit| told(&rule, &[*edit])).chain([unchanged]).collect();
        for (index, (inputs, status)) in single.iter().enumerate() {
            for (other, (others, said)) in single.iter().enumerate() {
                assert!(inputs != others || status == said, "edits {index} and {other}: {status}\n{said}");
            }
            statuses.insert(status.to_string());
        }
    }
    assert!(statuses.len() > 75, "{} different statuses", statuses.len());
}

#[test]
fn a_settled_rule_is_read_again_once_an_input_changes_or_it_waits() {
    let mut setting = edited(&looking(vm_to_vpc(), "Deny"), &[]);
    setting.rules = setting.changed();
    let mut settled = SettledRules::default();
    let mut settles = |setting: &Setting, text: &Arc<ObjectText>| {
        setting.in_round_of(text, |input, plan, found| {
            let changes =
                settled.new_statuses(input, plan, found, NOW).iter().filter(|said| said.change.is_some()).count();
            (changes, settled.by_text.len())
        })
    };
    let text = Arc::new(ObjectText::new(&setting.rules[0]));
    assert_eq!(settles(&setting, &text), (0, 1));
    assert_eq!(settles(&setting, &text), (0, 1));
    setting.outcome = Outcome::Failed("500".to_owned());
    assert_eq!(settles(&setting, &text), (1, 0));
    setting.outcome = Outcome::Installed;
    assert_eq!(settles(&setting, &text), (0, 1));
    // The same rule, written anew.
    assert_eq!(settles(&setting, &Arc::new(ObjectText::new(&setting.rules[0]))), (0, 1));

    // As long as the interlock waits, the time matters.
    interlock(&mut setting).now = *BEGUN + SETTLING - Duration::from_secs(1);
    setting.rules = setting.changed();
    let text = Arc::new(ObjectText::new(&setting.rules[0]));
    assert_eq!(settles(&setting, &text), (0, 0));
    interlock(&mut setting).now = *BEGUN + SETTLING;
    assert_eq!(settles(&setting, &text), (1, 0));
}
