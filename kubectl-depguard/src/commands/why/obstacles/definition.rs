//! Deletion of a definition: the objects of its kind go with it, and API servers ask no webhook about them.

use std::collections::BTreeSet;

use super::{Subject, why_command};
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource, Obstacles};
use crate::engine::members::Members;
use crate::engine::reference_scan::{Follow, Scan, Scope};
use crate::io::exit::Failure;

/// Limit on the references that are named.
const MAX_REFERENCES: usize = 1_000;

/// Finds objects that go with a definition while others refer to them. Other targets have none.
pub(super) async fn find(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    if !subject.is("apiextensions.k8s.io", "customresourcedefinitions") {
        return Ok(());
    }
    let Subject { source, rules, target, terminal } = subject;
    let members = Members::read(source, rules, (&target.info, &target.object), terminal).await?;
    found.unread_holds.extend(members.unread.iter().map(ToString::to_string));
    let known: Vec<_> = members.known().collect();
    let Some((kind, _)) = known.first() else { return Ok(()) };
    let kind = kind.gvr.group_resource();
    let scan =
        Scan::read(source, rules, Scope::all(Follow::Dependents, "ask about one object at a time"), &known, terminal);
    let scan = scan.await?;
    found.unread_holds.extend(scan.unread.iter().map(ToString::to_string));
    let is_member = |index: &usize| scan.objects.get(*index).is_some_and(|it| it.kind.gvr.group_resource() == kind);
    let mut named = BTreeSet::new();
    for reference in scan.references.iter().filter(|reference| !is_member(&reference.from)) {
        let (Some(from), Some(edge)) = (scan.objects.get(reference.from), scan.edges.get(reference.edge)) else {
            continue;
        };
        let members =
            reference.holds.iter().filter(|index| is_member(index)).filter_map(|index| scan.objects.get(*index));
        for member in members.take(MAX_REFERENCES.saturating_sub(named.len())) {
            let (rule, field) = (rules.shown(edge.rule()), edge.edge.field());
            let says = format!("{member} goes with it, and {from} still refers to that (rule {rule}, {field})");
            let why = why_command(&kind.to_string(), member.name(), member.namespace());
            named.insert((says, format!("delete {from}, or change its reference; {why}")));
        }
    }
    found.list.extend(
        named.into_iter().map(|(says, next)| Obstacle::new(ObstacleSource::Definition, Effect::Breaks, says, next)),
    );
    Ok(())
}
