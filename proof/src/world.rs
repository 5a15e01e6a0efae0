//! Worlds: which objects and requests there are, and what else may happen.

use crate::generations::Generations;
use crate::guard::Guard;
use crate::owners::{Owners, Propagation};

/// Set of targets, one bit each.
pub type Targets = u8;

/// World that the model plays in every order of its events.
#[derive(Debug, Clone)]
pub struct World {
    /// The name, for reports.
    pub name: &'static str,
    /// The number of targets. All are stored at the beginning.
    pub targets: u8,
    /// The number of registers. Each target has a register of its own, as far as there are enough.
    pub buckets: u16,
    /// The dependents that are stored at the beginning, with their references.
    pub stored: Vec<(u8, Targets)>,
    /// The requests.
    pub requests: Vec<Request>,
    /// True if a replica merges the notes of its evaluations.
    pub merges: bool,
    /// True if targets have a finalizer, so that a deletion makes them terminating first.
    pub finalizers: bool,
    /// The marks about the first target at the beginning.
    pub hot: Option<Hot>,
    /// True if replicas learn of the rule in the course of events.
    pub rule_is_new: bool,
    /// True if a creation waits for its name: it is refused if another object has the name. That can only refuse more.
    pub reads_names: bool,
    /// True if evaluations go on after the API server has given their request up.
    pub zombies: bool,
    /// True if no time passes: all requests and all marks live for ever.
    pub is_timeless: bool,
    /// True if a register is read and written in one step, and the first read of a review is a part of its beginning.
    /// That leaves out no outcome: a write after which the register has changed would begin anew.
    pub is_coarse: bool,
    /// The most events of each kind.
    pub events: Events,
    /// Owners of the dependents that are stored at the beginning.
    pub owned: Vec<(u8, Owners)>,
    /// True if the rule ignores the dependents that go with their target.
    pub ignores_owned: bool,
    /// True if dependents have no namespace. Targets have one.
    pub is_cluster_scoped: bool,
    /// The guard that this world does without.
    pub without: Option<Guard>,
    /// The generations of registers.
    pub generations: Generations,
}

/// Request to an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The time within which the API server stores the object, in ticks.
    pub lifetime: u32,
    /// The replica of the webhook that reviews the request.
    pub replica: u8,
    /// The owners that the dependent has then.
    pub owners: Owners,
    /// The propagation that a deletion asks for; `None`: nothing is said.
    pub propagation: Option<Propagation>,
    /// True for a deletion that is let through whatever refers to the target.
    pub is_override: bool,
}

/// Marks about a target that many dependents begin to refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hot {
    /// As many intents as a register names, of creations that are over.
    Full,
    /// An open shared mark.
    Shared,
}

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creation of a dependent with references to these targets.
    Create(u8, Targets),
    /// Update of a dependent, by which the dependent refers to these targets and no others.
    Update(u8, Targets),
    /// Server-side apply of a dependent: a creation, or an update if the dependent is stored by then.
    Apply(u8, Targets),
    /// Deletion of a target.
    Delete(u8),
    /// The collector's update of a dependent, which takes the ownerReferences to the first target away.
    Release(u8),
}

/// Numbers of events that nobody asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Events {
    /// Changes of a target.
    pub touch_target: u8,
    /// Creations of a target that was deleted.
    pub recreate_target: u8,
    /// Changes of a dependent that keep its references.
    pub touch_dependent: u8,
    /// Deletions of a dependent.
    pub remove_dependent: u8,
    /// Answers that never arrive. A write whose answer is lost may happen later, or never.
    pub lose_answer: u8,
    /// Crashes of a replica.
    pub crash: u8,
    /// Restarts of the cleaner.
    pub restart_cleaner: u8,
    /// Deletions of the register.
    pub remove_register: u8,
}

impl World {
    /// Creates a world with one target, in which nothing happens besides the requests.
    pub fn new(name: &'static str, requests: impl IntoIterator<Item = Request>) -> Self {
        Self {
            name,
            targets: 1,
            buckets: 1,
            stored: Vec::new(),
            requests: requests.into_iter().collect(),
            merges: false,
            finalizers: false,
            hot: None,
            rule_is_new: false,
            reads_names: false,
            zombies: true,
            is_timeless: false,
            is_coarse: false,
            events: Events::default(),
            owned: Vec::new(),
            ignores_owned: false,
            is_cluster_scoped: false,
            without: None,
            generations: Generations::One,
        }
    }

    /// Returns the world without a guard.
    pub fn without(self, guard: Guard) -> Self {
        Self { without: Some(guard), ..self }
    }

    pub(crate) fn lacks(&self, guard: Guard) -> bool {
        self.without == Some(guard)
    }

    /// Returns true if two requests differ only in the names of their dependents, so that their order tells nothing.
    pub(crate) fn are_alike(&self, one: usize, other: usize) -> bool {
        let (Some(a), Some(b)) = (self.requests.get(one), self.requests.get(other)) else { return false };
        let is_unique = |name: u8| {
            let uses = self.requests.iter().filter(|request| request.operation.dependent() == Some(name)).count();
            uses == 1 && self.stored.iter().all(|(stored, _)| *stored != name)
        };
        let (Operation::Create(first, refs), Operation::Create(second, others)) = (a.operation, b.operation) else {
            return a == b && matches!(a.operation, Operation::Delete(_));
        };
        let is_alike = (a.lifetime, a.replica, a.owners, refs) == (b.lifetime, b.replica, b.owners, others);
        is_alike && is_unique(first) && is_unique(second)
    }
}

impl Operation {
    /// Returns the dependent that the operation stores.
    pub(crate) fn dependent(self) -> Option<u8> {
        match self {
            Self::Create(name, _) | Self::Update(name, _) | Self::Apply(name, _) | Self::Release(name) => Some(name),
            Self::Delete(_) => None,
        }
    }
}

/// Returns a creation.
pub fn create(name: u8, targets: Targets) -> Request {
    request(Operation::Create(name, targets))
}

/// Returns an update.
pub fn update(name: u8, targets: Targets) -> Request {
    request(Operation::Update(name, targets))
}

/// Returns a server-side apply.
pub fn apply(name: u8, targets: Targets) -> Request {
    request(Operation::Apply(name, targets))
}

/// Returns a deletion.
pub fn delete(target: u8) -> Request {
    request(Operation::Delete(target))
}

/// Returns the collector's update of a dependent, which is sent when the collector needs it.
pub fn release(name: u8) -> Request {
    request(Operation::Release(name))
}

fn request(operation: Operation) -> Request {
    let (lifetime, replica, owners, propagation) = (1, 0, Owners::NONE, None);
    Request { operation, lifetime, replica, owners, propagation, is_override: false }
}

impl Request {
    /// Returns the request, as that replica reviews it.
    pub fn at(self, replica: u8) -> Self {
        Self { replica, ..self }
    }

    /// Returns the request with another lifetime, as a collection delete has it.
    pub fn lives(self, lifetime: u32) -> Self {
        Self { lifetime, ..self }
    }

    /// Returns the request that gives its dependent these owners.
    pub fn owned_by(self, owners: Owners) -> Self {
        Self { owners, ..self }
    }

    /// Returns the deletion with a propagation.
    pub fn by(self, propagation: Propagation) -> Self {
        Self { propagation: Some(propagation), ..self }
    }

    /// Returns the deletion that is let through whatever refers to the target.
    pub fn overrides(self) -> Self {
        Self { is_override: true, ..self }
    }
}
