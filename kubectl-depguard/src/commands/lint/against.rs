//! Checks of a rule against the kinds that it names. The controller's own code decides; this module adds the nearest
//! existing path.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::{LEFT_OUT_ANNOTATION, OnMissing, Strategy};
use depguard_core::model::{GroupResource, Kind};
use depguard_core::rule::Edge;
use depguard_core::schema::{self, ExpectedType, KindFacts, Mismatch, NamespaceMismatch, PathFit, SchemaFit};
use depguard_core::{ControlPlane, FieldPath};

use super::code::Code;
use super::finding::Report;
use super::kinds::{KindFindings, KindReference, Kinds};
use super::nearest;
use super::patches::Patches;
use super::reading::{ParsedRule, dependency_of};

/// Limit on the searches for the nearest path: each compares all paths of a schema.
const MAX_COMPARED: usize = 500;

/// Checker of rules against kinds.
pub(super) struct KindChecker<'k> {
    kinds: &'k mut Kinds,
    control_plane: ControlPlane,
    paths: BTreeMap<(KindReference, bool), Vec<FieldPath>>,
    compared: usize,
    /// Kinds that are reported as unknown already.
    reported: BTreeSet<GroupResource>,
}

impl<'k> KindChecker<'k> {
    pub(super) fn new(kinds: &'k mut Kinds, control_plane: ControlPlane) -> Self {
        Self { kinds, control_plane, paths: BTreeMap::new(), compared: 0, reported: BTreeSet::new() }
    }

    /// Reports the mistakes of a rule, and the changes that would make its lookups cheap.
    pub(super) fn check(&mut self, written: &ParsedRule<'_>, patches: &mut Patches, report: &mut Report) {
        let unreviewed = schema::unreviewed(&written.rule);
        for (field, why) in &unreviewed {
            let message = format!("{field} has no effect: {why}; remove it");
            report.push(Code::KindUnreviewed, written.subject, field, message);
        }
        let dependent = written.rule.dependent();
        let named = KindReference::dependent(&written.rule);
        let dependents = self.served(written, &named, Some(&dependent.kind), "spec.dependent", report);
        if let Some(facts) = facts(&dependents) {
            self.check_paths(written, &named, facts, report);
            if written.edges().any(|edge| edge.on_missing != OnMissing::Ignore) {
                self.check_server(written, &named, facts, "spec.dependent", report);
            }
        }
        for target in schema::local_targets(&written.rule) {
            report.push(Code::LocalTarget, written.subject, target.field.clone(), target.to_string());
        }
        for edge in written.edges() {
            let field = format!("spec.dependencies[{}]", edge.index);
            if unreviewed.iter().any(|(named, _)| *named == field) {
                continue;
            }
            let target = KindReference::target(edge);
            let targets = self.served(written, &target, edge.target.kind.as_ref(), &field, report);
            if let Some(facts) = facts(&targets) {
                self.check_server(written, &target, facts, &field, report);
            }
            if let Some(dependents) = facts(&dependents) {
                check_namespace(written, edge, dependents, facts(&targets), report);
            }
            if let (Some(found), Some(dependents)) = (&dependents, facts(&dependents)) {
                suggest(written, edge, found, dependents, facts(&targets), patches, report);
            }
        }
    }

