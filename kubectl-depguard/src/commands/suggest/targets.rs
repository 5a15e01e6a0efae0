//! Targets: the kinds that the words of a field mean.

use super::conventions::{NO_TARGETS, TELLING};
use super::definition::{Definition, Export, KindName};
use super::words::{singulars, words};
use crate::cluster::built_in_kinds;
use crate::cluster::kinds::KindInfo;

/// Kind that may be referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: KindName,
    pub(super) export: Option<Export>,
    /// True for a given kind, false for a kind of Kubernetes that is not among the given ones.
    pub(super) given: bool,
    /// True if the kind's word alone is enough to mean it.
    pub(super) telling: bool,
    names: Vec<String>,
    /// Other words for the kind, in fields that name or refer.
    also: &'static [&'static str],
}

/// Match of a field's words with the name of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchKind {
    /// The words are the name: `vpc` and `VPC`.
    Whole,
    /// The words end with the name: `peerVpc` and `VPC`.
    Tail,
    /// The name ends with the words: `request` and `ClusterRequest`.
    Part,
}

/// All kinds that may be referred to.
pub(super) struct Kinds {
    all: Vec<Target>,
}

impl Kinds {
    /// Collects the given kinds, and those of Kubernetes in their stable versions. What is alpha or beta is off in most
    /// clusters, and often has a namesake elsewhere, as PodGroup and Workload do.
    pub(super) fn new(definitions: &[Definition]) -> Self {
        let given = definitions.iter().map(|definition| Target {
            names: joined_names(&definition.name),
            also: &[],
            name: definition.name.clone(),
            export: definition.export.clone(),
            given: true,
            telling: true,
        });
        let mut all: Vec<_> = given.collect();
        let is_stable = |known: &&KindInfo| !known.gvr.version.as_str().contains(['a', 'b']);
        for known in built_in_kinds::all().iter().filter(is_stable) {
            let name = KindName::from_kind(known);
            let is_there = |target: &Target| target.name.group == name.group && target.name.resource == name.resource;
            if !NO_TARGETS.contains(&known.kind.as_str()) && !all.iter().any(is_there) {
                let words = TELLING.iter().find(|words| words.group == name.group && words.kind == name.kind);
                let (telling, also) = (words.is_some(), words.map_or(&[][..], |words| words.also));
                all.push(Target { names: joined_names(&name), name, export: None, given: false, telling, also });
            }
        }
        Self { all }
    }

    /// Returns the kind of that name in the group. Without a group, the dependent's own group comes first.
    pub(super) fn of_kind(&self, kind: &str, group: Option<&str>, own_group: &str) -> Option<&Target> {
        let mut named = self.all.iter().filter(|target| target.name.kind == kind);
        match group {
            Some(group) => named.find(|target| target.name.group == group),
            None => nearest(named, own_group),
        }
    }

    /// Returns the kind of that name that a description of a field of `own` may mean: another one, and of Kubernetes' own
    /// only one whose name means no other thing.
    pub(super) fn described(&self, kind: &str, own: &KindName) -> Option<&Target> {
        let named = self.of_kind(kind, None, &own.group)?;
        (named.name != *own && named.telling).then_some(named)
    }

    /// Returns the kinds that some words of a field of `own` mean, the best first. Only the first is meant if the field
    /// holds no kind. `explicit`: the field's name says that it names or refers.
    pub(super) fn meant(&self, words: &[String], own: &KindName, explicit: bool) -> Option<(MatchKind, Vec<&Target>)> {
        let own_group = own.group.as_str();
        for start in 0..words.len() {
            let tail = words.get(start..).unwrap_or_default();
            if let Some(target) = self.called(&tail.concat(), own_group, explicit && start == 0) {
                let how = if start == 0 { MatchKind::Whole } else { MatchKind::Tail };
                let wider = self.ending_with(tail, own_group).filter(|wider| *wider != target);
                return Some((how, std::iter::once(target).chain(wider).collect()));
            }
        }
        let mut parts: Vec<_> = self.ending_with(words, own_group).collect();
        // A `requestRef` of an AccessRequest means the ClusterRequest.
        if parts.len() > 1 {
            parts.retain(|target| target.name != *own);
        }
        (!parts.is_empty()).then_some((MatchKind::Part, parts))
    }

    fn called(&self, joined: &str, own_group: &str, by_other_words: bool) -> Option<&Target> {
        let called = |target: &&Target| {
            target.names.iter().any(|name| name == joined) || by_other_words && target.also.contains(&joined)
        };
        nearest(self.all.iter().filter(called), own_group)
    }

    /// Returns the given kinds of the dependent's own group whose names end with these words.
    fn ending_with(&self, tail: &[String], own_group: &str) -> impl Iterator<Item = &Target> {
        let (last, before) = tail.split_last().map_or((None, &[][..]), |(last, before)| (Some(last), before));
        let tails: Vec<Vec<String>> = (last.into_iter())
            .flat_map(|last| singulars(last))
            .map(|last| before.iter().cloned().chain([last]).collect())
            .collect();
        self.all.iter().filter(move |target| {
            let kind = words(&target.name.kind);
            target.given
                && target.name.group == own_group
                && tails.iter().any(|tail| kind.len() > tail.len() && kind.ends_with(tail))
        })
    }
}

/// Returns a target of the same group, otherwise a given one, otherwise any.
fn nearest<'t>(targets: impl Iterator<Item = &'t Target>, own_group: &str) -> Option<&'t Target> {
    targets.min_by_key(|target| (target.name.group != own_group, !target.given))
}

fn joined_names(name: &KindName) -> Vec<String> {
    vec![name.kind.to_ascii_lowercase(), name.resource.clone()]
}
