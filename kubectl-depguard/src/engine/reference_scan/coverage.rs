//! Coverage of a scan: the parts that were read. If a command finds nothing, that holds for these parts only.

use std::collections::BTreeSet;

use depguard_core::ControlPlane;
use depguard_core::model::GroupResource;

use super::{Scan, Scope};
use crate::cluster::rules::{CheckedRules, ReadFailure, Rules};
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::io::exit::{Failure, Outcome};

/// Coverage of one scan.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// Reason why there was nothing to read: the sentence, and the next step.
    gap: Option<(String, &'static str)>,
    /// Parts that could not be read, each as the end of "could not read …".
    missing: Vec<String>,
}

impl Coverage {
    /// Returns the coverage of a finished scan; `ends`: the kinds of dependents and targets of all edges that apply.
    pub(super) async fn new(
        scan: &Scan,
        ends: &BTreeSet<GroupResource>,
        source: &Source,
        rules: &Rules,
        scope: Scope<'_>,
    ) -> Result<Self, Failure> {
        let missing: Vec<_> = scan.unread.iter().map(ToString::to_string).collect();
        let gap = match gap_of_rules(rules, ends, source, &missing) {
            None if missing.is_empty() => gap_of_objects(scan, ends, source, scope).await?,
            gap => gap,
        };
        Ok(Self { gap, missing })
    }

    /// Returns the coverage of rules alone, for a command that reads no objects.
    pub(crate) fn of_rules(rules: &Rules, checked: &CheckedRules<'_>, source: &Source) -> Self {
        let mut ends = BTreeSet::new();
        for (_, rule) in &checked.usable {
            for edge in rule.edges().iter().filter(|edge| rules.applies(rule, edge)) {
                ends.extend([rule.dependent().gvr.group_resource(), edge.target.gvr.group_resource()]);
            }
        }
        let missing: Vec<_> = checked.unread.iter().map(ToString::to_string).collect();
        Self { gap: gap_of_rules(rules, &ends, source, &missing), missing }
    }

    /// Records that a selection selects none of the objects.
    pub(super) fn select_nothing(&mut self, selection: &Selection) {
        let hint = "`kubectl get --show-labels` shows the labels of objects";
        self.gap.get_or_insert((format!("no object matches {selection}"), hint));
    }

    /// Records further parts that could not be read.
    pub(crate) fn miss(&mut self, unread: &[ReadFailure]) {
        self.missing.extend(unread.iter().map(ToString::to_string));
    }

    /// Records that only these parts could not be read.
    pub(super) fn replace_missing(&mut self, unread: &[ReadFailure]) {
        self.missing = unread.iter().map(ToString::to_string).collect();
    }

    /// Returns the kinds and objects that could not be read.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Returns the failure of a command that had nothing to read.
    pub(crate) fn nothing(&self) -> Option<Failure> {
        self.gap.as_ref().map(|(message, hint)| Failure::new(message).hint(*hint))
    }

    /// Ends a command that found no problem. All is well only if everything was read; else the command fails with
    /// `what`.
    pub(crate) fn all_is_well(&self, what: &str) -> Result<Outcome, Failure> {
        if let Some(nothing) = self.nothing() {
            return Err(nothing);
        }
        let more = match self.missing.as_slice() {
            [] => return Ok(Outcome::Well),
            [first] => format!("could not read {first}"),
            [first, rest @ ..] => format!("could not read {first}, and {} more", rest.len()),
        };
        Err(Failure::new(format!("{what}: {more}"))
            .hint("get the right to read it, or correct it, and run the command again"))
    }
}

fn gap_of_rules(
    rules: &Rules,
    ends: &BTreeSet<GroupResource>,
    source: &Source,
    missing: &[String],
) -> Option<(String, &'static str)> {
    let count = rules.objects.len();
    match (ends.is_empty(), count, source) {
        (false, ..) => None,
        (true, 1.., _) | (true, 0, Source::ApiServer(_)) if !missing.is_empty() => None,
        (true, 0, Source::Manifests(_)) => Some((
            "the files contain no DependencyRule".to_owned(),
            "also name the files with rules with -f; -R reads subfolders",
        )),
        (true, 0, Source::ApiServer(_)) if rules.control_plane == ControlPlane::Kcp => Some((
            "there are no rules for this workspace".to_owned(),
            "rules come from this workspace, and from the workspaces of the exports that are bound here",
        )),
        (true, 0, Source::ApiServer(_)) => {
            Some(("the cluster has no rules".to_owned(), "apply a DependencyRule first"))
        }
        (true, _, Source::ApiServer(_)) if rules.control_plane == ControlPlane::Kcp => Some((
            format!("no rule applies to the objects of this workspace; rules read: {count}"),
            "a rule applies if both of its kinds are bound: try a consumer's workspace",
        )),
        (true, ..) => Some((format!("no rule has a dependency; rules read: {count}"), "add dependencies to the rules")),
    }
}

async fn gap_of_objects(
    scan: &Scan,
    ends: &BTreeSet<GroupResource>,
    source: &Source,
    scope: Scope<'_>,
) -> Result<Option<(String, &'static str)>, Failure> {
    let kinds = || ends.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let inside = scan.objects.iter().any(|object| object.inside);
    if let Some(namespace) = scope.namespace.filter(|_| !inside)
        && source.lacks(namespace).await?
    {
        return Ok(Some((format!("there is no namespace {namespace}"), "name another with --namespace")));
    }
    if !scan.edges.is_empty() && scan.seen.is_empty() {
        return Ok(Some((
            format!("the API server serves no kind that rules name: {}", kinds()),
            "correct the rules, or define the kinds",
        )));
    }
    Ok(match source {
        Source::Manifests(manifests) => {
            let is_meant = |own: Option<&str>| {
                own.is_none() || scope.namespace.is_none_or(|namespace| own == Some(namespace.as_str()))
            };
            let mut objects = manifests.objects().iter().filter(|object| ends.contains(&object.gvr.group_resource()));
            let is_empty = !objects.any(|object| is_meant(object.namespace()));
            is_empty.then(|| {
                let message = format!("the files contain no object of a kind that rules name: {}", kinds());
                (message, "also name the files with objects with -f; -R reads subfolders")
            })
        }
        Source::ApiServer(_) => None,
    })
}
