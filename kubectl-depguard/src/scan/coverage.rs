//! What was looked at: that nothing was found says no more than that.

use std::collections::BTreeSet;

use depguard_core::{GroupResource, Home};
use serde_json::Value;

use super::{Scan, Scope};
use crate::outcome::{Failure, Outcome};
use crate::rules::{Rules, Unread};
use crate::source::Source;

/// What a scan had before it.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// Why there was nothing to look at: the sentence, and what to do next.
    gap: Option<(String, &'static str)>,
    /// What could not be looked at, each as the end of "could not look at …".
    missing: Vec<String>,
}

impl Coverage {
    /// Of a scan that is at its end; `ends`: the kinds at the ends of all edges that apply.
    pub(super) async fn of(
        scan: &Scan,
        ends: &BTreeSet<GroupResource>,
        source: &Source,
        rules: &Rules,
        scope: Scope<'_>,
    ) -> Result<Self, Failure> {
        let missing: Vec<_> = scan.all_unread().iter().map(ToString::to_string).collect();
        if !missing.is_empty() {
            return Ok(Self { gap: None, missing });
        }
        let gap = match gap_of_rules(rules, ends, source) {
            Some(gap) => Some(gap),
            None => gap_of_objects(scan, ends, source, scope).await?,
        };
        Ok(Self { gap, missing })
    }

    /// Of rules alone, as where no object is looked at.
    pub(crate) fn of_rules(rules: &Rules, source: &Source) -> Self {
        let (mut ends, mut missing) = (BTreeSet::new(), Vec::new());
        for rule in rules.parsed() {
            match rule {
                Ok(rule) => {
                    for edge in rule.edges().iter().filter(|edge| rules.bears(&rule, edge)) {
                        ends.extend([rule.dependent().gvr.group_resource(), edge.target.gvr.group_resource()]);
                    }
                }
                Err(why) => missing.push(why.to_string()),
            }
        }
        missing.extend(rules.unread.iter().map(ToString::to_string));
        let gap = if missing.is_empty() { gap_of_rules(rules, &ends, source) } else { None };
        Self { gap, missing }
    }

    /// Takes in what could not be looked at besides.
    pub(crate) fn miss(&mut self, unread: &[Unread]) {
        self.missing.extend(unread.iter().map(ToString::to_string));
    }

    /// What could not be looked at.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The failure of a command that had nothing to look at.
    pub(crate) fn nothing(&self) -> Option<Failure> {
        self.gap.as_ref().map(|(message, hint)| Failure::new(message).hint(*hint))
    }

    /// The end of a command that found nothing amiss: all is well only where all was looked at. `what` could be told else.
    pub(crate) fn all_is_well(&self, what: &str) -> Result<Outcome, Failure> {
        if let Some(nothing) = self.nothing() {
            return Err(nothing);
        }
        let more = match self.missing.as_slice() {
            [] => return Ok(Outcome::Well),
            [first] => format!("could not look at {first}"),
            [first, rest @ ..] => format!("could not look at {first}, and {} more", rest.len()),
        };
        Err(Failure::new(format!("{what}: {more}"))
            .hint("get the right to read it, or correct it, and run the command again"))
    }
}

fn gap_of_rules(rules: &Rules, ends: &BTreeSet<GroupResource>, source: &Source) -> Option<(String, &'static str)> {
    let count = rules.objects.len();
    match (ends.is_empty(), count, source) {
        (false, ..) => None,
        (true, 0, Source::Disk(_)) => Some((
            "there is no DependencyRule in the files".to_owned(),
            "name those with rules too, by -f; -R reads folders within folders",
        )),
        (true, 0, Source::Live(_)) if rules.home == Home::Kcp => Some((
            "there are no rules for this workspace".to_owned(),
            "rules are read from the workspaces of the exports that are bound here, and from this one",
        )),
        (true, 0, Source::Live(_)) => {
            Some(("there are no rules, so there is nothing to look at".to_owned(), "apply a DependencyRule first"))
        }
        (true, _, Source::Live(_)) if rules.home == Home::Kcp => Some((
            format!("none of the {count} rules that were read applies to the objects of this workspace"),
            "a rule applies where both of its kinds are bound: look in a workspace of a tenant",
        )),
        (true, ..) => Some((format!("none of the {count} rules names a dependency"), "complete the rules")),
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
        return Ok(Some((format!("there is no namespace {namespace}"), "name another by --namespace")));
    }
    if !scan.edges.is_empty() && scan.seen.is_empty() {
        return Ok(Some((
            format!("none of the kinds that rules name is served here: {}", kinds()),
            "correct the rules, or define the kinds",
        )));
    }
    Ok(match source {
        Source::Disk(disk) => {
            let is_meant = |object: &Value| {
                let own = object.pointer("/metadata/namespace").and_then(Value::as_str);
                own.is_none() || scope.namespace.is_none_or(|namespace| own == Some(namespace.as_str()))
            };
            let mut objects = disk.objects().iter().filter(|object| ends.contains(&object.gvr.group_resource()));
            let is_empty = !objects.any(|object| is_meant(&object.value));
            is_empty.then(|| {
                let message = format!("the files hold no object of a kind that rules name: {}", kinds());
                (message, "name the files of the objects too, by -f; -R reads folders within folders")
            })
        }
        Source::Live(_) => None,
    })
}
