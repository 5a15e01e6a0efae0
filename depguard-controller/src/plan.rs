//! From everything that is watched to what is to be done: pure, and made anew from all rules each time.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::FailurePolicy;
use depguard_core::{
    Consents, ExportRef, GroupResource, Home, LogicalCluster, Outline, Rule, RuleKey, RuleSet, WorkspacePath,
};
use depguard_kcp::{Claims, WorkspaceLookup};
use serde_json::Value;

use crate::bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::configuration::{self, ClientConfigs, Kinds, Step};
use crate::exports::Exports;

/// Where a configuration is installed: a provider's logical cluster, or in home kubernetes the one cluster (`None`).
pub(crate) type Place = Option<LogicalCluster>;

/// Everything that a plan is made from.
#[derive(Debug)]
pub(crate) struct World<'v> {
    pub(crate) home: Home,
    /// The name of depguard's APIExport.
    pub(crate) export_name: &'v str,
    /// All DependencyRules, as the API server returned them.
    pub(crate) rules: Vec<&'v Value>,
    /// depguard's own APIBindings; none in home kubernetes.
    pub(crate) bindings: Bindings,
    /// The configurations that have our configuration's name.
    pub(crate) configurations: BTreeMap<Place, &'v Value>,
    pub(crate) exports: Exports<'v>,
    /// Whose rules the exports accept, as far as it can be seen.
    pub(crate) consents: Consents,
    /// What is known of the workspaces that rules name.
    pub(crate) lookups: BTreeMap<WorkspacePath, WorkspaceLookup>,
    pub(crate) clients: ClientConfigs,
}

/// What is to be done, and what each rule asks for.
#[derive(Debug)]
pub(crate) struct Plan<'v> {
    /// Each place that has or should have a configuration of ours.
    pub(crate) places: BTreeMap<Place, PlacePlan>,
    /// Each rule, in the order of the world.
    pub(crate) rules: Vec<RulePlan<'v>>,
}

/// What is to be done at a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlacePlan {
    /// Make the configuration as desired; `None`: there should be none.
    Do { step: Step, desired: Option<Value> },
    /// The workspace does not let us.
    ClaimNotAccepted,
    /// It can't be told yet which targets this workspace has.
    PathUnknown,
}

/// What a rule asks for.
#[derive(Debug)]
pub(crate) struct RulePlan<'v> {
    pub(crate) object: &'v Value,
    pub(crate) key: RuleKey,
    /// The rule, or why it can't be used.
    pub(crate) rule: Result<Rule, String>,
    pub(crate) failure_policy: FailurePolicy,
    /// Its targets, also those that could be read from a rule that can't be used.
    pub(crate) targets: Vec<TargetPlan>,
}

/// A target of a rule.
#[derive(Debug)]
pub(crate) struct TargetPlan {
    /// The index in `spec.dependencies`.
    pub(crate) dependency: usize,
    pub(crate) export: Option<ExportRef>,
    pub(crate) kind: GroupResource,
    /// Where its configuration belongs.
    pub(crate) places: Vec<Place>,
    /// The workspaces of that path whose provider does not accept the rule. With no places either: nobody there has
    /// bound depguard.
    pub(crate) refused: Vec<LogicalCluster>,
}

impl World<'_> {
    /// The paths that rules name, and the logical clusters that claim each: what is to be looked up.
    pub(crate) fn claims(&self) -> Claims {
        if self.home == Home::Kubernetes {
            return Claims::new();
        }
        let rules = RuleSet::load(self.home, self.rules.iter().copied());
        let claimants = |path| self.bindings.at(path).iter().cloned().collect();
        rules.workspace_paths().map(|path| (path.clone(), claimants(path))).collect()
    }

    /// The logical clusters that a path may stand for: of those that claim it the one that its Workspace object names,
    /// or all where that is not known. A configuration too many does no harm.
    pub(crate) fn clusters(&self, path: &WorkspacePath) -> impl Iterator<Item = &LogicalCluster> {
        let found = match self.lookups.get(path) {
            Some(WorkspaceLookup::Found { cluster, .. }) => Some(cluster),
            _ => None,
        };
        self.bindings.at(path).iter().filter(move |claimant| found.is_none_or(|found| found == *claimant))
    }

    /// A workspace as messages call it: by the path that it claims, unless that was found to be a lie.
    pub(crate) fn display(&self, cluster: &LogicalCluster) -> String {
        let path = self.bindings.of(cluster).and_then(|binding| binding.path.as_ref());
        let path = path.filter(|path| match self.lookups.get(*path) {
            Some(WorkspaceLookup::Found { cluster: found, .. }) => found == cluster,
            Some(WorkspaceLookup::NotFound) => false,
            Some(WorkspaceLookup::Unknown { .. }) | None => true,
        });
        path.map_or_else(|| format!("with logical cluster {cluster}"), ToString::to_string)
    }
}

