//! Scope of a review: the objects about which its sender may ask.

use super::{Bindings, Evaluation, InProgress, State};
use crate::applicability::bindings_list::BindingsList;
use crate::applicability::caller_scope::{CallerScope, Containment};
use crate::evaluation::decision::{Decision, Reason, Subject};
use crate::model::names::LogicalCluster;

impl Evaluation {
    /// Restricts the decision to the reviews that API servers send by a webhook configuration in `scope`. Those are
    /// about objects in that logical cluster, or of kinds bound from an APIExport there (kcp looks up configurations
    /// at the export). `None` is the one cluster of plain Kubernetes. Any other deletion is refused, without naming
    /// the referrers of the object. The referrers are not named either if the bindings can't be read.
    ///
    /// A decision by the rules and the review alone stands, because it reveals no other object.
    pub fn within(mut self, scope: Option<&LogicalCluster>) -> Self {
        match &mut self.0 {
            State::Evicting(eviction) => eviction.within(scope),
            State::InProgress(progress) if progress.target.cluster.as_ref() != scope => {
                progress.restrict_to(scope.cloned());
            }
            // Only the rules of the scope count, and they say nothing about objects outside.
            State::Checking(check) => check.restrict_to(scope),
            State::Settled(_) | State::InProgress(_) => {}
        }
        self
    }
}

impl InProgress {
    fn restrict_to(&mut self, provider: Option<LogicalCluster>) {
        let tells = provider.is_some() && self.target.cluster.is_some();
        self.caller_scope = Some(CallerScope::new(provider));
        if !tells {
            self.leave_scope();
        } else if self.bindings.is_none() {
            let on_delete = self.groups.iter().map(|group| group.on_delete).min().unwrap_or_default();
            let list = BindingsList::new();
            self.bindings = Some(Bindings { list, candidates: Vec::new(), cyclic: false, on_delete });
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
