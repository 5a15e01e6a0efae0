mod inputs;
mod interlocked;
mod older;
mod references;
mod schemas;
mod slips;
mod ways;
mod workspaces;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use depguard_core::api::FailurePolicy;
use depguard_core::applicability::{PathLookups, RuleGrants};
use depguard_core::probe::LoadedRule;
use depguard_core::rule::RuleKey;
use depguard_core::schema::{KindFacts, KindState};
use depguard_core::{ControlPlane, GroupVersionResource, WorkspacePath};
use depguard_kcp::{Allowance, ObjectText, WorkspaceLookup};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::manifests::ReadThrough;
use crate::model::api_bindings::Bindings;
use crate::model::api_exports::Exports;
use crate::model::configuration_key::Side;
use crate::model::reference_count::ReferenceCount;
use crate::probe::result::{ExpectedRules, ProbeResult};
use crate::rules::named_kinds::kind_keys;
use crate::rules::plan::plan;
use crate::rules::written_rule::WrittenRule;
use crate::runtime::client_config::Clients;
use crate::schema::kind_reader::KindKey;
use crate::testing::{accepting, binding, clients, cluster, export, local, path, rule};

const NETWORK: &str = "root:providers:network";
const NOW: &str = "2026-02-02T00:00:00Z";

/// Facts that settings share: they count by their address.
static VPCS: LazyLock<KindState> = LazyLock::new(|| facts("vpcs", |_| ()));
static MACHINES: LazyLock<KindState> = LazyLock::new(|| facts("virtualmachines", |_| ()));

/// Rules and their surroundings, with everything in order.
struct Setting {
    control_plane: ControlPlane,
    read_through: ReadThrough,
    rules: Vec<Value>,
    bindings: Vec<Value>,
    exports: Option<Vec<Value>>,
    outcome: Outcome,
    /// Outcome of the configuration about dependents, and result of its probe, if they are others.
    of_dependents: (Option<Outcome>, Option<ProbeResult>),
    lookups: BTreeMap<WorkspacePath, WorkspaceLookup>,
    /// Facts about kinds, where they differ from what the rules say.
    seen: Vec<(&'static str, KindState)>,
    /// Facts about all kinds, if there are no others.
    all: Option<fn(&GroupVersionResource) -> KindState>,
    /// True if there are more rules than are allowed.
    too_many: bool,
    interlock: Option<InterlockView>,
    /// Number of registers that the webhook of each side reports, and since when.
    registers: BTreeMap<Side, (u16, Instant)>,
    own_namespace: Option<String>,
    /// Rules that were not in force before, if no probe has a result for the moment.
    outstanding: Option<BTreeSet<RuleKey>>,
    /// Count of the references without a target.
    count: Option<ReferenceCount>,
    /// Kinds whose canaries came to the webhook.
    arriving: BTreeSet<GroupResource>,
}

impl Setting {
    fn from_rule(rule: Value) -> Self {
        Self {
            control_plane: ControlPlane::Kcp,
            read_through: ReadThrough::FrontProxy,
            rules: vec![rule],
            bindings: vec![binding("compute", "root:compute"), binding("network", NETWORK)],
            exports: Some(vec![
                export("compute", "virtualmachines.compute.example.com"),
                export("network", "vpcs.network.example.com"),
            ]),
            outcome: Outcome::Installed,
            of_dependents: (None, None),
            lookups: BTreeMap::new(),
            seen: Vec::new(),
            all: None,
            too_many: false,
            interlock: None,
            registers: BTreeMap::new(),
            own_namespace: None,
            outstanding: None,
            count: None,
            arriving: BTreeSet::new(),
        }
    }

    fn see(&self, key: &KindKey) -> KindState {
        if let Some(all) = self.all {
            return all(&key.gvr);
        }
        let resource = key.gvr.resource.as_str();
        let seen = self.seen.iter().find(|(name, _)| *name == resource);
        match seen {
            Some((_, seen)) => seen.clone(),
            None if resource == "vpcs" => VPCS.clone(),
            None if resource == "virtualmachines" => MACHINES.clone(),
            None => facts(resource, |_| ()),
        }
    }

