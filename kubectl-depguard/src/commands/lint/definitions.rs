//! Check for CustomResourceDefinitions that no rule protects. Kubernetes deletes a definition with all objects of its kind,
//! and API servers ask no webhook about these objects.

use std::collections::BTreeSet;

use depguard_core::api::OnDelete;
use depguard_core::model::GroupResource;
use depguard_core::rule::{Edge, Reference};

use super::code::Code;
use super::finding::Report;
use super::kinds::Kinds;
use super::reading::ParsedRule;

/// Limit on the definitions that the finding names.
const MAX_NAMED: usize = 3;

/// Reports the definitions of targets that none of `rules` and `others` protects: one finding for all of them, at the
/// first reference to one of their kinds. `kinds` tells which targets have their definition in the files.
pub(super) fn check(rules: &[ParsedRule<'_>], others: &[ParsedRule<'_>], kinds: &Kinds, report: &mut Report) {
    let protected: BTreeSet<&str> = rules.iter().chain(others).flat_map(refusing).filter_map(definition_of).collect();
    let mut unprotected: BTreeSet<GroupResource> = BTreeSet::new();
    let mut first = None;
    for rule in rules {
        for edge in refusing(rule) {
            let kind = edge.target.gvr.group_resource();
            if kinds.has_custom_resource_definition(&kind) && !protected.contains(kind.to_string().as_str()) {
                first.get_or_insert((rule.subject, edge.index));
                unprotected.insert(kind);
            }
        }
    }
    if let Some((subject, index)) = first {
        let field = format!("spec.dependencies[{index}].resource");
        report.push(Code::DefinitionUnprotected, subject, field, message(&unprotected));
    }
}

/// Returns the references of a rule that refuse deletions.
fn refusing<'r>(rule: &'r ParsedRule<'_>) -> impl Iterator<Item = &'r Edge> {
    rule.edges().filter(|edge| edge.on_delete == OnDelete::Deny)
}

/// Returns the name of the CustomResourceDefinition that a reference protects by a fixed name.
fn definition_of(edge: &Edge) -> Option<&str> {
    let Reference::Fixed(fixed) = &edge.reference else { return None };
    let target = &edge.target.gvr;
    let is_definition =
        target.group.as_str() == "apiextensions.k8s.io" && target.resource.as_str() == "customresourcedefinitions";
    is_definition.then_some(fixed.name.as_str())
}

fn message(unprotected: &BTreeSet<GroupResource>) -> String {
    let named: Vec<_> = unprotected.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    let more = match unprotected.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let definitions = if unprotected.len() == 1 { "definition" } else { "definitions" };
    format!(
        "no rule protects the {definitions} {}{more}: whoever deletes a definition deletes all its objects, and API \
         servers ask no webhook about them; `kubectl depguard suggest --definitions` prints a rule for each definition",
        named.join(", ")
    )
}
