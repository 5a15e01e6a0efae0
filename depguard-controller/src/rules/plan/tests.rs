use serde_json::json;

use super::*;
use crate::testing::{accepting, binding, clients, cluster, desired_for, export, local, looking, path, rule, stored};

const NETWORK: &str = "root:providers:network";

/// Returns an input with these rules and bindings, and with these configurations installed.
fn input(rules: &[Value], bindings: &[Value], installed: &[(&str, Value)]) -> PlanInput<'static> {
    PlanInput {
        control_plane: ControlPlane::Kcp,
        read_through: ReadThrough::default(),
        export_name: "dependencies.opendefense.cloud",
        rules: rules.iter().map(read).collect(),
        further: Vec::new(),
        bindings: Bindings::read(bindings),
        configurations: installed.iter().map(|(id, found)| (of_targets(id), found.clone())).collect(),
        exports: Exports::Unavailable("not watched".to_owned()),
        rule_grants: RuleGrants::default(),
        lookups: BTreeMap::new(),
        clients: clients(),
    }
}

fn read(rule: &Value) -> (Arc<ObjectText>, WrittenRule) {
    (Arc::new(ObjectText::new(rule)), WrittenRule::read(ControlPlane::Kcp, rule))
}

/// Returns the plan without the configuration about rules themselves, which every plan has.
fn plan(input: &PlanInput<'_>) -> Plan {
    let mut plan = super::plan(input);
    let of_rules = plan.configurations.remove(&ConfigurationKey::new(None, Side::Rules));
    assert!(matches!(of_rules, Some(ConfigurationPlan::Do { step: Step::Create, desired: Some(_) })), "{of_rules:?}");
    plan
}

/// Returns the key of the configuration about targets in a logical cluster.
fn of_targets(id: &str) -> ConfigurationKey {
    ConfigurationKey::new(Some(cluster(id)), Side::Targets)
}

fn two_workspaces() -> [Value; 2] {
    [binding("compute", "root:compute"), binding("network", NETWORK)]
}

