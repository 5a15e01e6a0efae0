//! What the references lead to.

use depguard_core::{Held, Means};

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

pub(super) fn all(scan: &mut Scan) -> Result<(), Failure> {
    let targets: Vec<_> = scan.edges.iter().map(super::Bearing::target).collect();
    let mut held = 0_usize;
    for Pending { from, edge, held: reference } in std::mem::take(&mut scan.pending) {
        let Some(target) = targets.get(edge) else { continue };
        let (Means::Named { namespace, .. } | Means::Selected { namespace, .. } | Means::Unclear { namespace, .. }) =
            &reference.means;
        let looked_at = scan.seen.get(target).is_some_and(|seen| seen.covers(namespace.as_deref()));
        let mut candidates = match &reference.means {
            Means::Named { name, .. } => scan.names.named(target, namespace.as_deref(), name),
            Means::Selected { .. } | Means::Unclear { .. } => scan.names.within(target, namespace.as_deref()),
        };
        candidates.sort_unstable();
        let fits = |fits: &dyn Fn(&Object) -> bool| {
            let candidates = candidates.iter().copied();
            candidates.filter(|index| scan.objects.get(*index).is_some_and(fits)).collect::<Vec<_>>()
        };
        let exists = !fits(&|object| reference.means.includes(&object.referent)).is_empty();
        let holds = fits(&|object| reference.refers_to(&object.referent));
        held = held.saturating_add(holds.len());
        if held > MOST_REFERENCES {
            return Err(too_many());
        }
        let Held { means, .. } = reference;
        scan.references.push(Reference { from, edge, means, holds, exists, looked_at });
    }
    Ok(())
}
