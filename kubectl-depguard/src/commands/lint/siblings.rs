//! Check for fields that look like a rule's reference, in the same dependents, but that no rule covers: an object in a list
//! beside the same object alone, the containers of a Pod beside its init containers. A rule may say which of them it leaves
//! out, and why.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::FieldPath;
use depguard_core::api::LEFT_OUT_ANNOTATION;
use depguard_core::model::{GroupResource, Segment};
use depguard_core::rule::Reference;
use depguard_core::schema::{self, ExpectedType, KindState};

use super::code::Code;
use super::finding::Report;
use super::kinds::{KindReference, Kinds};
use super::reading::ParsedRule;

/// Limit on the fields that one finding names.
const MAX_TOLD: usize = 3;

/// Names of fields that say nothing of what is referred to: the field around says that.
const GENERIC: [&str; 6] = ["name", "names", "id", "ref", "value", "key"];

/// Reports the fields that look like a reference of one of `rules`, but that neither these nor `others` cover.
pub(super) fn check(rules: &[ParsedRule<'_>], others: &[ParsedRule<'_>], kinds: &mut Kinds, report: &mut Report) {
    let mut covered: BTreeSet<(GroupResource, Vec<Segment>)> = BTreeSet::new();
    let mut left_out: Vec<(GroupResource, FieldPath)> = Vec::new();
    for rule in rules.iter().chain(others) {
        let dependent = rule.rule.dependent().gvr.group_resource();
        covered.extend(rule.rule.edges().iter().map(|edge| (dependent.clone(), whole(edge.reference.path()))));
        left_out.extend(schema::left_out(&rule.subject.value).map(|path| (dependent.clone(), path)));
    }
    let mut paths: BTreeMap<KindReference, Vec<FieldPath>> = BTreeMap::new();
    for written in rules {
        let named = KindReference::dependent(&written.rule);
        let dependent = named.gvr.group_resource();
        let paths = paths.entry(named).or_insert_with_key(|named| names_in_schema(named, kinds));
        for edge in written.edges() {
            let Reference::Field(field) = &edge.reference else { continue };
            let Some(tail) = tail(&field.path).filter(|_| !field.keys) else { continue };
            let is_free = |path: &&FieldPath| {
                !covered.contains(&(dependent.clone(), whole(path)))
                    && !left_out.iter().any(|(of, whole)| *of == dependent && is_within(path, whole))
            };
            let alike: Vec<_> = paths
                .iter()
                .filter(|path| is_of_the_owner(path) && is_alike(&tail_of(path, tail.len()), &tail))
                .collect();
            let free: Vec<_> = alike.iter().copied().filter(is_free).collect();
            // If the schema doesn't have the rule's own field, another check says so.
            if free.is_empty() || !alike.contains(&&field.path) {
                continue;
            }
            let told: Vec<_> = free.iter().take(MAX_TOLD).map(|path| format!("`{path}`")).collect();
            let more = match free.len().saturating_sub(MAX_TOLD) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let message = format!(
                "no rule covers {}{more}, which looks like the same reference: add a dependency with that path if it is \
                 one, or else write the path and the reason into the annotation {LEFT_OUT_ANNOTATION}",
                told.join(", ")
            );
            let field = format!("spec.dependencies[{}].fieldRef.path", edge.index);
            report.push(Code::SimilarField, written.subject, field, message);
            // One finding tells of each field.
            covered.extend(free.into_iter().map(|path| (dependent.clone(), whole(path))));
        }
    }
}

fn names_in_schema(named: &KindReference, kinds: &mut Kinds) -> Vec<FieldPath> {
    match kinds.get(named).map(|known| known.seen) {
        Ok(KindState::Facts(facts)) => {
            facts.schema.as_ref().map(|schema| schema.paths(ExpectedType::Names)).unwrap_or_default()
        }
        Ok(KindState::NotServed | KindState::NotInstalled | KindState::Unknown(_)) | Err(_) => Vec::new(),
    }
}

/// Returns the path without wildcards at its end: the path of a list covers each of its names, too.
fn whole(path: &FieldPath) -> Vec<Segment> {
    let mut segments = path.segments();
    while let [field @ .., Segment::Wildcard] = segments {
        segments = field;
    }
    segments.to_vec()
}

/// Returns true if the path is that one, or a path of a field below.
fn is_within(path: &FieldPath, whole: &FieldPath) -> bool {
    path.segments().starts_with(whole.segments())
}

/// Returns true if the dependents' owner writes the field, not a controller.
fn is_of_the_owner(path: &FieldPath) -> bool {
    let first = path.segments().first();
    !matches!(first, Some(Segment::Name(first)) if first == "status" || first == "metadata")
}

/// Returns the names at the end of a path by which its field can be recognized elsewhere.
fn tail(path: &FieldPath) -> Option<Vec<&str>> {
    let last = tail_of(path, 1);
    let is_generic = last.first().is_some_and(|last| GENERIC.contains(last));
    let tail = if is_generic { tail_of(path, 2) } else { last };
    let is_telling = tail.len() > usize::from(is_generic) && tail.first() != Some(&"spec");
    is_telling.then_some(tail)
}

/// Returns true if the names are the same, in the singular or the plural: `backendRef`, `backendRefs`.
fn is_alike(one: &[&str], other: &[&str]) -> bool {
    let singular = |name: &&str| name.strip_suffix('s').unwrap_or(name).to_owned();
    one.iter().map(singular).eq(other.iter().map(singular))
}

/// Returns the last names of a path, without indexes and wildcards.
fn tail_of(path: &FieldPath, length: usize) -> Vec<&str> {
    let names = path.segments().iter().filter_map(|segment| match segment {
        Segment::Name(name) => Some(name.as_str()),
        _ => None,
    });
    let names: Vec<_> = names.collect();
    names.get(names.len().saturating_sub(length)..).unwrap_or_default().to_vec()
}