/// Returns the step for a logical cluster, and the resources that its configuration is to hold.
fn at(plan: &Plan, id: &str) -> Option<(Step, Vec<String>)> {
    match plan.configurations.get(&of_targets(id))? {
        ConfigurationPlan::Do { step, desired } => {
            let rules = desired.as_ref().and_then(|desired| desired.pointer("/webhooks/0/rules")?.as_array());
            let names = rules.into_iter().flatten().map(|rule| rule["resources"][0].as_str().unwrap().to_owned());
            Some((step.clone(), names.collect()))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_target_is_installed_in_its_provider_s_workspace() {
    let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
    let bindings = two_workspaces();
    let input = input(&rules, &bindings, &[]);
    let plan = plan(&input);
    assert_eq!(at(&plan, "network"), Some((Step::Create, vec!["vpcs".to_owned()])));
    assert_eq!(at(&plan, "compute"), None);
}

#[test]
fn all_rules_share_the_configuration_of_a_workspace_whatever_their_order() {
    let mut rules: Vec<_> = (0..8)
        .map(|n| rule("compute", &format!("r{n}"), &[(NETWORK, &format!("kind{n}s.network.example.com"))]))
        .collect();
    rules.push(rules[0].clone());
    let bindings = two_workspaces();
    let forwards = at(&plan(&input(&rules, &bindings, &[])), "network").unwrap();
    rules.reverse();
    let backwards = at(&plan(&input(&rules, &bindings, &[])), "network").unwrap();
    assert_eq!(forwards, backwards);
    assert_eq!(forwards.1, (0..8).map(|n| format!("kind{n}s")).collect::<Vec<_>>());
}

#[test]
fn a_local_target_is_installed_in_the_rule_s_own_workspace() {
    let rules = [local(rule("compute", "a", &[(NETWORK, "configmaps")]))];
    let bindings = two_workspaces();
    let input = input(&rules, &bindings, &[]);
    assert_eq!(at(&plan(&input), "compute"), Some((Step::Create, vec!["configmaps".to_owned()])));
}

#[test]
fn what_rules_are_about_that_are_not_held_one_by_one_is_installed_too() {
    let left = rule("compute", "(further rules)", &[(NETWORK, "vpcs.network.example.com")]);
    let bindings = two_workspaces();
    let further = vec![WrittenRule::of_too_many(ControlPlane::Kcp, depguard_kcp::Allowance::DEFAULT, &left)];
    let input = PlanInput { further, ..input(&[], &bindings, &[]) };
    assert_eq!(input.claims().into_keys().collect::<Vec<_>>(), [path(NETWORK)]);
    let plan = plan(&input);
    assert_eq!(at(&plan, "network"), Some((Step::Create, vec!["vpcs".to_owned()])));
    assert!(plan.rules.is_empty());
}

#[test]
fn in_plain_kubernetes_there_is_one_place() {
    let rules = [local(rule("ignored", "a", &[(NETWORK, "configmaps")]))];
    let input = PlanInput { control_plane: ControlPlane::Kubernetes, ..input(&rules, &[], &[]) };
    let plan = plan(&input);
    assert_eq!(plan.configurations.keys().collect::<Vec<_>>(), [&ConfigurationKey::new(None, Side::Targets)]);
}

#[test]
fn without_rules_what_is_ours_goes_and_what_is_not_stays() {
    let mut foreign = stored(&desired_for(&["vpcs.network.example.com"]));
    foreign["metadata"]["labels"] = json!({});
    foreign["webhooks"][0]["name"] = json!("mine.example.com");
    let installed = [("network", stored(&desired_for(&["vpcs.network.example.com"]))), ("compute", foreign)];
    let bindings = two_workspaces();
    let input = input(&[], &bindings, &installed);
    let plan = plan(&input);
    assert_eq!(at(&plan, "network"), Some((Step::Delete, vec![])));
    assert_eq!(at(&plan, "compute"), None);
}

#[test]
fn one_target_less_is_applied_and_the_same_is_left() {
    let installed = [("network", stored(&desired_for(&["vpcs.network.example.com", "lans.network.example.com"])))];
    let bindings = two_workspaces();
    let both = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com"), (NETWORK, "lans.network.example.com")])];
    assert_eq!(at(&plan(&input(&both, &bindings, &installed)), "network").unwrap().0, Step::Nothing);
    let one = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
    assert_eq!(at(&plan(&input(&one, &bindings, &installed)), "network"), Some((Step::Apply, vec!["vpcs".to_owned()])));
}

#[test]
fn a_rule_before_its_provider_s_binding_waits() {
    let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
    let bindings = [binding("compute", "root:compute")];
    let input = input(&rules, &bindings, &[]);
    let plan = plan(&input);
    assert!(plan.configurations.is_empty());
    assert_eq!(input.claims(), Claims::from([(path(NETWORK), BTreeSet::new())]));
}

#[test]
fn a_workspace_whose_binding_went_is_left_alone() {
    let installed = [("network", stored(&desired_for(&["vpcs.network.example.com"])))];
    let bindings = [binding("compute", "root:compute")];
    assert!(plan(&input(&[], &bindings, &installed)).configurations.is_empty());
}

#[test]
fn nothing_is_removed_where_the_path_is_not_known() {
    let mut unknown = binding("network", NETWORK);
    unknown["metadata"]["annotations"].as_object_mut().unwrap().remove("kcp.io/path");
    let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
    let installed = [("network", stored(&desired_for(&["vpcs.network.example.com"])))];
    let bindings = [binding("compute", "root:compute"), unknown];
    let input = input(&rules, &bindings, &installed);
    assert_eq!(plan(&input).configurations.get(&of_targets("network")), Some(&ConfigurationPlan::PathUnknown));
}

#[test]
fn without_the_claim_nothing_is_tried() {
    let mut refusing = binding("network", NETWORK);
    refusing["spec"]["permissionClaims"][0]["state"] = json!("Rejected");
    let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
    let bindings = [binding("compute", "root:compute"), refusing];
    let input = input(&rules, &bindings, &[]);
    assert_eq!(plan(&input).configurations.get(&of_targets("network")), Some(&ConfigurationPlan::ClaimNotAccepted));
}

#[test]
fn a_path_that_two_workspaces_have_is_protected_in_both() {
    let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
    let bindings = [binding("one", NETWORK), binding("two", NETWORK)];
    let input = input(&rules, &bindings, &[]);
    let plan = plan(&input);
    assert!(at(&plan, "one").is_some() && at(&plan, "two").is_some());
}

#[test]
fn a_target_whose_provider_does_not_accept_the_rule_is_not_installed_for_it() {
    let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
    let bindings = two_workspaces();
    let planned = |accept: &str| {
        let exports = [accepting(export("network", "vpcs.network.example.com"), accept)];
        let rule_grants = RuleGrants::read(&exports, &bindings);
        let input = PlanInput { rule_grants, ..input(&rules, &bindings, &[]) };
        let plan = plan(&input);
        (at(&plan, "network").is_some(), plan.rules[0].targets[0].refused.clone())
    };
    assert_eq!(planned("root:compute"), (true, vec![]));
    assert_eq!(planned("clusters/compute"), (true, vec![]));
    assert_eq!(planned("root:else"), (false, vec![cluster("network")]));
    // Another rule's grant and targets are its own.
    let mut local = local(rule("network", "b", &[(NETWORK, "vpcs.network.example.com")]));
    local["spec"]["failurePolicy"] = json!("Ignore");
    let rules = [rules[0].clone(), local];
    let exports = [accepting(export("network", "vpcs.network.example.com"), "root:else")];
    let input = PlanInput { rule_grants: RuleGrants::read(&exports, &bindings), ..input(&rules, &bindings, &[]) };
    assert_eq!(at(&plan(&input), "network"), Some((Step::Create, vec!["vpcs".to_owned()])));
}

#[test]
fn the_paths_of_rules_are_looked_up_where_a_provider_restricts_whose_it_accepts() {
    let rules = [rule("evil", "a", &[(NETWORK, "vpcs.network.example.com")])];
    let paths_of = |claim: &str, accept: Option<&str>| {
        let bindings = [binding("evil", claim), binding("network", NETWORK)];
        let exports = accept.map(|accept| accepting(export("network", "vpcs.network.example.com"), accept));
        let input = PlanInput { rule_grants: RuleGrants::read(&exports, &bindings), ..input(&rules, &bindings, &[]) };
        input.claims().into_keys().map(|path| path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(paths_of("root:compute", None), [NETWORK]);
    assert_eq!(paths_of("root:compute", Some("root:compute")), ["root:compute", NETWORK]);
    // If a workspace claims no path, the accepted paths show whether it is at one of them.
    assert_eq!(paths_of("root:compute", Some("root:else")), ["root:compute", NETWORK]);
    assert_eq!(paths_of("no path", Some("root:else, root:a:*, *")), ["root:a", "root:else", NETWORK]);
    assert_eq!(paths_of("no path", None), [NETWORK]);
}

#[test]
fn of_those_that_claim_a_path_only_the_one_that_is_there_is_protected() {
    let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
    let bindings = [binding("truth", NETWORK), binding("liar", NETWORK)];
    let installed = [("liar", stored(&desired_for(&["vpcs.network.example.com"])))];
    let mut input = input(&rules, &bindings, &installed);
    let found = |id| WorkspaceLookup::Found { cluster: cluster(id), phase: "Ready".to_owned() };
    input.lookups.insert(path(NETWORK), found("truth"));
    assert_eq!(at(&plan(&input), "truth").unwrap().0, Step::Create);
    assert_eq!(at(&plan(&input), "liar").unwrap().0, Step::Delete);
    assert_eq!(input.display(&cluster("truth")), NETWORK);
    assert_eq!(input.display(&cluster("liar")), "with logical cluster liar");
    // Neither of the two has this path.
    input.lookups.insert(path(NETWORK), found("other"));
    assert_eq!(at(&plan(&input), "truth"), None);
    assert_eq!(at(&plan(&input), "liar").unwrap().0, Step::Delete);
    // The holder of the path is unknown: a parent that can't be found for a moment takes no protection away.
    for unknown in [WorkspaceLookup::NotFound, WorkspaceLookup::Unknown { why: "403".to_owned() }] {
        input.lookups.insert(path(NETWORK), unknown);
        assert_eq!(at(&plan(&input), "truth").unwrap().0, Step::Create);
        assert_eq!(at(&plan(&input), "liar").unwrap().0, Step::Nothing);
    }
}

#[test]
fn a_rule_that_cannot_be_used_keeps_its_targets_installed() {
    let valid = rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")]);
    let mut bad_path = valid.clone();
    bad_path["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec..name");
    let mut unknown_field = valid.clone();
    unknown_field["spec"]["dependent"]["novelty"] = json!(true);
    let installed = [("network", stored(&desired_for(&["vpcs.network.example.com"])))];
    let bindings = two_workspaces();
    for broken in [bad_path, unknown_field] {
        let rules = [broken];
        let input = input(&rules, &bindings, &installed);
        let plan = plan(&input);
        assert!(plan.rules[0].rule().is_err());
        assert_eq!(at(&plan, "network"), Some((Step::Nothing, vec!["vpcs".to_owned()])));
    }
    let mut nothing_left = valid;
    nothing_left["spec"] = json!({});
    let rules = [nothing_left];
    let input = input(&rules, &bindings, &installed);
    let plan = plan(&input);
    assert_eq!(plan.rules[0].key.name, "a");
    assert_eq!(at(&plan, "network"), Some((Step::Delete, vec![])));
}

#[test]
fn a_rule_in_error_weakens_no_other() {
    let good = rule("compute", "good", &[(NETWORK, "vpcs.network.example.com")]);
    let mut broken = rule("compute", "bad", &[(NETWORK, "vpcs.network.example.com")]);
    broken["spec"]["failurePolicy"] = json!("Ignore");
    broken["spec"]["dependencies"][0]["fieldRef"]["path"] = json!("..");
    let mut shapeless = good.clone();
    shapeless["spec"] = json!("nothing");
    let bindings = two_workspaces();
    let policies = |rules: &[Value]| {
        let input = input(rules, &bindings, &[]);
        let plan = plan(&input);
        let found = plan.configurations.get(&of_targets("network"));
        let Some(ConfigurationPlan::Do { desired: Some(desired), .. }) = found else {
            panic!("{:?}", plan.configurations)
        };
        let webhooks = desired["webhooks"].as_array().unwrap().iter();
        webhooks.map(|webhook| webhook["failurePolicy"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(policies(&[good.clone(), shapeless]), ["Fail"]);
    assert_eq!(policies(&[broken.clone(), good]), ["Fail", "Ignore"]);
    assert_eq!(policies(&[broken]), ["Ignore"]);
}

/// Returns the plan for the configuration about dependents of a logical cluster, or of the cluster.
fn of_dependents<'p>(plan: &'p Plan, id: Option<&str>) -> Option<&'p ConfigurationPlan> {
    plan.configurations.get(&ConfigurationKey::new(id.map(cluster), Side::Dependents))
}

#[test]
fn references_are_checked_where_the_rule_is() {
    let vpcs = || rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")]);
    let bindings = two_workspaces();
    for (rule, expected) in [(looking(vpcs(), "Deny"), true), (looking(local(vpcs()), "Audit"), true), (vpcs(), false)]
    {
        let rules = [rule];
        let input = input(&rules, &bindings, &[]);
        let plan = plan(&input);
        assert_eq!(of_dependents(&plan, Some("compute")).is_some(), expected);
        assert_eq!(of_dependents(&plan, Some("network")), None);
        let key = ConfigurationKey::new(Some(cluster("compute")), Side::Dependents);
        assert_eq!(plan.rules_by_configuration().contains_key(&key), expected);
    }
    let rules = [looking(local(vpcs()), "Warn")];
    let input = PlanInput { control_plane: ControlPlane::Kubernetes, ..input(&rules, &[], &[]) };
    let plan = plan(&input);
    assert_eq!(plan.configurations.len(), 2);
    let Some(ConfigurationPlan::Do { step: Step::Create, desired: Some(desired) }) = of_dependents(&plan, None) else {
        panic!("{plan:?}");
    };
    assert_eq!(desired["webhooks"][0]["rules"][0]["resources"], json!(["virtualmachines"]));
}

#[test]
fn rules_that_cannot_be_used_have_their_dependents_reviewed() {
    let mut broken = looking(rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")]), "Warn");
    broken["spec"]["dependencies"][0]["fieldRef"]["path"] = json!("..");
    let bindings = two_workspaces();
    let further = vec![WrittenRule::of_too_many(ControlPlane::Kcp, depguard_kcp::Allowance::DEFAULT, &broken)];
    let rules = [broken];
    let alone = plan(&input(&rules, &bindings, &[])).configurations;
    let key = ConfigurationKey::new(Some(cluster("compute")), Side::Dependents);
    let Some(ConfigurationPlan::Do { desired: Some(desired), .. }) = alone.get(&key) else { panic!("{alone:?}") };
    assert_eq!(desired["webhooks"][0]["rules"][0]["apiVersions"], json!(["*"]));
    let conditions = desired["webhooks"][0]["matchConditions"].as_array().unwrap();
    assert_eq!(conditions.iter().map(|condition| &condition["name"]).collect::<Vec<_>>(), ["not-being-deleted"]);
    let input = PlanInput { further, ..input(&[], &bindings, &[]) };
    assert_eq!(plan(&input).configurations.get(&key), alone.get(&key));
}

#[test]
fn what_no_rule_looks_for_any_more_is_not_reviewed_any_more() {
    let rules = [looking(rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")]), "Deny")];
    let bindings = two_workspaces();
    let planned = plan(&input(&rules, &bindings, &[]));
    let Some(ConfigurationPlan::Do { desired: Some(desired), .. }) = of_dependents(&planned, Some("compute")) else {
        panic!("{planned:?}");
    };
    let installed = stored(desired);
    let key = ConfigurationKey::new(Some(cluster("compute")), Side::Dependents);
    let step = |rules: &[Value], bindings: &[Value]| {
        let configurations = BTreeMap::from([(key.clone(), installed.clone())]);
        let input = PlanInput { configurations, ..input(rules, bindings, &[]) };
        match of_dependents(&plan(&input), Some("compute")) {
            Some(ConfigurationPlan::Do { step, .. }) => step.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(step(&rules, &bindings), Step::Nothing);
    assert_eq!(step(&[], &bindings), Step::Delete);
    // A workspace that unbinds depguard must not keep what nobody could remove later.
    let mut unbinding = two_workspaces();
    unbinding[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(step(&rules, &unbinding), Step::Delete);
}