/// Plans.
///
/// A target is installed whether or not the exports that its rule names are seen: consumers' bindings outlive an
/// export, and the webhook alone knows whether a rule bears on a deletion.
pub(crate) fn plan<'v>(world: &World<'v>) -> Plan<'v> {
    let rules: Vec<_> = world.rules.iter().map(|rule| plan_rule(world, rule)).collect();
    let mut kinds: BTreeMap<&Place, Kinds> = BTreeMap::new();
    for (rule, target) in rules.iter().flat_map(|rule| rule.targets.iter().map(move |target| (rule, target))) {
        for place in &target.places {
            kinds.entry(place).or_default().insert(rule.failure_policy, target.kind.clone());
        }
    }
    let places: BTreeSet<_> = kinds.keys().copied().chain(world.configurations.keys()).collect();
    let places = places.into_iter().filter_map(|place| {
        let desired = kinds.get(place).map(|kinds| configuration::desired(kinds, &world.clients));
        Some((place.clone(), plan_place(world, place, desired)?))
    });
    Plan { places: places.collect(), rules }
}

/// `None`: nothing is to be done there, or nothing can be, as nobody there has bound depguard any more.
fn plan_place(world: &World<'_>, place: &Place, desired: Option<Value>) -> Option<PlacePlan> {
    let existing = world.configurations.get(place).copied();
    let step = configuration::step(existing, desired.as_ref());
    if desired.is_none() && step != Step::Delete {
        return None;
    }
    if let Some(cluster) = place {
        let binding = world.bindings.of(cluster)?;
        if binding.claim(CONFIGURATIONS) == Claim::NotAccepted {
            return Some(PlacePlan::ClaimNotAccepted);
        }
        if binding.path.is_none() {
            return Some(PlacePlan::PathUnknown);
        }
    }
    Some(PlacePlan::Do { step, desired })
}

fn plan_rule<'v>(world: &World<'v>, object: &'v Value) -> RulePlan<'v> {
    match Rule::parse(world.home, object) {
        Ok(rule) => {
            let targets = rule.edges().iter().map(|edge| {
                let kind = edge.target.gvr.group_resource();
                plan_target(world, rule.key(), edge.index, edge.target.export.clone(), kind)
            });
            let (targets, key) = (targets.collect(), rule.key().clone());
            RulePlan { object, key, failure_policy: rule.failure_policy(), rule: Ok(rule), targets }
        }
        // Where such a rule bears, its failure policy decides, and the webhook is asked only where its targets are
        // installed.
        Err(error) => {
            let outline = Outline::read(world.home, object)
                .filter(|outline| world.home == Home::Kubernetes || outline.key.cluster.is_some());
            let (key, targets, failure_policy) = match outline {
                Some(outline) => (outline.key, outline.targets, outline.failure_policy),
                None => (key_of(world.home, object), Vec::new(), FailurePolicy::Fail),
            };
            let targets = targets.into_iter().enumerate();
            let targets =
                targets.map(|(index, (export, kind))| plan_target(world, &key, index, export, kind)).collect();
            RulePlan { object, key, failure_policy, rule: Err(error.to_string()), targets }
        }
    }
}

fn plan_target(
    world: &World<'_>,
    rule: &RuleKey,
    dependency: usize,
    export: Option<ExportRef>,
    kind: GroupResource,
) -> TargetPlan {
    let (places, refused) = match (world.home, &export, &rule.cluster) {
        (Home::Kubernetes, ..) => (vec![None], Vec::new()),
        (Home::Kcp, None, own) => (vec![own.clone()], Vec::new()),
        (Home::Kcp, Some(export), own) => {
            let accepts = |provider: &LogicalCluster| {
                own.as_ref().is_none_or(|own| world.consents.accept(own, provider, &export.name))
            };
            let (accepting, refusing): (Vec<_>, Vec<_>) = world.clusters(&export.path).cloned().partition(accepts);
            (accepting.into_iter().map(Some).collect(), refusing)
        }
    };
    TargetPlan { dependency, export, kind, places, refused }
}

impl TargetPlan {
    /// Whether nobody at its path has bound depguard.
    pub(crate) fn is_unbound(&self) -> bool {
        self.places.is_empty() && self.refused.is_empty()
    }
}