    fn found(&self) -> PathLookups {
        let found = self.lookups.iter().filter_map(|(path, lookup)| match lookup {
            WorkspaceLookup::Found { cluster, .. } => Some((path.clone(), Some(cluster.clone()))),
            WorkspaceLookup::NotFound | WorkspaceLookup::Unknown { .. } => None,
        });
        found.collect()
    }

    fn read(&self, rule: &Value) -> WrittenRule {
        if self.too_many {
            WrittenRule::of_too_many(self.control_plane, Allowance { objects: 7, memory: 3 << 20 }, rule)
        } else {
            WrittenRule::read(self.control_plane, rule)
        }
    }

    /// Returns the objects that are to be written.
    fn changed(&self) -> Vec<Value> {
        self.in_round(|input, plan, found| {
            let said = SettledRules::default().new_statuses(input, plan, found, NOW).into_iter();
            said.filter_map(|said| said.change.map(|(_, after)| after)).collect()
        })
    }

    /// Has `of` look at what a round knows.
    fn in_round<R>(&self, of: impl FnOnce(&PlanInput<'_>, &Plan, &RoundOutcomes) -> R) -> R {
        self.in_round_of(&Arc::new(ObjectText::new(&self.rules[0])), of)
    }

    /// Does so with this text of the first rule.
    fn in_round_of<R>(
        &self,
        first: &Arc<ObjectText>,
        of: impl FnOnce(&PlanInput<'_>, &Plan, &RoundOutcomes) -> R,
    ) -> R {
        let texts = self.rules.iter().skip(1).map(|rule| Arc::new(ObjectText::new(rule)));
        let texts = std::iter::once(Arc::clone(first)).chain(texts);
        let input = PlanInput {
            control_plane: self.control_plane,
            read_through: self.read_through,
            export_name: "dependencies.opendefense.cloud",
            rules: texts.zip(&self.rules).map(|(text, rule)| (text, self.read(rule))).collect(),
            further: Vec::new(),
            bindings: Bindings::read(&self.bindings),
            configurations: BTreeMap::new(),
            exports: match &self.exports {
                Some(exports) => Exports::read(exports.clone()),
                None => Exports::Unavailable("403 Forbidden".to_owned()),
            },
            rule_grants: RuleGrants::read(self.exports.iter().flatten(), &self.bindings).looked_up(&self.found()),
            lookups: self.lookups.clone(),
            clients: Clients { own_namespace: self.own_namespace.clone(), ..clients() },
        };
        let plan = plan(&input);
        let of_dependents = |key: &ConfigurationKey| key.side == Side::Dependents;
        let outcomes = plan.configurations.keys().map(|key| {
            let other = self.of_dependents.0.clone().filter(|_| of_dependents(key));
            (key.clone(), other.unwrap_or_else(|| self.outcome.clone()))
        });
        let outcomes = outcomes.collect();
        let keys = plan.rules.iter().flat_map(|rule| kind_keys(&input, rule));
        let kinds = keys.map(|key| (key.clone(), self.see(&key))).collect();
        let probe_results = plan.rules_by_configuration().into_iter();
        let probe_results = probe_results.map(|(key, rules)| {
            let other = self.of_dependents.1.clone().filter(|_| of_dependents(&key));
            let result = other.unwrap_or_else(|| in_force(&rules, self.registers.get(&key.side)));
            (key, Arc::new(ProbeResult { arriving: self.arriving.clone(), ..result }))
        });
        let (mut probe_results, mut outstanding): (ProbeResults, _) = (probe_results.collect(), Outstanding::new());
        if let Some(not_in_force) = &self.outstanding {
            outstanding.extend(std::mem::take(&mut probe_results).into_keys().map(|key| (key, not_in_force.clone())));
        }
        let counts = plan.rules.iter().filter_map(|rule| Some((rule.key.clone(), self.count.clone()?)));
        let (counts, interlock) = (Arc::new(counts.collect()), self.interlock.clone());
        let found = RoundOutcomes { outcomes, kinds, probe_results, outstanding, counts, interlock };
        of(&input, &plan, &found)
    }

    /// Returns true if there is such a condition.
    fn has(&self, type_: &str) -> bool {
        stored_conditions(&self.changed()[0]).any(|condition| condition["type"] == type_)
    }

    /// Returns `status reason: message` of a condition.
    fn condition(&self, type_: &str) -> String {
        let object = self.changed().remove(0);
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).unwrap();
        let condition = conditions.iter().find(|condition| condition["type"] == type_).unwrap();
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        assert_eq!(condition["observedGeneration"], 3);
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    }
}

/// Returns a result in which the webhook has loaded these rules, and interlocks by so many registers since a time.
fn in_force(rules: &ExpectedRules, registers: Option<&(u16, Instant)>) -> ProbeResult {
    let mut loaded =
        BTreeMap::from([FailurePolicy::Fail, FailurePolicy::Ignore].map(|policy| (policy, Ok(vec![BTreeMap::new()]))));
    let mut steady = BTreeMap::new();
    for (key, expected) in rules {
        let number = registers.map_or(0, |(registers, _)| *registers);
        let rule = LoadedRule::new(expected.version.clone()).interlocked_by(number).authenticated(true);
        if let Some(Ok(replicas)) = loaded.get_mut(&expected.policy) {
            replicas[0].insert(key.clone(), rule.clone());
        }
        if let Some((_, since)) = registers {
            steady.insert(key.clone(), (vec![rule], *since));
        }
    }
    ProbeResult { loaded, steady, ..ProbeResult::default() }
}

/// Returns the facts about a kind as the rules here name it, after an edit.
fn facts(resource: &str, edit: impl Fn(&mut KindFacts)) -> KindState {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "vpcRef": {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "peer": {"type": "object", "properties": {"name": {"type": "string"}, "kind": {"type": "string", "default": "Peer"}}},
    }}}});
    let kind = if resource == "virtualmachines" { "VirtualMachine" } else { "VPC" };
    let definition = json!({"spec": {"scope": "Namespaced", "names": {"kind": kind}, "versions": [
        {"name": "v1alpha1", "served": true, "schema": schema},
    ]}});
    let mut facts = KindFacts::from_definition(&definition, "v1alpha1").unwrap();
    edit(&mut facts);
    KindState::Facts(Arc::new(facts))
}

