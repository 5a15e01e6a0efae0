//! Which kind a field's words mean.

use super::conventions::{Use, WELL_KNOWN};
use super::definition::{Definition, Export, KindName};
use super::words::{singulars, words};

/// A kind that may be referred to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: KindName,
    pub(super) export: Option<Export>,
    /// Whether it is one of the given kinds, and not only a well-known one.
    pub(super) given: bool,
    /// Whether its word alone says that it is meant.
    pub(super) telling: bool,
    names: Vec<String>,
    /// Other words for it, in fields that say that they name or refer.
    also: &'static [&'static str],
}

/// How a field's words meet a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// They are its name: `vpc` and `VPC`.
    Whole,
    /// They end with its name: `peerVpc` and `VPC`.
    Tail,
    /// Its name ends with them: `request` and `ClusterRequest`.
    Part,
}

/// The kinds that may be referred to.
pub(super) struct Kinds {
    all: Vec<Target>,
}

impl Kinds {
    /// The given ones, and the well-known.
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
        for known in WELL_KNOWN {
            let name = KindName {
                group: known.group.to_owned(),
                version: known.version.to_owned(),
                kind: known.kind.to_owned(),
                resource: known.resource.to_owned(),
                namespaced: known.namespaced,
            };
            let is_given = |target: &Target| target.name.group == name.group && target.name.resource == name.resource;
            if !all.iter().any(is_given) {
                let (names, telling) = (joined_names(&name), known.use_of_word == Use::Own);
                all.push(Target { name, export: None, given: false, telling, names, also: known.also });
            }
        }
        Self { all }
    }

    /// The kind of that name; of a group, where that is said, else first of the dependent's own.
    pub(super) fn of_kind(&self, kind: &str, group: Option<&str>, own_group: &str) -> Option<&Target> {
        let mut named = self.all.iter().filter(|target| target.name.kind == kind);
        match group {
            Some(group) => named.find(|target| target.name.group == group),
            None => nearest(named, own_group),
        }
    }

    /// The kinds that some words of a field of `own` mean, best first. Only the first is meant where a field tells no
    /// kind. `explicit`: the field says that it names or refers.
    pub(super) fn meant(&self, words: &[String], own: &KindName, explicit: bool) -> Option<(How, Vec<&Target>)> {
        let own_group = own.group.as_str();
        for start in 0..words.len() {
            let tail = words.get(start..).unwrap_or_default();
            if let Some(target) = self.called(&tail.concat(), own_group, explicit && start == 0) {
                let how = if start == 0 { How::Whole } else { How::Tail };
                let wider = self.ending_with(tail, own_group).filter(|wider| *wider != target);
                return Some((how, std::iter::once(target).chain(wider).collect()));
            }
        }
        let mut parts: Vec<_> = self.ending_with(words, own_group).collect();
        // A `requestRef` of an AccessRequest means the ClusterRequest.
        if parts.len() > 1 {
            parts.retain(|target| target.name != *own);
        }
        (!parts.is_empty()).then_some((How::Part, parts))
    }

    fn called(&self, joined: &str, own_group: &str, by_other_words: bool) -> Option<&Target> {
        let called = |target: &&Target| {
            target.names.iter().any(|name| name == joined) || by_other_words && target.also.contains(&joined)
        };
        nearest(self.all.iter().filter(called), own_group)
    }

    /// The given kinds of the dependent's own group whose names end with these words.
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

/// One of the same group, else a given one, else any.
fn nearest<'t>(targets: impl Iterator<Item = &'t Target>, own_group: &str) -> Option<&'t Target> {
    targets.min_by_key(|target| (target.name.group != own_group, !target.given))
}

fn joined_names(name: &KindName) -> Vec<String> {
    vec![name.kind.to_ascii_lowercase(), name.resource.clone()]
}
