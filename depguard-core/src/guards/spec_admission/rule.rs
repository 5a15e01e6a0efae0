//! Spec of a rule, and the findings about it.

use serde_json::Value;

use super::SpecDecision;
use super::findings::Findings;
use super::kind_read::{KindRead, read_of, reads};
use crate::model::control_plane::ControlPlane;
use crate::model::field_path::FieldPath;
use crate::model::names::{ExportName, Group, GroupResource, GroupVersionResource, Resource};
use crate::protocol::cause::Cause;
use crate::rule::checked_rule::Rule;
use crate::rule::error::RuleError;
use crate::rule::{Dependent, Edge};
use crate::schema::{self, KindFacts, KindState, Mismatch, SchemaFit};

/// Field that names the dependents' kind.
const DEPENDENT: &str = "spec.dependent";

/// Rule that can be used.
#[derive(Debug)]
pub(super) struct WrittenRule {
    rule: Rule,
    left_out: Vec<FieldPath>,
}

/// Returns a warning if a rule is about other dependents than before: two authors may have chosen the same name.
pub(super) fn replaces(before: &Value, after: &Value) -> Option<String> {
    let dependents = |spec: &Value| {
        let text = |field| spec.get("dependent")?.get(field)?.as_str();
        Some(GroupResource {
            group: Group::parse(text("group")?).ok()?,
            resource: Resource::parse(text("resource")?).ok()?,
        })
    };
    let (was, is) = (dependents(before)?, dependents(after)?);
    (was != is).then(|| {
        format!(
            "a rule of this name was about {was}, and is about {is} now: it protects nothing any more that {was} refer to; \
             give one of the two another name if both are meant"
        )
    })
}

impl WrittenRule {
    /// Reads a rule; the error is the decision on one that can't be used.
    pub(super) fn parse(control_plane: ControlPlane, object: &Value) -> Result<Self, SpecDecision> {
        match Rule::parse(control_plane, object) {
            Ok(rule) => Ok(Self { rule, left_out: schema::left_out(object).collect() }),
            // The review has no logical cluster, so nothing can be said about the rule.
            Err(RuleError::NoCluster) => Err(SpecDecision::NotReviewed),
            // The schema lets no unknown field in, so a newer version's rule comes before that version's webhook.
            Err(error @ RuleError::Shape(_)) => Err(SpecDecision::Accepted(vec![error.to_string()])),
            Err(error) => {
                let field = error.field().map(str::to_owned);
                Err(SpecDecision::Refused(Cause::RuleInvalid, vec![(error.to_string(), field)]))
            }
        }
    }

    /// Returns the kinds to read: the dependents' kind first, with its fields, and the targets' kinds. In kcp only those of
    /// the rule's own workspace are read.
    pub(super) fn kinds(&self) -> Vec<KindRead> {
        let Dependent { gvr, export, .. } = self.rule.dependent();
        let named = std::iter::once(gvr).chain(self.own_targets().map(|edge| &edge.target.gvr));
        let mut kinds = reads(named.map(|gvr| (gvr.group_resource(), Some(gvr.version.clone())))).into_iter();
        let within = |kind: KindRead, export: Option<&ExportName>| match &self.rule.key().cluster {
            Some(workspace) => kind.within(workspace.clone(), export.cloned()),
            None => kind,
        };
        let first = kinds.next().map(|kind| within(kind.with_schema(), export.as_ref()));
        first.into_iter().chain(kinds.map(|kind| within(kind, None))).collect()
    }

    /// Returns the edges whose targets are of the rule's own workspace or cluster.
    fn own_targets(&self) -> impl Iterator<Item = &Edge> {
        self.rule.edges().iter().filter(|edge| edge.target.export.is_none())
    }

    /// Returns what can be said about the rule by the kinds that are read.
    pub(super) fn findings(&self, kinds: &[KindRead]) -> Findings {
        let Self { rule, left_out } = self;
        let read = |gvr: &GroupVersionResource| read_of(kinds, &gvr.group_resource(), Some(&gvr.version));
        let state = |gvr: &GroupVersionResource| read(gvr).and_then(KindRead::state);
        let facts = |gvr: &GroupVersionResource| -> Option<&KindFacts> { state(gvr).and_then(KindState::facts) };
        let mut found = self.own_findings(kinds);
        let dependent = rule.dependent();
        let of_targets = self
            .own_targets()
            .map(|edge| (&edge.target.gvr, edge.target.kind.as_ref(), format!("spec.dependencies[{}]", edge.index)));
        let named = [(&dependent.gvr, Some(&dependent.kind), DEPENDENT.to_owned())];
        for (gvr, kind, field) in named.into_iter().chain(of_targets) {
            let Some(seen) = state(gvr) else { continue };
            if let Err(problem) = schema::kind(Some(seen), gvr, kind, &field) {
                match (problem.what, &dependent.export) {
                    // A rule about what is not installed sleeps: packs are applied as a whole.
                    (Mismatch::Unknown | Mismatch::NotInstalled, _) => {}
                    (Mismatch::NotServed, Some(export)) if field == DEPENDENT => found.warnings.push(format!(
                        "no APIExport {export} of this workspace serves {}: correct spec.dependent.apiExportName, group and \
                         resource, or have the export serve it",
                        gvr.group_resource()
                    )),
                    (Mismatch::NotServed | Mismatch::Version, _) => found.warnings.push(problem.to_string()),
                    (Mismatch::Kind, _) => found.errors.push((problem.to_string(), Some(format!("{field}.kind")))),
                }
            }
        }
        let Some(dependents) = facts(&dependent.gvr) else { return found };
        for edge in rule.edges() {
            let target = edge.target.export.is_none().then(|| facts(&edge.target.gvr)).flatten();
            let problem = schema::namespace(rule, edge, dependents, target, left_out);
            found.warnings.extend(problem.err().map(|problem| problem.to_string()));
        }
        if let Some(schema) = &dependents.schema {
            found.warnings.extend(rule.edges().iter().filter_map(|edge| schema::unclear_selector(edge, schema)));
            let others = rule.edges().iter().filter_map(|edge| schema::other_default(edge, schema));
            found.errors.extend(others.map(|other| (other.message, Some(other.field))));
            for path in schema::paths(rule, schema) {
                if matches!(path.fit, SchemaFit::Missing(_) | SchemaFit::Other(_)) {
                    found.errors.push((path.to_string(), Some(path.field)));
                }
            }
        }
        found
    }

    /// Returns what can be said about the rule without the schemas of the kinds that it names.
    fn own_findings(&self, kinds: &[KindRead]) -> Findings {
        let unreviewed = schema::unreviewed(&self.rule).into_iter();
        let errors = unreviewed.map(|(field, why)| (format!("{field} has no effect: {why}; remove it"), Some(field)));
        let left_out = |gvr: &GroupVersionResource, field: &str, missing: &str| {
            let kind = gvr.group_resource();
            let export = read_of(kinds, &kind, Some(&gvr.version))?.left_out()?;
            Some(schema::left_out_export(field, missing, &kind, export))
        };
        let local = schema::local_targets(&self.rule);
        let of_targets = self.own_targets().filter_map(|edge| {
            let field = format!("spec.dependencies[{}]", edge.index);
            let exported = left_out(&edge.target.gvr, &field, "apiExportRef");
            exported.or_else(|| local.iter().find(|local| local.field == field).map(ToString::to_string))
        });
        let of_dependent = left_out(&self.rule.dependent().gvr, DEPENDENT, "apiExportName");
        Findings { errors: errors.collect(), warnings: of_dependent.into_iter().chain(of_targets).collect() }
    }
}