    /// Checks a kind against the rule, and returns the kind's facts if any are known.
    fn served(
        &mut self,
        written: &ParsedRule<'_>,
        named: &KindReference,
        kind: Option<&Kind>,
        field: &str,
        report: &mut Report,
    ) -> Option<KindFindings> {
        let known = match self.kinds.get(named) {
            Ok(known) => known,
            Err(unknown) => {
                if unknown.code == Code::GroupNotDefined {
                    report.push(unknown.code, written.subject, format!("{field}.group"), unknown.message);
                } else if unknown.code != Code::KindUnchecked {
                    report.push(unknown.code, written.subject, format!("{field}.resource"), unknown.message);
                } else if self.reported.insert(named.gvr.group_resource()) {
                    report.push(unknown.code, written.subject, field, unknown.message);
                }
                return None;
            }
        };
        if let Err(problem) = schema::kind(Some(&known.seen), &named.gvr, kind, field) {
            let (code, at) = match problem.what {
                Mismatch::Unknown => (Code::KindUnchecked, field.to_owned()),
                Mismatch::NotServed | Mismatch::NotInstalled => (Code::KindNotServed, format!("{field}.resource")),
                Mismatch::Version => (Code::VersionNotServed, format!("{field}.version")),
                Mismatch::Kind => (Code::WrongKindName, format!("{field}.kind")),
            };
            let nearest = || self.kinds.nearest(&named.gvr.group_resource());
            let todo = match problem.what {
                Mismatch::Unknown => "; give its definition with --schemas".to_owned(),
                Mismatch::NotServed | Mismatch::NotInstalled => {
                    let group = || self.kinds.group_meant(&named.gvr.group_resource());
                    let meant = nearest().map(str::to_owned).or_else(group);
                    meant.map(|meant| format!("; write `{meant}` if you mean that")).unwrap_or_default()
                }
                Mismatch::Version | Mismatch::Kind => String::new(),
            };
            report.push(code, written.subject, at, format!("{problem}{todo}"));
        }
        Some(known)
    }

    /// Reports a kind about which webhooks may not be asked.
    fn check_server(
        &self,
        written: &ParsedRule<'_>,
        named: &KindReference,
        facts: &KindFacts,
        field: &str,
        report: &mut Report,
    ) {
        // Without the right to see definitions, most kinds that have one look like this.
        if self.control_plane == ControlPlane::Kubernetes
            && facts.is_aggregated == Some(true)
            && let Some(why) = facts.may_go_unreviewed(&named.gvr.group_resource(), field != "spec.dependent")
        {
            report.push(Code::AggregatedServer, written.subject, field, why);
        }
    }

    fn check_paths(&mut self, written: &ParsedRule<'_>, named: &KindReference, facts: &KindFacts, report: &mut Report) {
        let usable: BTreeSet<_> = written.edges().map(|edge| edge.index).collect();
        let Some(schema) = &facts.schema else {
            // A version that isn't served is reported already.
            if facts.served.iter().any(|served| served == named.gvr.version.as_str()) {
                let message = format!(
                    "the paths were not checked: the schema of {} is unknown; give its definition with --schemas",
                    named.gvr
                );
                report.push(Code::KindUnchecked, written.subject, "spec.dependent", message);
            }
            return;
        };
        for edge in written.edges() {
            if let Some(unclear) = schema::unclear_selector(edge, schema) {
                let field = format!("spec.dependencies[{}].selectorRef.path", edge.index);
                report.push(Code::UnclearSelector, written.subject, field, unclear);
            }
            if let Some(other) = schema::other_default(edge, schema) {
                report.push(Code::OtherDefault, written.subject, other.field, other.message);
            }
        }
        for path in schema::paths(&written.rule, schema) {
            if dependency_of(&path.field).is_none_or(|index| !usable.contains(&index)) {
                continue;
            }
            let (code, todo) = match path.fit {
                SchemaFit::Fits => continue,
                SchemaFit::Open => (Code::PathUnchecked, "; check it by hand".to_owned()),
                SchemaFit::Missing(_) => (Code::PathNotFound, self.advice(written, &path, named, schema)),
                SchemaFit::Other(_) => (Code::PathNotAName, self.advice(written, &path, named, schema)),
            };
            report.push(code, written.subject, path.field.clone(), format!("{path}{todo}"));
        }
    }

    fn is_exchanged(&mut self, edge: &Edge, dependents: &schema::Schema) -> bool {
        let targets = self.kinds.get(&KindReference::target(edge)).ok();
        let targets = facts(&targets).and_then(|targets| targets.schema.as_ref());
        targets.is_some_and(|targets| schema::is_exchanged(edge, dependents, targets))
    }

