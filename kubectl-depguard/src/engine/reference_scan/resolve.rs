//! Resolution of references: finds the objects that each reference means.

use std::sync::Arc;

use depguard_core::lookup::{ObjectReference, ReferenceTarget};
use depguard_core::model::GroupResource;

use super::labels::Labels;
use super::{MAX_REFERENCES, Names, Object, OwnerReference, Reference, Scan, Scope};
use crate::cluster::kinds::Kinds;
use crate::io::exit::Failure;

/// Reference as it was read, before all objects were read.
#[derive(Debug)]
pub(super) struct PendingReference {
    pub(super) from: usize,
    pub(super) edge: usize,
    pub(super) reference: ObjectReference<'static>,
}

/// Resolves all pending references. An object without a namespace may refer to an object in every namespace; if the user
/// asked for one namespace, it holds only objects in that namespace or without one.
pub(super) fn all(scan: &mut Scan, kinds: &Kinds, scope: Scope<'_>) -> Result<(), Failure> {
    let targets = scan.edges.iter().map(super::AppliedEdge::target);
    let targets: Vec<_> = targets.map(|target| (kinds.served(&target), target)).collect();
    let labels = Labels::from_objects(&scan.objects);
    let mut count = 0_usize;
    let mut last = vec![None; scan.edges.len()];
    for PendingReference { from, edge, reference } in std::mem::take(&mut scan.pending) {
        let (Some((served, target)), Some(holder)) = (targets.get(edge), scan.objects.get(from)) else { continue };
        let refers = |object: &Object| reference.refers_to(&object.referent, &target.group, served);
        let (ReferenceTarget::Named { namespace, .. }
        | ReferenceTarget::Selected { namespace, .. }
        | ReferenceTarget::Unclear { namespace, .. }) = &reference.means;
        let is_misnamed = scan.edges.get(edge).is_some_and(|applied| applied.is_misnamed(kinds.of(target)));
        let looked_at = !is_misnamed && scan.seen.get(target).is_some_and(|seen| seen.covers(namespace.as_deref()));
        let candidates = candidates(&reference.means, target, &scan.names, &labels);
        let objects = || candidates.iter().filter_map(|index| Some((*index, scan.objects.get(*index)?)));
        let is_near = |object: &Object| {
            scope.namespace.is_none() || holder.namespace().is_some() || object.inside || object.namespace().is_none()
        };
        let number = scan.references.len();
        let spared = objects()
            .filter(|(index, object)| *index != from && reference.means.includes(&object.referent) && !refers(object));
        scan.owners.extend(spared.map(|(owner, _)| OwnerReference { reference: number, owner }));
        let exists = objects().any(|(_, object)| reference.means.includes(&object.referent));
        let holds = objects().filter(|(_, object)| is_near(object) && refers(object));
        let mut holds: Vec<_> = holds.map(|(index, _)| index).collect();
        holds.sort_unstable();
        count = count.saturating_add(holds.len());
        if count > MAX_REFERENCES {
            return Err(scope.too_many_references());
        }
        let means = shared(reference.means, last.get_mut(edge));
        scan.references.push(Reference { from, edge, means, holds, exists, looked_at });
    }
    Ok(())
}

/// Returns the meaning for the references that share it. The references by one edge often mean the same object, one after
/// the other.
fn shared(
    means: ReferenceTarget<'static>,
    last: Option<&mut Option<Arc<ReferenceTarget<'static>>>>,
) -> Arc<ReferenceTarget<'static>> {
    match last {
        Some(Some(last)) if **last == means => Arc::clone(last),
        Some(last) => Arc::clone(last.insert(Arc::new(means))),
        None => Arc::new(means),
    }
}

/// Returns the objects of a kind that may be meant: as few as the indexes can tell, and always every object that is
/// meant.
fn candidates(means: &ReferenceTarget<'_>, target: &GroupResource, names: &Names, labels: &Labels) -> Vec<usize> {
    let (ReferenceTarget::Named { namespace, .. }
    | ReferenceTarget::Selected { namespace, .. }
    | ReferenceTarget::Unclear { namespace, .. }) = means;
    let namespace = namespace.as_deref();
    let within = || names.within(target, namespace);
    match means {
        ReferenceTarget::Named { name, .. } => names.named(target, namespace, name),
        ReferenceTarget::Selected { selector, .. } => {
            labels.candidates(target, namespace, selector).unwrap_or_else(within)
        }
        ReferenceTarget::Unclear { .. } => within(),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;

    use depguard_core::api::LabelSelector;
    use depguard_core::lookup::ReferencedObject;
    use depguard_core::model::Selector;

    use super::*;
    use crate::cluster::kinds::KindInfo;

    /// If every selector looked at every object, the work would grow with the square of their number.
    #[test]
    fn a_selector_looks_at_what_it_selects_and_at_no_others() {
        let kind: GroupResource = "vpcs.n.example.com".parse().unwrap();
        let (mut names, mut objects) = (Names::default(), Vec::new());
        let (group, resource) = (kind.group.clone(), kind.resource.clone());
        let gvr = depguard_core::GroupVersionResource { group, version: "v1".parse().unwrap(), resource };
        for index in 0..100 {
            let mut referent = ReferencedObject::default();
            (referent.namespace, referent.name) = (Some("x".to_owned()), format!("v{index}"));
            referent.labels = [("app".to_owned(), format!("a{index}"))].into();
            names.insert(kind.clone(), &referent, index);
            let kind = Arc::new(KindInfo::bare(gvr.clone(), "VPC", Some(true)));
            objects.push(Object { kind, referent, terminating: false, inside: true, selected: true });
        }
        let selector =
            LabelSelector { match_labels: Some([("app".to_owned(), "a7".to_owned())].into()), ..Default::default() };
        let selector = Selector::parse(&selector).unwrap();
        let means = ReferenceTarget::Selected {
            selector: Cow::Borrowed(&selector),
            namespace: Some("x".into()),
            except: (&[]).into(),
        };
        assert_eq!(candidates(&means, &kind, &names, &Labels::from_objects(&objects)), [7]);
    }
}
