//! Owners of dependents: which references a deletion may leave behind, because the garbage collector deletes the
//! dependent.
//!
//! Two answers are compared in each state: the core's, by which reviews decide, and the collector's own, by which a
//! reference dangles or not.

use std::collections::BTreeMap;
use std::fmt;

use depguard_core::interlock::Observation;
use depguard_core::model::{Collected, Owner, OwnerReference, lost_owner};

use crate::guard::Guard;
use crate::model::Interlock;
use crate::state::{Basis, State, StoredDependent, TargetState};
use crate::world::{Operation, Targets};

/// Set of owners of a dependent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owners(u8);

/// Propagation of a deletion to the dependents that the object owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Propagation {
    /// The collector deletes the dependents afterwards.
    #[default]
    Background,
    /// The collector deletes the dependents first.
    Foreground,
    /// The collector takes the ownerReferences of the dependents away first.
    Orphan,
}

impl Owners {
    /// No owner.
    pub const NONE: Self = Self(0);
    /// The first target, as it is stored at the beginning.
    pub const TARGET: Self = Self(1);
    /// The same, by a version that nobody serves.
    pub const UNSERVED: Self = Self(2);
    /// Another object, which stays.
    pub const OTHER: Self = Self(4);

    /// Returns the owners of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn has(self, owner: Self) -> bool {
        self.0 & owner.0 != 0
    }

    /// Returns the owners without those of the first target's UID.
    pub(crate) fn without_target(self) -> Self {
        Self(self.0 & Self::OTHER.0)
    }

    /// Returns true if an owner has the first target's UID.
    pub(crate) fn has_target(self) -> bool {
        self != self.without_target()
    }

    fn references(self, name: &str) -> Vec<OwnerReference> {
        let all =
            [(Self::TARGET, "v1", name, "v0-1"), (Self::UNSERVED, "v9", name, "v0-1"), (Self::OTHER, "v1", "c", "c")];
        let held = all.into_iter().filter(|(owner, ..)| self.has(*owner));
        let reference = |(_, version, name, uid): (_, &str, &str, &str)| OwnerReference {
            api_version: version.to_owned(),
            kind: "Vpc".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        held.map(reference).collect()
    }
}

impl Interlock {
    /// Returns true if a dependent of these owners goes with the target, by the core's own function.
    pub(crate) fn goes_along(&self, owners: Owners, number: usize, target: TargetState, orphans: bool) -> bool {
        let is_enough = self.world.lacks(Guard::EachOwnerCounts) && owners.has(Owners::TARGET);
        let owners = if is_enough { Owners::TARGET } else { owners };
        let (name, uid) = (&self.targets[number].name, format!("v{number}-{}", target.births));
        let mut kinds = BTreeMap::from([("v1".to_owned(), Some("Vpc".to_owned()))]);
        let namespace = (!self.world.is_cluster_scoped || self.world.lacks(Guard::OwnerInReach)).then_some("n");
        loop {
            // Nobody knows of an owner that is gone if it had a namespace.
            let own = if target.is_stored { Some("n") } else { namespace };
            let owner = Owner { group: "", kinds: &kinds, namespace: own, name, uid: Some(&uid), orphans };
            match owner.collects(namespace, &owners.references(&self.targets[0].name)) {
                Collected::Yes => return true,
                Collected::No => return false,
                Collected::IfServed { version, kind } => {
                    kinds.insert(version, Some(kind).filter(|_| self.world.lacks(Guard::OwnerIsServed)));
                }
            }
        }
    }

    /// Returns true if the garbage collector deletes the dependent: it finds none of its owners.
    pub(crate) fn is_garbage(&self, state: &State, dependent: &StoredDependent) -> bool {
        let TargetState { is_stored, births, .. } = state.targets[0];
        let is_gone = !is_stored || births > 1;
        dependent.owners == Owners::TARGET && is_gone && !self.world.is_cluster_scoped
    }