fn vm_to_vpc() -> Value {
    rule("compute", "a", &[(NETWORK, "vpcs.network.example.com")])
}

#[test]
fn a_rule_in_order_says_so_and_where_its_targets_are() {
    let setting = Setting::from_rule(vm_to_vpc());
    assert_eq!(setting.condition("Accepted"), "True Accepted: the rule is well formed");
    assert!(setting.condition("ResolvedRefs").starts_with("True ResolvedRefs: "));
    assert_eq!(setting.condition("Programmed"), "True Programmed: installed in workspace root:providers:network");
    let object = setting.changed().remove(0);
    assert_eq!(object["status"]["observedGeneration"], 3);
    assert_eq!(object["metadata"]["resourceVersion"], "11");
    assert_eq!(
        object["status"]["targets"],
        json!([{
            "dependency": 0, "workspace": NETWORK, "logicalCluster": "network", "lookup": "NamespaceScan",
            "hint": "add `jsonPath: .spec.vpcRef.name` to selectableFields of version v1alpha1 of \
                virtualmachines.compute.example.com",
        }])
    );
}

#[test]
fn a_status_that_is_right_is_not_written_again_and_keeps_its_times() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    setting.rules = setting.changed();
    assert_eq!(setting.changed(), Vec::<Value>::new());

    // Another message, and the status of another condition.
    setting.rules[0]["status"]["conditions"][0]["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
    setting.rules[0]["status"]["conditions"][1]["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
    setting.rules[0]["status"]["conditions"][2]["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
    setting.outcome = Outcome::Failed("500".to_owned());
    let written = setting.changed().remove(0);
    let times = ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", NOW];
    for (index, time) in times.into_iter().enumerate() {
        assert_eq!(written["status"]["conditions"][index]["lastTransitionTime"], time, "condition {index}");
    }
}

#[test]
fn who_has_more_rules_than_allowed_is_told_what_to_do_and_once() {
    let mut setting = Setting { too_many: true, ..Setting::from_rule(vm_to_vpc()) };
    let accepted = setting.condition("Accepted");
    assert!(accepted.starts_with("False AllowanceExceeded: there are too many rules in its workspace: at most 7"));
    assert!(accepted.contains("3 MiB") && accepted.contains("--workspace-max-objects"), "{accepted}");
    let enforced = setting.condition("Enforced");
    assert!(enforced.contains("deletions of vpcs.network.example.com are refused where it applies"), "{enforced}");

    // Of the stored status only the condition `Accepted` is left in the reflector.
    setting.rules = setting.changed();
    setting.rules[0]["status"]["conditions"].as_array_mut().unwrap().truncate(1);
    assert_eq!(setting.changed(), Vec::<Value>::new());
    setting.rules[0]["metadata"]["generation"] = json!(4);
    assert_eq!(setting.changed().len(), 1, "it was written anew");
    setting.too_many = false;
    assert_eq!(setting.changed()[0]["status"]["conditions"][0]["status"], "True");
}

#[test]
fn a_rule_in_force_stays_so_while_a_probe_is_outstanding() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    let unprobed = Some(BTreeSet::new());
    let of = |setting: &Setting| setting.condition("Enforced").split(':').next().unwrap().to_owned();
    setting.outstanding.clone_from(&unprobed);
    assert_eq!(of(&setting), "Unknown NotAsked", "nobody has found the rule in force before");
    setting.outstanding = None;
    let in_force = setting.changed();
    setting.rules.clone_from(&in_force);
    setting.outstanding.clone_from(&unprobed);
    assert_eq!(setting.changed(), Vec::<Value>::new(), "nothing is written");
    let key = RuleKey { cluster: Some(cluster("compute")), name: "a".to_owned() };
    setting.outstanding = Some([key].into());
    assert_eq!(of(&setting), "Unknown NotAsked", "the last probe did not find the rule in force");
    setting.outstanding.clone_from(&unprobed);
    setting.rules[0]["metadata"]["generation"] = json!(4);
    let changed = setting.changed().remove(0);
    let enforced = changed["status"]["conditions"].as_array().unwrap().iter().find(|told| told["type"] == "Enforced");
    assert_eq!(enforced.unwrap()["reason"], "NotAsked", "the rule is another one now");
    setting.rules = in_force;
    setting.outcome = Outcome::Foreign;
    assert_eq!(of(&setting), "False NotProgrammed");
}

#[test]
fn what_keeps_a_target_from_being_installed_is_said_with_what_to_do() {
    for (outcome, expected) in [
        (
            Outcome::ClaimNotAccepted,
            "False ClaimNotAccepted: workspace root:providers:network has not accepted the claim on \
             validatingwebhookconfigurations: accept it in the APIBinding of dependencies.opendefense.cloud there",
        ),
        (
            Outcome::Foreign,
            "False ForeignConfiguration: ValidatingWebhookConfiguration dependency-controller in workspace \
             root:providers:network is not depguard's and was left alone: delete or rename it",
        ),
        (
            Outcome::Failed("`POST /x` was refused: 500".to_owned()),
            "False ApplyFailed: could not install in workspace root:providers:network, trying again: `POST /x` was \
             refused: 500",
        ),
        (
            Outcome::Newer { in_force: false },
            "False NewerConfiguration: a newer version of depguard wrote ValidatingWebhookConfiguration \
             dependency-controller in workspace root:providers:network, and it lacks something: unless",
        ),
        (
            Outcome::Newer { in_force: true },
            "True NewerConfiguration: installed in workspace root:providers:network; a newer version of \
             depguard wrote the configuration in workspace root:providers:network, which stays for a while",
        ),
        (
            Outcome::Pending("409".to_owned()),
            "False Pending: not yet installed in workspace root:providers:network: 409",
        ),
    ] {
        let setting = Setting { outcome, ..Setting::from_rule(vm_to_vpc()) };
        let said = setting.condition("Programmed");
        assert!(said.starts_with(expected), "{said}");
        assert!(setting.condition("ResolvedRefs").starts_with("True "));
    }
}

#[test]
fn a_rule_that_cannot_be_used_says_why_and_what_that_means() {
    let mut broken = vm_to_vpc();
    broken["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(".spec..name");
    let setting = Setting::from_rule(broken);
    let said = setting.condition("Accepted");
    assert!(said.starts_with("False Invalid: spec.dependencies[0].fieldRef.path: "), "{said}");
    assert!(said.contains("at offset 6"), "{said}");
    assert!(setting.condition("ResolvedRefs").starts_with("Unknown Invalid: "));
    assert!(setting.condition("Programmed").starts_with("True Programmed: installed in workspace root:providers"));
    assert_eq!(
        setting.condition("Enforced"),
        "False NotEnforceable: until the rule is corrected, deletions of vpcs.network.example.com are refused where it \
         applies"
    );
    let mut ignoring = setting.rules[0].clone();
    ignoring["spec"]["failurePolicy"] = json!("Ignore");
    let said = Setting::from_rule(ignoring).condition("Enforced");
    assert!(said.contains("deletions of vpcs.network.example.com are allowed as if the rule did not exist"), "{said}");
    let mut shapeless = vm_to_vpc();
    shapeless["spec"] = json!({});
    assert_eq!(Setting::from_rule(shapeless.clone()).condition("Programmed"), "False Invalid: nothing to install");
    assert!(
        Setting::from_rule(shapeless)
            .condition("Enforced")
            .starts_with("False NotEnforceable: the rule protects nothing")
    );
}

#[test]
fn what_a_rule_does_is_said() {
    let mut rule =
        rule("compute", "a", &[(NETWORK, "vpcs.network.example.com"), (NETWORK, "lans.network.example.com")]);
    let mut setting = Setting::from_rule(rule.clone());
    let lans = json!({"group": "network.example.com", "name": "lans", "schema": "x"});
    setting.exports.as_mut().unwrap()[1]["spec"]["resources"].as_array_mut().unwrap().push(lans);
    assert_eq!(
        setting.condition("Enforced"),
        "True Enforced: depguard refuses deletions of lans.network.example.com, vpcs.network.example.com while \
         dependents refer to them"
    );
    assert_eq!(setting.changed()[0]["status"]["summary"], "vpcs,lans");
    setting.outcome = Outcome::Pending("409".to_owned());
    assert!(
        setting.condition("Enforced").starts_with("False NotProgrammed: a webhook configuration is not installed: ")
    );
    rule["spec"]["dependencies"] = json!([]);
    assert!(Setting::from_rule(rule).condition("Enforced").starts_with("True Enforced: the rule names no dependency"));
}

#[test]
fn a_rule_without_consent_says_so_and_what_to_do() {
    let mut setting = Setting::from_rule(vm_to_vpc());
    let export = export("network", "vpcs.network.example.com");
    let accept = |setting: &mut Setting, accept: &str| {
        setting.exports.as_mut().unwrap()[1] = accepting(export.clone(), accept);
    };
    accept(&mut setting, "root:else");
    assert_eq!(
        setting.condition("ResolvedRefs"),
        "False RefNotPermitted: workspace root:providers:network does not accept rules of workspace root:compute about \
         the kinds of its APIExport network.example.com, so the rule does not protect them: ask its owner to add \
         root:compute to the annotation dependencies.opendefense.cloud/accept-rules-from of the APIExport"
    );
    assert!(
        setting
            .condition("Programmed")
            .starts_with("False RefNotPermitted: no webhook configuration is installed in workspace")
    );
    assert!(
        setting
            .condition("Enforced")
            .starts_with("False NotEnforceable: the rule does not protect vpcs.network.example.com")
    );
    assert_eq!(setting.changed()[0]["status"]["targets"][0]["logicalCluster"], "network");
    accept(&mut setting, "root:compute");
    assert!(setting.condition("Enforced").starts_with("True "));
    let assumed = "accepts the rule only while depguard can't verify that the rule's workspace is root:compute: add \
                   clusters/compute to the annotation";
    assert!(setting.condition("ResolvedRefs").contains(assumed), "{}", setting.condition("ResolvedRefs"));
    let found = |id| WorkspaceLookup::Found { cluster: cluster(id), phase: "Ready".to_owned() };
    setting.lookups.insert(path("root:compute"), found("compute"));
    assert!(!setting.condition("ResolvedRefs").contains("only while"));
    // The workspace only claims this path.
    setting.lookups.insert(path("root:compute"), found("honest"));
    let said = setting.condition("ResolvedRefs");
    let refused = "does not accept rules of workspace with logical cluster compute";
    assert!(said.contains(refused) && said.contains("add clusters/compute to"), "{said}");
    accept(&mut setting, "clusters/compute");
    assert!(setting.condition("Enforced").starts_with("True "));
    // The workspace claims something that is no path.
    let honest = std::mem::replace(&mut setting.bindings[0], binding("compute", "root/compute"));
    accept(&mut setting, "root:compute");
    let said = setting.condition("ResolvedRefs");
    assert!(said.contains("does not accept rules of workspace with logical cluster compute"), "{said}");
    setting.lookups.clear();
    let said = setting.condition("ResolvedRefs");
    let assumed = "accepts the rule only while depguard can't find out where the rule's workspace is, because the \
                   APIBinding of logical cluster compute has no annotation kcp.io/path that is a path: add \
                   clusters/compute to the annotation";
    assert!(said.contains(assumed), "{said}");
    setting.bindings[0] = honest;
    accept(&mut setting, "root:else, Compute");
    let said = setting.condition("ResolvedRefs");
    assert!(
        said.starts_with("True ") && said.contains("accepts all rules: `Compute` in it is not a workspace path"),
        "{said}"
    );
}

#[test]
fn a_local_rule_and_one_without_dependencies_are_in_order() {
    let setting = Setting::from_rule(local(rule("compute", "a", &[(NETWORK, "configmaps")])));
    assert!(setting.condition("ResolvedRefs").starts_with("True "));
    assert_eq!(setting.condition("Programmed"), "True Programmed: installed in workspace root:compute");
    assert_eq!(
        setting.changed()[0]["status"]["targets"],
        json!([{"dependency": 0, "workspace": "root:compute", "logicalCluster": "compute"}])
    );
    let setting = Setting::from_rule(rule("compute", "a", &[]));
    assert!(setting.condition("Programmed").starts_with("True Programmed: there is nothing to install"));

    let local = local(rule("ignored", "a", &[(NETWORK, "configmaps")]));
    let setting = Setting { control_plane: ControlPlane::Kubernetes, ..Setting::from_rule(local) };
    assert_eq!(setting.condition("Programmed"), "True Programmed: installed in the cluster");
}

#[test]
fn a_message_names_a_few_and_counts_the_rest() {
    let targets: Vec<_> = (0..9).map(|n| (format!("root:p{n}"), "vpcs.network.example.com")).collect();
    let targets: Vec<_> = targets.iter().map(|(path, kind)| (path.as_str(), *kind)).collect();
    let said = Setting::from_rule(rule("compute", "a", &targets)).condition("Programmed");
    assert!(said.ends_with("; and 4 more"), "{said}");
}
