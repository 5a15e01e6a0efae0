//! A rule against the kinds that it names: what the controller will say of it, by the controller's own code, and the
//! nearest of what there is.

use std::collections::{BTreeMap, BTreeSet};

use depguard_controller::fitting::{self, Fit, KindFacts, Mismatch, PathFit, Seen, Wanted};
use depguard_core::api::Strategy;
use depguard_core::{Edge, FieldPath, GroupResource, Kind};

use super::code::Code;
use super::finding::Report;
use super::kinds::{Kinds, Known, Named};
use super::nearest;
use super::patches::Patches;
use super::reading::{Written, dependency_of};

/// How often the nearest path is looked for: each time all paths of a schema are compared.
const MOST_COMPARED: usize = 500;

/// Checks rules against kinds.
pub(super) struct Against<'k> {
    kinds: &'k mut Kinds,
    paths: BTreeMap<(Named, bool), Vec<FieldPath>>,
    compared: usize,
    /// The kinds that are not known, and were told to be so.
    told: BTreeSet<GroupResource>,
}

impl<'k> Against<'k> {
    pub(super) fn new(kinds: &'k mut Kinds) -> Self {
        Self { kinds, paths: BTreeMap::new(), compared: 0, told: BTreeSet::new() }
    }

    /// Reports what is wrong with a rule, and what would make its lookups cheap.
    pub(super) fn check(&mut self, written: &Written<'_>, patches: &mut Patches, report: &mut Report) {
        let dependent = written.rule.dependent();
        let named = Named::dependent(&written.rule);
        let dependents = self.served(written, &named, Some(&dependent.kind), "spec.dependent", report);
        if let Some(facts) = facts(&dependents) {
            self.check_paths(written, &named, facts, report);
        }
        for edge in written.edges() {
            let field = format!("spec.dependencies[{}]", edge.index);
            let target = Named::target(edge);
            let targets = self.served(written, &target, edge.target.kind.as_ref(), &field, report);
            if let (Some(found), Some(dependents)) = (&dependents, facts(&dependents)) {
                suggest(written, edge, found, dependents, facts(&targets), patches, report);
            }
        }
    }

    /// Whether a kind is as the rule says. What is known of it, if that is anything.
    fn served(
        &mut self,
        written: &Written<'_>,
        named: &Named,
        kind: Option<&Kind>,
        field: &str,
        report: &mut Report,
    ) -> Option<Known> {
        let known = match self.kinds.get(named) {
            Ok(known) => known,
            Err(unknown) => {
                if unknown.code != Code::KindUnchecked {
                    report.push(unknown.code, written.subject, format!("{field}.resource"), unknown.message);
                } else if self.told.insert(named.gvr.group_resource()) {
                    report.push(unknown.code, written.subject, field, unknown.message);
                }
                return None;
            }
        };
        if let Err(problem) = fitting::kind(Some(&known.seen), &named.gvr, kind, field) {
            let (code, at) = match problem.what {
                Mismatch::Unknown => (Code::KindUnchecked, field.to_owned()),
                Mismatch::NotServed => (Code::KindNotServed, format!("{field}.resource")),
                Mismatch::Version => (Code::VersionNotServed, format!("{field}.version")),
                Mismatch::Kind => (Code::WrongKindName, format!("{field}.kind")),
            };
            let nearest = || self.kinds.nearest(&named.gvr.group_resource());
            let todo = match problem.what {
                Mismatch::Unknown => "; give its definition with --schemas".to_owned(),
                Mismatch::NotServed => {
                    nearest().map(|nearest| format!("; write `{nearest}` if that is meant")).unwrap_or_default()
                }
                Mismatch::Version | Mismatch::Kind => String::new(),
            };
            report.push(code, written.subject, at, format!("{problem}{todo}"));
        }
        Some(known)
    }

    fn check_paths(&mut self, written: &Written<'_>, named: &Named, facts: &KindFacts, report: &mut Report) {
        let usable: BTreeSet<_> = written.edges().map(|edge| edge.index).collect();
        let Some(schema) = &facts.schema else {
            // Of a version that isn't served that was said already.
            if facts.served.iter().any(|served| served == named.gvr.version.as_str()) {
                let message = format!(
                    "the paths were not checked: the schema of {} is not known; give its definition with --schemas",
                    named.gvr
                );
                report.push(Code::KindUnchecked, written.subject, "spec.dependent", message);
            }
            return;
        };
        for path in fitting::paths(&written.rule, schema) {
            if dependency_of(&path.field).is_none_or(|index| !usable.contains(&index)) {
                continue;
            }
            let (code, todo) = match path.fit {
                Fit::Fits => continue,
                Fit::Open => (Code::PathUnchecked, "; see for yourself that it is right".to_owned()),
                Fit::Missing(_) => (Code::PathNotFound, self.advice(&path, named, schema)),
                Fit::Other(_) => (Code::PathNotAName, self.advice(&path, named, schema)),
            };
            report.push(code, written.subject, path.field.clone(), format!("{path}{todo}"));
        }
    }

    /// The nearest path that there is.
    fn advice(&mut self, path: &PathFit<'_>, named: &Named, schema: &fitting::Schema) -> String {
        self.compared = self.compared.saturating_add(1);
        let wants_map = path.wanted == Wanted::Map;
        let nearest = (self.compared <= MOST_COMPARED).then(|| {
            let paths = self.paths.entry((named.clone(), wants_map)).or_insert_with(|| schema.paths(path.wanted));
            nearest::path(path.path, paths).cloned()
        });
        match nearest.flatten() {
            Some(nearest) => format!("; write `{nearest}` if that is meant"),
            None => "; correct the path".to_owned(),
        }
    }
}

/// Says which field to make selectable.
fn suggest(
    written: &Written<'_>,
    edge: &Edge,
    found: &Known,
    dependents: &KindFacts,
    targets: Option<&KindFacts>,
    patches: &mut Patches,
    report: &mut Report,
) {
    let lookup = fitting::lookup(edge, dependents, targets);
    let Some(path) = lookup.add else { return };
    let gvr = &written.rule.dependent().gvr;
    let read = match lookup.strategy {
        Some(Strategy::NamespaceScan) => "all of its namespace",
        Some(Strategy::Table) => "a table of all of its namespace",
        _ => "all of them",
    };
    let room = found.definition.as_ref().map(|definition| patches.add(definition, gvr.version.as_str(), &path));
    let how = match (room, found.definition.as_ref().map(|definition| definition.kind())) {
        (Some(false), _) => "; a version may have eight, and the others are taken first: choose".to_owned(),
        (Some(true), Some("APIResourceSchema")) => {
            "; an APIResourceSchema can't be changed, so make a new one (--patch prints how)".to_owned()
        }
        (Some(true), _) => "; --patch prints how".to_owned(),
        (None, _) => String::new(),
    };
    let message = format!(
        "a deletion of {} reads {read} to find the {} that refer to it: {}{how}",
        edge.target.gvr.resource,
        gvr.resource,
        fitting::selectable_hint(gvr, &path)
    );
    report.push(
        Code::SelectableField,
        written.subject,
        format!("spec.dependencies[{}].fieldRef.path", edge.index),
        message,
    );
}

fn facts(known: &Option<Known>) -> Option<&KindFacts> {
    match &known.as_ref()?.seen {
        Seen::Facts(facts) => Some(facts),
        Seen::NotServed | Seen::Unknown(_) => None,
    }
}
