//! Flaws of rules that can be read: what keeps such a rule from finding its dependents. A controller has looked for them
//! in the rules of an API server; rules in files are held against the definitions beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::model::GroupResource;
use depguard_core::schema::{self, KindState, Mismatch, SchemaFit};
use depguard_core::{ControlPlane, Group, GroupVersionResource, Rule};
use serde_json::Value;

use crate::cluster::built_in_kinds;
use crate::cluster::documents::{Document, name_of};
use crate::cluster::kinds::{KindInfo, Kinds};
use crate::cluster::resource_path::text;
use crate::cluster::rule_manifests::{ends_of, kind_of};
use crate::cluster::rules::{Reach, ReadFailure, targets_of};

/// Returns true if a controller reports that kinds of a rule are missing: those that are served tell whether the rule
/// misspells one.
pub(crate) fn misses_kinds(rule: &Value) -> bool {
    untrue(rule, "ResolvedRefs").is_some_and(|it| is_about_kinds(text(it, "/reason")))
}

fn is_about_kinds(reason: &str) -> bool {
    matches!(reason, "KindNotFound" | "Dormant")
}

/// Returns a condition of a rule that is False, if it is about the rule's current version.
fn untrue<'r>(rule: &'r Value, type_: &str) -> Option<&'r Value> {
    let generation = rule.pointer("/metadata/generation");
    let conditions = rule.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_current = |condition: &Value| condition.get("observedGeneration").is_none_or(|of| Some(of) == generation);
    let mut untrue = conditions.filter(|it| text(it, "/status") == "False" && is_current(it));
    untrue.find(|condition| text(condition, "/type") == type_)
}

/// Returns the flaw that a controller reports in the conditions of a rule, if they are about its current version. `kinds`
/// are needed only for a rule that [misses](misses_kinds) some.
pub(crate) fn reported(rule: &Value, kinds: Option<&Kinds>) -> Option<ReadFailure> {
    let (accepted, resolved) = (untrue(rule, "Accepted"), untrue(rule, "ResolvedRefs"));
    let misnamed = resolved.filter(|it| match text(it, "/reason") {
        // The target's provider wants no protection by this rule.
        "RefNotPermitted" => false,
        reason if is_about_kinds(reason) => kinds
            .is_none_or(|kinds| ends_of(rule.get("spec").unwrap_or(&Value::Null)).any(|end| is_misnamed(end, kinds))),
        _ => true,
    });
    let enforced = untrue(rule, "Enforced").filter(|it| resolved.is_none() && text(it, "/reason") == "NotEnforceable");
    let flaw = accepted.or(misnamed).or(enforced)?;
    Some(failure(rule, misnamed.is_some(), text(flaw, "/message").to_owned()))
}

/// Returns the flaws of rules in files. `has_objects` tells of which kinds the files have objects, so that these kinds
/// exist even if nothing defines them.
pub(crate) fn found(
    rules: &[Arc<Value>],
    definitions: &[Document],
    has_objects: impl Fn(&GroupResource) -> bool,
) -> Vec<ReadFailure> {
    let mut facts = Definitions::new(definitions);
    let flaw = |object: &Arc<Value>| {
        let rule = Rule::parse(ControlPlane::Kubernetes, object).ok()?;
        if let Some(why) = facts.misnamed(&rule, &has_objects) {
            return Some(failure(object, true, why));
        }
        let known = facts.get(&rule.dependent().gvr)?;
        let paths = schema::paths(&rule, known.facts()?.schema.as_ref()?);
        let misfit = paths.iter().find(|path| matches!(path.fit, SchemaFit::Missing(_) | SchemaFit::Other(_)))?;
        Some(failure(object, false, misfit.to_string()))
    };
    rules.iter().filter_map(flaw).collect()
}

/// Kinds that are defined in files, and Kubernetes' own.
struct Definitions<'d> {
    custom: BTreeMap<GroupResource, &'d Value>,
    known: BTreeMap<GroupVersionResource, Option<KindState>>,
}