/// Which rule an object is whose spec can't be read at all.
fn key_of(home: Home, object: &Value) -> RuleKey {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let cluster = match home {
        Home::Kcp => text("/metadata/annotations/kcp.io~1cluster"),
        Home::Kubernetes => None,
    };
    RuleKey {
        cluster: cluster.and_then(|cluster| LogicalCluster::parse(cluster).ok()),
        name: text("/metadata/name").unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{accepting, binding, client_configs, cluster, desired_for, export, local, path, rule, stored};

    const NETWORK: &str = "root:providers:network";

    /// A world of these rules and bindings, with these configurations installed.
    fn world<'v>(rules: &'v [Value], bindings: &[Value], installed: &'v [(&str, Value)]) -> World<'v> {
        World {
            home: Home::Kcp,
            export_name: "dependencies.opendefense.cloud",
            rules: rules.iter().collect(),
            bindings: Bindings::read(bindings),
            configurations: installed.iter().map(|(id, found)| (Some(cluster(id)), found)).collect(),
            exports: Exports::Unavailable("not watched".to_owned()),
            consents: Consents::default(),
            lookups: BTreeMap::new(),
            clients: client_configs(),
        }
    }

    fn two_workspaces() -> [Value; 2] {
        [binding("compute", "root:compute"), binding("network", NETWORK)]
    }

    /// What is to be done at a logical cluster, and the resources that its configuration is to hold.
    fn at(plan: &Plan<'_>, id: &str) -> Option<(Step, Vec<String>)> {
        match plan.places.get(&Some(cluster(id)))? {
            PlacePlan::Do { step, desired } => {
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
        let world = world(&rules, &bindings, &[]);
        let plan = plan(&world);
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
        let forwards = at(&plan(&world(&rules, &bindings, &[])), "network").unwrap();
        rules.reverse();
        let backwards = at(&plan(&world(&rules, &bindings, &[])), "network").unwrap();
        assert_eq!(forwards, backwards);
        assert_eq!(forwards.1, (0..8).map(|n| format!("kind{n}s")).collect::<Vec<_>>());
    }

    #[test]
    fn a_local_target_is_installed_in_the_rule_s_own_workspace() {
        let rules = [local(rule("compute", "a", &[(NETWORK, "configmaps")]))];
        let bindings = two_workspaces();
        let world = world(&rules, &bindings, &[]);
        assert_eq!(at(&plan(&world), "compute"), Some((Step::Create, vec!["configmaps".to_owned()])));
    }

    #[test]
    fn in_home_kubernetes_there_is_one_place() {
        let rules = [local(rule("ignored", "a", &[(NETWORK, "configmaps")]))];
        let world = World { home: Home::Kubernetes, ..world(&rules, &[], &[]) };
        let plan = plan(&world);
        assert_eq!(plan.places.keys().collect::<Vec<_>>(), [&None]);
    }

    #[test]
    fn without_rules_what_is_ours_goes_and_what_is_not_stays() {
        let mut foreign = stored(&desired_for(&["vpcs.network.example.com"]));
        foreign["metadata"]["labels"] = json!({});
        foreign["webhooks"][0]["name"] = json!("mine.example.com");
        let installed = [("network", stored(&desired_for(&["vpcs.network.example.com"]))), ("compute", foreign)];
        let bindings = two_workspaces();
        let world = world(&[], &bindings, &installed);
        let plan = plan(&world);
        assert_eq!(at(&plan, "network"), Some((Step::Delete, vec![])));
        assert_eq!(at(&plan, "compute"), None);
    }

    #[test]
    fn one_target_less_is_applied_and_the_same_is_left() {
        let installed = [("network", stored(&desired_for(&["vpcs.network.example.com", "lans.network.example.com"])))];
        let bindings = two_workspaces();
        let both =
            [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com"), (NETWORK, "lans.network.example.com")])];
        assert_eq!(at(&plan(&world(&both, &bindings, &installed)), "network").unwrap().0, Step::Nothing);
        let one = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
        assert_eq!(
            at(&plan(&world(&one, &bindings, &installed)), "network"),
            Some((Step::Apply, vec!["vpcs".to_owned()]))
        );
    }

    #[test]
    fn a_rule_before_its_provider_s_binding_waits() {
        let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
        let bindings = [binding("compute", "root:compute")];
        let world = world(&rules, &bindings, &[]);
        let plan = plan(&world);
        assert!(plan.places.is_empty());
        assert_eq!(world.claims(), Claims::from([(path(NETWORK), BTreeSet::new())]));
    }

    #[test]
    fn a_workspace_whose_binding_went_is_left_alone() {
        let installed = [("network", stored(&desired_for(&["vpcs.network.example.com"])))];
        let bindings = [binding("compute", "root:compute")];
        assert!(plan(&world(&[], &bindings, &installed)).places.is_empty());
    }

    #[test]
    fn nothing_is_removed_where_the_path_is_not_known() {
        let mut unknown = binding("network", NETWORK);
        unknown["metadata"]["annotations"].as_object_mut().unwrap().remove("kcp.io/path");
        let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
        let installed = [("network", stored(&desired_for(&["vpcs.network.example.com"])))];
        let bindings = [binding("compute", "root:compute"), unknown];
        let world = world(&rules, &bindings, &installed);
        assert_eq!(plan(&world).places.get(&Some(cluster("network"))), Some(&PlacePlan::PathUnknown));
    }

    #[test]
    fn without_the_claim_nothing_is_tried() {
        let mut refusing = binding("network", NETWORK);
        refusing["spec"]["permissionClaims"][0]["state"] = json!("Rejected");
        let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
        let bindings = [binding("compute", "root:compute"), refusing];
        let world = world(&rules, &bindings, &[]);
        assert_eq!(plan(&world).places.get(&Some(cluster("network"))), Some(&PlacePlan::ClaimNotAccepted));
    }

    #[test]
    fn a_path_that_two_workspaces_have_is_protected_in_both() {
        let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
        let bindings = [binding("one", NETWORK), binding("two", NETWORK)];
        let world = world(&rules, &bindings, &[]);
        let plan = plan(&world);
        assert!(at(&plan, "one").is_some() && at(&plan, "two").is_some());
    }

    #[test]
    fn a_target_whose_provider_does_not_accept_the_rule_is_not_installed_for_it() {
        let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
        let bindings = two_workspaces();
        let planned = |accept: &str| {
            let exports = [accepting(export("network", "vpcs.network.example.com"), accept)];
            let consents = Consents::read(&exports, &bindings);
            let world = World { consents, ..world(&rules, &bindings, &[]) };
            let plan = plan(&world);
            (at(&plan, "network").is_some(), plan.rules[0].targets[0].refused.clone())
        };
        assert_eq!(planned("root:compute"), (true, vec![]));
        assert_eq!(planned("root:else"), (false, vec![cluster("network")]));
        // Another rule's consent, and its targets, are its own.
        let mut local = local(rule("network", "b", &[(NETWORK, "vpcs.network.example.com")]));
        local["spec"]["failurePolicy"] = json!("Ignore");
        let rules = [rules[0].clone(), local];
        let exports = [accepting(export("network", "vpcs.network.example.com"), "root:else")];
        let world = World { consents: Consents::read(&exports, &bindings), ..world(&rules, &bindings, &[]) };
        assert_eq!(at(&plan(&world), "network"), Some((Step::Create, vec!["vpcs".to_owned()])));
    }

    #[test]
    fn of_those_that_claim_a_path_only_the_one_that_is_there_is_protected() {
        let rules = [rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])];
        let bindings = [binding("truth", NETWORK), binding("liar", NETWORK)];
        let installed = [("liar", stored(&desired_for(&["vpcs.network.example.com"])))];
        let mut world = world(&rules, &bindings, &installed);
        let found = |id| WorkspaceLookup::Found { cluster: cluster(id), phase: "Ready".to_owned() };
        world.lookups.insert(path(NETWORK), found("truth"));
        assert_eq!(at(&plan(&world), "truth").unwrap().0, Step::Create);
        assert_eq!(at(&plan(&world), "liar").unwrap().0, Step::Delete);
        assert_eq!(world.display(&cluster("truth")), NETWORK);
        assert_eq!(world.display(&cluster("liar")), "with logical cluster liar");
        // Neither of them is there.
        world.lookups.insert(path(NETWORK), found("other"));
        assert_eq!(at(&plan(&world), "truth"), None);
        assert_eq!(at(&plan(&world), "liar").unwrap().0, Step::Delete);
        // It is not known which: a parent that can't be found for a moment unprotects nobody.
        for unknown in [WorkspaceLookup::NotFound, WorkspaceLookup::Unknown { why: "403".to_owned() }] {
            world.lookups.insert(path(NETWORK), unknown);
            assert_eq!(at(&plan(&world), "truth").unwrap().0, Step::Create);
            assert_eq!(at(&plan(&world), "liar").unwrap().0, Step::Nothing);
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
            let world = world(&rules, &bindings, &installed);
            let plan = plan(&world);
            assert!(plan.rules[0].rule.is_err());
            assert_eq!(at(&plan, "network"), Some((Step::Nothing, vec!["vpcs".to_owned()])));
        }
        let mut nothing_left = valid;
        nothing_left["spec"] = json!({});
        let rules = [nothing_left];
        let world = world(&rules, &bindings, &installed);
        let plan = plan(&world);
        assert_eq!(plan.rules[0].key.name, "a");
        assert_eq!(at(&plan, "network"), Some((Step::Delete, vec![])));
    }
}
