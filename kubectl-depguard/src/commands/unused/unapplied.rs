//! References that a pack of this program knows, and that no rule at hand describes: an object that has none of the
//! others may be used by one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_controller::packs::RulePack;
use depguard_core::Rule;
use depguard_core::model::GroupResource;
use serde_json::Value;

use crate::cluster::documents::name_of;
use crate::cluster::rules::Rules;
use crate::cluster::source::Source;
use crate::engine::reference_scan::Scan;
use crate::io::exit::Failure;
use crate::io::output::some_of;

/// Kinds that may refer to objects, by the objects' kind and by the pack that knows it.
#[derive(Debug, Default)]
pub(super) struct UnappliedPacks {
    kinds: BTreeMap<GroupResource, BTreeMap<&'static str, BTreeSet<String>>>,
    /// Command that gets the rules of a pack, without the pack's name.
    command: &'static str,
}

/// Adds to each rule that a pack has the strict one of the same name: what a default rule leaves to another rule, or to
/// Kubernetes, is a use nevertheless. Its references count only to kinds that are targets in the rule at hand, and only if
/// both rules read the dependents in the same version.
pub(super) fn with_strict(mut rules: Rules) -> Rules {
    let control_plane = rules.control_plane;
    let packs = RulePack::all().iter().filter(|pack| pack.control_plane == control_plane);
    let strict: Vec<_> = packs.flat_map(|pack| pack.strict().rules()).collect();
    let added = rules.objects.iter().filter_map(|own| {
        let mut strict = strict.iter().find(|strict| name_of(strict) == name_of(own))?.clone();
        let target = |dependency: &Value| (dependency.get("group").cloned(), dependency.get("resource").cloned());
        let targets: Vec<_> = own.pointer("/spec/dependencies")?.as_array()?.iter().map(target).collect();
        let dependencies = strict.pointer_mut("/spec/dependencies")?.as_array_mut()?;
        dependencies.retain(|dependency| targets.contains(&target(dependency)));
        // In kcp, the metadata tell the rule's workspace.
        strict.as_object_mut()?.insert("metadata".to_owned(), own.get("metadata")?.clone());
        let (known, parsed) = (Rule::parse(control_plane, own).ok()?, Rule::parse(control_plane, &strict).ok()?);
        (known != parsed && known.dependent().gvr == parsed.dependent().gvr).then(|| Arc::new(strict))
    });
    let added: Vec<_> = added.collect();
    rules.objects.extend(added);
    rules
}

impl UnappliedPacks {
    /// Compares the packs with the edges of a scan. Only kinds count that the API server serves, or of which the files have
    /// objects.
    pub(super) async fn find(source: &Source, rules: &Rules, scan: &Scan) -> Result<Self, Failure> {
        let known = source.kinds().await?;
        let is_present = |kind: &GroupResource| match source {
            Source::Manifests(manifests) => manifests.objects_of(kind).next().is_some(),
            Source::ApiServer(_) => known.of(kind).is_some() || known.unread_of(&kind.group).next().is_some(),
        };
        let applied: BTreeSet<_> = scan.edges.iter().map(|it| (it.dependent(), it.target(), it.edge.field())).collect();
        let command = if source.is_live() { "rules apply" } else { "rules show" };
        let mut unapplied = Self { command, ..Self::default() };
        for pack in RulePack::all().iter().filter(|pack| pack.control_plane == rules.control_plane) {
            for rule in pack.strict().rules().iter().filter_map(|rule| Rule::parse(rules.control_plane, rule).ok()) {
                let dependent = rule.dependent().gvr.group_resource();
                let edges = rule.edges().iter().filter(|edge| {
                    !applied.contains(&(dependent.clone(), edge.target.gvr.group_resource(), edge.field()))
                });
                for target in edges.map(|edge| edge.target.gvr.group_resource()).filter(|_| is_present(&dependent)) {
                    let kinds = unapplied.kinds.entry(target).or_default().entry(pack.name).or_default();
                    kinds.insert(rule.dependent().kind.to_string());
                }
            }
        }
        Ok(unapplied)
    }

    /// Returns the reasons why an object of this kind may be used.
    pub(super) fn reasons(&self, kind: &GroupResource) -> impl Iterator<Item = String> {
        self.kinds.get(kind).into_iter().flatten().map(|(pack, kinds)| {
            let kinds = some_of(kinds.iter().cloned(), ", ");
            format!("{kinds} may refer to it by rules that are not at hand: `kubectl depguard {} {pack}`", self.command)
        })
    }
}