    /// Returns advice: to exchange dependent and target, or the nearest existing path.
    fn advice(
        &mut self,
        written: &ParsedRule<'_>,
        path: &PathFit<'_>,
        named: &KindReference,
        schema: &schema::Schema,
    ) -> String {
        let edge = written.edges().find(|edge| Some(edge.index) == dependency_of(&path.field));
        if let Some(edge) = edge.filter(|edge| self.is_exchanged(edge, schema)) {
            let (dependent, target) = (named.gvr.group_resource(), edge.target.gvr.group_resource());
            return format!(
                "; {target} have it, so dependent and target are probably exchanged: name {target} in spec.dependent, and \
                 {dependent} in spec.dependencies[{}]",
                edge.index
            );
        }
        self.compared = self.compared.saturating_add(1);
        let is_map = path.expected == ExpectedType::Map;
        let nearest = (self.compared <= MAX_COMPARED).then(|| {
            let paths = self.paths.entry((named.clone(), is_map)).or_insert_with(|| schema.paths(path.expected));
            nearest::path(path.path, paths).cloned()
        });
        match nearest.flatten() {
            Some(nearest) => format!("; write `{nearest}` if you mean that"),
            None => "; correct the path".to_owned(),
        }
    }
}

/// Reports a doubt about the namespace of an edge's targets, unless the rule says why it leaves the field out.
fn check_namespace(
    written: &ParsedRule<'_>,
    edge: &Edge,
    dependents: &KindFacts,
    targets: Option<&KindFacts>,
    report: &mut Report,
) {
    let left_out: Vec<_> = schema::left_out(&written.subject.value).collect();
    let Err(problem) = schema::namespace(&written.rule, edge, dependents, targets, &left_out) else { return };
    let (code, todo) = match &problem.what {
        NamespaceMismatch::WithoutEffect => (Code::NamespaceWithoutEffect, String::new()),
        NamespaceMismatch::LeftOut(path) => (
            Code::NamespaceLeftOut,
            format!(", or write `{path}` and the reason why it says nothing into the annotation {LEFT_OUT_ANNOTATION}"),
        ),
    };
    report.push(code, written.subject, problem.field.clone(), format!("{problem}{todo}"));
}

/// Suggests a field to make selectable.
fn suggest(
    written: &ParsedRule<'_>,
    edge: &Edge,
    found: &KindFindings,
    dependents: &KindFacts,
    targets: Option<&KindFacts>,
    patches: &mut Patches,
    report: &mut Report,
) {
    let lookup = schema::lookup(edge, dependents, targets);
    let Some(path) = lookup.add else { return };
    let gvr = &written.rule.dependent().gvr;
    let resource = &gvr.resource;
    let read = match lookup.strategy {
        Some(Strategy::NamespaceScan) => format!("all {resource} of the namespace"),
        Some(Strategy::Table) => format!("a table of all {resource} of the namespace"),
        _ => format!("all {resource}"),
    };
    let room = found.definition.as_ref().map(|definition| patches.add(definition, gvr.version.as_str(), &path));
    let how = match (room, found.definition.as_ref().map(|definition| definition.kind())) {
        (Some(false), _) => {
            "; a version can have only eight selectable fields, and other fields come first: choose".to_owned()
        }
        (Some(true), Some("APIResourceSchema")) => {
            "; an APIResourceSchema can't be changed, so create a new one (--patch prints the command)".to_owned()
        }
        (Some(true), _) => "; --patch prints the command".to_owned(),
        (None, _) => String::new(),
    };
    let message = format!(
        "each deletion of {} reads {read} to find references: {}{how}",
        edge.target.gvr.resource,
        schema::selectable_hint(gvr, &path)
    );
    report.push(
        Code::SelectableField,
        written.subject,
        format!("spec.dependencies[{}].fieldRef.path", edge.index),
        message,
    );
}

fn facts(known: &Option<KindFindings>) -> Option<&KindFacts> {
    known.as_ref()?.seen.facts()
}
