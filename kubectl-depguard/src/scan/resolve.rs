//! What the references lead to.

use std::collections::HashMap;

use depguard_core::{GroupResource, Held, Means};

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

/// The objects of one kind, by their namespaces.
type Places = HashMap<Option<String>, Vec<usize>>;

pub(super) fn all(scan: &mut Scan) -> Result<(), Failure> {
    let targets: Vec<_> = scan.edges.iter().map(super::Bearing::target).collect();
    let mut places: HashMap<GroupResource, Places> = HashMap::new();
    let mut held = 0_usize;
    for Pending { from, edge, held: reference } in std::mem::take(&mut scan.pending) {
        let Some(target) = targets.get(edge) else { continue };
        let (Means::Named { namespace, .. } | Means::Selected { namespace, .. } | Means::Unclear { namespace, .. }) =
            &reference.means;
        let looked_at = scan.seen.get(target).is_some_and(|seen| seen.covers(namespace.as_deref()));
        let candidates = match &reference.means {
            Means::Named { name, .. } => scan.names.of(target, name).to_vec(),
            Means::Selected { .. } | Means::Unclear { .. } => {
                let places = places.entry(target.clone()).or_insert_with(|| by_namespace(scan, target));
                within(places, namespace.as_deref())
            }
        };
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

fn by_namespace(scan: &Scan, kind: &GroupResource) -> Places {
    let mut places = Places::new();
    for index in scan.names.all(kind) {
        let namespace = scan.objects.get(index).and_then(|object| object.referent.namespace.clone());
        places.entry(namespace).or_default().push(index);
    }
    places
}

/// Those of a namespace, and those in none; `None`: all.
fn within(places: &Places, namespace: Option<&str>) -> Vec<usize> {
    let wanted = |(own, _): &(&Option<String>, _)| namespace.is_none() || own.is_none() || own.as_deref() == namespace;
    let mut within: Vec<_> = places.iter().filter(wanted).flat_map(|(_, indexes)| indexes).copied().collect();
    within.sort_unstable();
    within
}
