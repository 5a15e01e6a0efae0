//! Spec of a rule, and what can be said about it.

use serde_json::Value;

use super::SpecDecision;
use super::findings::Findings;
use super::kind_read::{KindRead, reads, state_of};
use crate::model::control_plane::ControlPlane;
use crate::model::field_path::FieldPath;
use crate::model::names::{Group, GroupResource, GroupVersionResource, Resource};
use crate::protocol::cause::Cause;
use crate::rule::checked_rule::Rule;
use crate::rule::error::RuleError;
use crate::schema::{self, KindFacts, KindState, Mismatch, SchemaFit};

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

    /// Returns the kinds to read: the dependents' kind first, with its fields.
    pub(super) fn kinds(&self) -> Vec<KindRead> {
        let targets = self.rule.edges().iter().map(|edge| &edge.target.gvr);
        let named = std::iter::once(&self.rule.dependent().gvr).chain(targets);
        let mut kinds = reads(named.map(|gvr| (gvr.group_resource(), Some(gvr.version.clone())))).into_iter();
        kinds.next().map(KindRead::with_schema).into_iter().chain(kinds).collect()
    }

    /// Returns what can be said about the rule by the kinds that are read.
    pub(super) fn findings(&self, kinds: &[KindRead]) -> Findings {
        let Self { rule, left_out } = self;
        let state = |gvr: &GroupVersionResource| state_of(kinds, &gvr.group_resource(), Some(&gvr.version));
        let facts = |gvr: &GroupVersionResource| -> Option<&KindFacts> { state(gvr).and_then(KindState::facts) };
        let mut found = self.own_findings();
        let dependent = rule.dependent();
        let of_targets = rule
            .edges()
            .iter()
            .map(|edge| (&edge.target.gvr, edge.target.kind.as_ref(), format!("spec.dependencies[{}]", edge.index)));
        let named = [(&dependent.gvr, Some(&dependent.kind), "spec.dependent".to_owned())];
        for (gvr, kind, field) in named.into_iter().chain(of_targets) {
            let Some(seen) = state(gvr) else { continue };
            if let Err(problem) = schema::kind(Some(seen), gvr, kind, &field) {
                match problem.what {
                    // A rule about what is not installed sleeps: packs are applied as a whole.
                    Mismatch::Unknown | Mismatch::NotInstalled => {}
                    Mismatch::NotServed | Mismatch::Version => found.warnings.push(problem.to_string()),
                    Mismatch::Kind => found.errors.push((problem.to_string(), Some(format!("{field}.kind")))),
                }
            }
        }
        let Some(dependents) = facts(&dependent.gvr) else { return found };
        for edge in rule.edges() {
            let problem = schema::namespace(rule, edge, dependents, facts(&edge.target.gvr), left_out);
            found.warnings.extend(problem.err().map(|problem| problem.to_string()));
        }
        if let Some(schema) = &dependents.schema {
            for path in schema::paths(rule, schema) {
                if matches!(path.fit, SchemaFit::Missing(_) | SchemaFit::Other(_)) {
                    found.errors.push((path.to_string(), Some(path.field)));
                }
            }
        }
        found
    }

    /// Returns what can be said about the rule without the kinds that it names.
    fn own_findings(&self) -> Findings {
        let unreviewed = schema::unreviewed(&self.rule).into_iter();
        let errors = unreviewed.map(|(field, why)| (format!("{field} has no effect: {why}; remove it"), Some(field)));
        let warnings = schema::local_targets(&self.rule).iter().map(ToString::to_string).collect();
        Findings { errors: errors.collect(), warnings }
    }
}
