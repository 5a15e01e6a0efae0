//! Deletion of a definition: the objects of its kind go with it, and API servers ask no webhook about them. So it is with
//! what is in a workspace of kcp.

use std::collections::BTreeSet;

use super::{Subject, why_command};
use crate::cluster::rules::BoundKind;
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource, Obstacles};
use crate::commands::why::{release, text};
use crate::engine::members::Members;
use crate::engine::reference_scan::{Follow, Scan, Scope};
use crate::io::exit::Failure;

/// Limit on the references that are named.
const MAX_REFERENCES: usize = 1_000;

/// Finds objects that go with a definition or a workspace while others refer to them. Other targets have none.
pub(super) async fn find(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    // What is in a namespace is reviewed.
    if subject.is("", "namespaces") {
        return Ok(());
    }
    let Subject { source, rules, target, terminal } = subject;
    found.list.extend(exported(subject));
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
            named.insert((says, format!("{}; {why}", release::ways(&edge.edge, from, member))));
        }
    }
    found.list.extend(
        named.into_iter().map(|(says, next)| Obstacle::new(ObstacleSource::Definition, Effect::Breaks, says, next)),
    );
    Ok(())
}

/// Names the kinds of this workspace that come from an APIExport in the workspace to delete.
fn exported(subject: &Subject<'_>) -> Vec<Obstacle> {
    let cluster = text(&subject.target.object, "/spec/cluster").filter(|_| subject.is("tenancy.kcp.io", "workspaces"));
    let kinds = subject.rules.bound.iter().flat_map(|bound| &bound.kinds);
    let kinds = kinds.filter(|kind| Some(kind.provider.as_str()) == cluster);
    let exported = kinds.map(|BoundKind { kind, export, .. }| {
        let says = format!("APIExport {export} goes with it, and {kind} of this workspace come from that");
        let next = format!("delete the APIBinding to {export} and its objects first, if nobody needs them");
        Obstacle::new(ObstacleSource::Workspace, Effect::Breaks, says, next)
    });
    exported.collect()
}