    /// Returns the references to targets that don't exist, without those that are about to go with their dependent, and
    /// without those that an override left behind.
    pub(crate) fn dangling(&self, state: &State) -> Vec<(u8, usize)> {
        let dependents = state
            .dependents
            .iter()
            .filter(|(name, dependent)| !state.let_go.contains(name) && !self.is_garbage(state, dependent));
        let references = dependents.flat_map(|(name, dependent)| {
            (0..self.targets.len())
                .filter(|target| dependent.targets & (1 << target) != 0)
                .map(|target| (*name, target))
        });
        references.filter(|(_, target)| !state.targets[*target].is_stored).collect()
    }

    /// Returns the propagation of a deletion as an API server determines it: by the request, else by what the target
    /// already has.
    pub(crate) fn propagation(&self, index: usize, target: TargetState) -> Propagation {
        self.world.requests[index].propagation.unwrap_or(target.propagation)
    }

    /// Returns the targets and the owners that a request gives its dependent.
    pub(crate) fn written(&self, index: usize, old: Option<&StoredDependent>) -> (Targets, Owners) {
        match (self.world.requests[index].operation, old) {
            (Operation::Release(_), Some(old)) => (old.targets, old.owners.without_target()),
            (Operation::Create(_, targets) | Operation::Update(_, targets) | Operation::Apply(_, targets), _) => {
                (targets, self.world.requests[index].owners)
            }
            (Operation::Release(_) | Operation::Delete(_), _) => (0, Owners::NONE),
        }
    }

    /// Returns the references that an update makes count: the new ones, and those to an owner with which the dependent
    /// may have gone so far. That is so if all of its owners are one, by the UID.
    pub(crate) fn begins(&self, index: usize, old: &StoredDependent) -> Targets {
        let (targets, owners) = self.written(index, Some(old));
        let name = &self.targets[0].name;
        let [before, after] = [old.owners, owners].map(|owners| owners.references(name));
        let is_lost = lost_owner(&before, &after).is_some_and(|owner| owner.name == *name);
        let has_lost = is_lost && !self.world.lacks(Guard::OwnersReviewed);
        targets & (!old.targets | Targets::from(has_lost))
    }

    /// Returns the observation of a target for the review of a reference to it.
    pub(crate) fn observe_for(
        &self,
        state: &State,
        index: usize,
        basis: &Basis,
        is_recorded: bool,
        number: usize,
    ) -> Observation {
        let target = state.targets[number];
        let old = match basis {
            Basis::Dependent(old) => Some(old),
            Basis::Nothing | Basis::Target(_) => None,
        };
        let orphans = target.propagation == Propagation::Orphan;
        // A target that is gone may have been the owner.
        let known = if target.is_stored { target } else { TargetState { births: 1, ..target } };
        let old_owners = old.filter(|old| old.targets & (1 << number) != 0).map(|old| old.owners);
        let never_went = old_owners.is_some_and(|owners| {
            let is_unknown = !target.is_stored && self.world.lacks(Guard::GoneOwnerCounts);
            is_unknown || !self.goes_along(owners, number, known, orphans)
        });
        let passes = never_went && !self.world.lacks(Guard::LetGoPasses);
        let present = |is_terminating| Observation::Stored { revision: self.revision(number, target), is_terminating };
        if !target.is_stored {
            return if passes && is_recorded { present(false) } else { Observation::Absent };
        }
        let (_, owners) = self.written(index, old);
        let goes_along = self.goes_along(owners, number, target, orphans)
            || (self.world.lacks(Guard::TerminatingOrphanRefuses) && self.goes_along(owners, number, target, false));
        let is_refused = target.is_terminating && !goes_along && !passes;
        present(is_refused && !self.world.lacks(Guard::TerminatingRefuses))
    }
}

impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::TARGET, "the target"),
            (Self::UNSERVED, "an unserved version of the target"),
            (Self::OTHER, "another object"),
        ];
        let held: Vec<_> = names.into_iter().filter(|(owner, _)| self.has(*owner)).map(|(_, name)| name).collect();
        match held.is_empty() {
            true => f.write_str("owned by nobody"),
            false => write!(f, "owned by {}", held.join(" and ")),
        }
    }
}