impl<'d> Definitions<'d> {
    fn new(definitions: &'d [Document]) -> Self {
        let kinds = definitions.iter().flat_map(|definition| {
            let kinds = KindInfo::from_definition(&definition.value);
            kinds.into_iter().map(|kind| (kind.gvr.group_resource(), &*definition.value))
        });
        Self { custom: kinds.collect(), known: BTreeMap::new() }
    }

    fn get(&mut self, gvr: &GroupVersionResource) -> Option<&KindState> {
        let custom = &self.custom;
        let read = || match custom.get(&gvr.group_resource()) {
            Some(definition) => Some(KindState::from_definition(definition, gvr.version.as_str())),
            None => built_in_kinds::facts(gvr).map(|facts| KindState::Facts(Arc::new(facts))),
        };
        self.known.entry(gvr.clone()).or_insert_with(read).as_ref()
    }

    /// Returns the reason why a rule names a kind that is not there, or not in this version.
    fn misnamed(&mut self, rule: &Rule, has_objects: impl Fn(&GroupResource) -> bool) -> Option<String> {
        let targets = rule.edges().iter().map(|edge| (format!("spec.dependencies[{}]", edge.index), &edge.target.gvr));
        let mut ends = std::iter::once(("spec.dependent".to_owned(), &rule.dependent().gvr)).chain(targets);
        ends.find_map(|(field, gvr)| {
            let kind = gvr.group_resource();
            match self.get(gvr) {
                Some(known) => {
                    let problem = schema::kind(Some(known), gvr, None, &field).err()?;
                    (problem.what == Mismatch::Version).then(|| problem.to_string())
                }
                None if has_objects(&kind) => None,
                None => {
                    let built_in = built_in_kinds::all().iter().map(|kind| kind.gvr.group_resource());
                    let mut defined = self.custom.keys().cloned().chain(built_in);
                    let meant = defined.find(|known| known.group == kind.group && is_near(known, &kind))?;
                    Some(format!(
                        "{field} names {kind}, which nothing defines: write `{}` if you mean that",
                        meant.resource
                    ))
                }
            }
        })
    }
}

/// Returns true if an API server doesn't serve the kind that a rule names, although it serves the kind's group, or a group
/// with nearly the same name. Another group is not installed, so that no object is of its kinds.
fn is_misnamed(end: &Value, kinds: &Kinds) -> bool {
    let Some(gvr) = kind_of(end) else { return true };
    !kinds.iter().any(|known| known.gvr == gvr) && may_be_installed(&gvr.group, kinds)
}

/// Returns true if an API server serves kinds of a group, or of one with nearly the same name, or if nobody knows.
pub(crate) fn may_be_installed(group: &Group, kinds: &Kinds) -> bool {
    let is_near = |known: &Group| differs_little(known.as_str(), group.as_str());
    kinds.unread().next().is_some() || kinds.iter().any(|known| is_near(&known.gvr.group))
}

fn is_near(known: &GroupResource, written: &GroupResource) -> bool {
    differs_little(known.resource.as_str(), written.resource.as_str())
}

/// Returns true if a name may be a misspelling of another: one letter of a short name differs, or two of a long one.
fn differs_little(one: &str, other: &str) -> bool {
    strsim::osa_distance(one, other) <= (one.len() / 4).clamp(1, 2)
}

/// Returns what the flaw of a rule leaves unread.
pub(crate) fn about(rule: &str) -> String {
    format!("the references of rule {rule}")
}

fn failure(rule: &Value, is_misnamed: bool, why: String) -> ReadFailure {
    let targets = targets_of(rule);
    let reach = if is_misnamed { Reach::Near(targets) } else { Reach::These(targets) };
    ReadFailure { what: about(name_of(rule)), why, reach: reach.or_all() }
}
