//! Objects that go with others: their direct and indirect dependents.

use std::collections::BTreeSet;

use depguard_core::api::OnDelete;
use depguard_core::lookup::ReferenceTarget;

use super::{Reference, Scan};

impl Scan {
    /// Marks these objects, and all objects that block their deletion, directly or through others: for each object of
    /// the scan true or false. Objects that only may block it, because a reference of theirs is unclear, are not marked;
    /// nothing blocks an object that is being deleted already.
    pub(crate) fn with_dependents(&self, objects: &BTreeSet<usize>) -> Vec<bool> {
        let mut blocked_by: Vec<Vec<usize>> = self.objects.iter().map(|_| Vec::new()).collect();
        for reference in self.references.iter().filter(|reference| self.denies(reference) && is_clear(reference)) {
            for target in &reference.holds {
                if let Some(blocked_by) = blocked_by.get_mut(*target) {
                    blocked_by.push(reference.from);
                }
            }
        }
        let mut marked = vec![false; self.objects.len()];
        let mut pending: Vec<_> = objects.iter().copied().collect();
        while let Some(index) = pending.pop() {
            let (Some(mark), Some(object)) = (marked.get_mut(index), self.objects.get(index)) else { continue };
            if !std::mem::replace(mark, true) && !object.terminating {
                pending.extend(blocked_by.get(index).into_iter().flatten());
            }
        }
        marked
    }

    /// Returns the other objects that refer to marked objects by rules that refuse nothing.
    pub(crate) fn referring_without_refusal(&self, marked: &[bool]) -> BTreeSet<usize> {
        let is_marked = |index: &usize| marked.get(*index) == Some(&true);
        let others = self.references.iter().filter(|reference| !self.denies(reference) && !is_marked(&reference.from));
        others.filter(|reference| reference.holds.iter().any(is_marked)).map(|reference| reference.from).collect()
    }

    /// Forgets the parts that could not be read, if no object in them can refer to a marked object by an edge that
    /// `counts`. Rules that could not be read are kept, since each of them may be about any object.
    pub(crate) fn forget_unread_beside(&mut self, marked: &[bool], counts: impl Fn(OnDelete) -> bool) {
        let objects = self.objects.iter().zip(marked).filter(|(_, is_marked)| **is_marked).map(|(object, _)| object);
        let places: BTreeSet<_> =
            objects.map(|object| (object.kind.gvr.group_resource(), object.namespace().map(str::to_owned))).collect();
        let is_read = |edge: usize| {
            let Some(applied) = self.edges.get(edge).filter(|applied| counts(applied.edge.on_delete)) else {
                return true;
            };
            let target = applied.target();
            let mut places = places.iter().filter(|(kind, _)| *kind == target);
            places.all(|(_, namespace)| self.covers_dependents(edge, namespace.as_deref()))
        };
        if (0..self.edges.len()).all(is_read) {
            self.unread.truncate(self.unread_rules);
            self.coverage.replace_missing(&self.unread);
        }
    }

    /// Returns true if a reference keeps its targets from being deleted.
    pub(super) fn denies(&self, reference: &Reference) -> bool {
        self.edges.get(reference.edge).is_some_and(|applied| applied.edge.on_delete == OnDelete::Deny)
    }
}

fn is_clear(reference: &Reference) -> bool {
    match *reference.means {
        ReferenceTarget::Named { .. } | ReferenceTarget::Selected { .. } => true,
        ReferenceTarget::Unclear { .. } => false,
    }
}
