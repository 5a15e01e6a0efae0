//! What the references lead to.

use depguard_core::{Held, Means};

use super::labels::Labels;
use super::read::too_many;
use super::{MOST_REFERENCES, Object, Reference, Scan};
use crate::outcome::Failure;

/// A reference as it was read, before all objects were.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) from: usize,
    pub(super) edge: usize,
    pub(super) held: Held<'static>,
}

/// `is_scoped`: one namespace was asked for. Then an object without a namespace, which may refer to a namesake in each,
/// holds no more than those that were asked for.
pub(super) fn all(scan: &mut Scan, is_scoped: bool) -> Result<(), Failure> {
    let targets: Vec<_> = scan.edges.iter().map(super::Bearing::target).collect();
    let labels = Labels::of(&scan.objects);
    let mut held = 0_usize;
    for Pending { from, edge, held: reference } in std::mem::take(&mut scan.pending) {
        let (Some(target), Some(holder)) = (targets.get(edge), scan.objects.get(from)) else { continue };
        let (Means::Named { namespace, .. } | Means::Selected { namespace, .. } | Means::Unclear { namespace, .. }) =
            &reference.means;
        let looked_at = scan.seen.get(target).is_some_and(|seen| seen.covers(namespace.as_deref()));
        let within = || scan.names.within(target, namespace.as_deref());
        let candidates = match &reference.means {
            Means::Named { name, .. } => scan.names.named(target, namespace.as_deref(), name),
            Means::Selected { selector, .. } => {
                labels.candidates(target, namespace.as_deref(), selector).unwrap_or_else(within)
            }
            Means::Unclear { .. } => within(),
        };
        let objects = || candidates.iter().filter_map(|index| Some((*index, scan.objects.get(*index)?)));
        let is_near = |object: &Object| {
            !is_scoped || holder.namespace().is_some() || object.inside || object.namespace().is_none()
        };
        let exists = objects().any(|(_, object)| reference.means.includes(&object.referent));
        let holds = objects().filter(|(_, object)| is_near(object) && reference.refers_to(&object.referent));
        let mut holds: Vec<_> = holds.map(|(index, _)| index).collect();
        holds.sort_unstable();
        held = held.saturating_add(holds.len());
        if held > MOST_REFERENCES {
            return Err(too_many());
        }
        let Held { means, .. } = reference;
        scan.references.push(Reference { from, edge, means, holds, exists, looked_at });
    }
    Ok(())
}
