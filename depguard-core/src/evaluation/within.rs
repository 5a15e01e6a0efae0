//! Scope of a review: the objects about which its sender may ask.

use super::{Bindings, InProgress};
use crate::applicability::bindings_list::BindingsList;
use crate::applicability::caller_scope::{CallerScope, Containment};
use crate::applicability::candidates::Candidates;
use crate::evaluation::decision::{Decision, Reason, Subject};
use crate::model::names::LogicalCluster;

impl InProgress {
    /// Restricts the decision to reviews by the configuration of this provider; see
    /// [`Context::scope`](super::begin::Context).
    pub(super) fn restrict_to(&mut self, provider: Option<LogicalCluster>) {
        let tells = provider.is_some() && self.target.cluster.is_some();
        self.caller_scope = Some(CallerScope::new(provider));
        if !tells {
            self.leave_scope();
        } else if self.bindings.is_none() {
            let on_delete = self.groups.iter().map(|group| group.on_delete).min().unwrap_or_default();
            let list = BindingsList::new();
            self.bindings = Some(Bindings { list, candidates: Candidates::default(), cyclic: false, on_delete });
            self.queries.push(super::PendingQuery::Bindings);
        }
    }

    /// Returns true if the review is within its scope, now that all bindings have been read. Otherwise gives up what is
    /// still to be read.
    pub(super) fn stays_in_scope(&mut self) -> bool {
        match &mut self.caller_scope {
            Some(caller_scope) if caller_scope.containment != Containment::Inside => {
                self.leave_scope();
                false
            }
            _ => true,
        }
    }

    fn leave_scope(&mut self) {
        if let Some(caller_scope) = &mut self.caller_scope {
            caller_scope.containment = Containment::Outside;
        }
        self.bindings = None;
        self.queries.clear();
        self.due.clear();
        self.forget();
    }

    /// Forgets the results, which the caller may not see.
    fn forget(&mut self) {
        self.groups.clear();
        self.readers.clear();
    }

    pub(super) fn is_outside(&self) -> bool {
        self.caller_scope.as_ref().is_some_and(|caller_scope| caller_scope.containment == Containment::Outside)
    }

    /// Returns the refusal of a review out of scope. While the scope is unknown, the results are forgotten, because
    /// the caller may not see them.
    pub(super) fn outside(&mut self) -> Option<Decision> {
        let caller_scope = self.caller_scope.as_ref()?;
        match caller_scope.containment {
            Containment::Inside => None,
            Containment::Unknown => {
                self.forget();
                None
            }
            Containment::Outside => {
                let problems = vec![caller_scope.why(&self.place(None))];
                let subject = Subject::deleted(self.target.kind.clone(), self.target.name.clone());
                Some(Decision::deny(subject, Reason::Undecided { problems }, self.sender))
            }
        }
    }
}
