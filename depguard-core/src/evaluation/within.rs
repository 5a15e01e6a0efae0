//! Whether a review is about what its sender has to do with.

use super::{Asking, Bindings, Evaluation, State};
use crate::bindings::BINDINGS_PATH;
use crate::bounds::{Bounds, Verdict};
use crate::decision::{Decision, Problem, Reason, Subject};
use crate::listing::Listing;
use crate::names::LogicalCluster;

impl Evaluation {
    /// Decides only about what the API servers ask by a webhook configuration that lies in `scope`: the objects in that
    /// logical cluster, and those whose kind is bound from an APIExport there (kcp looks configurations up where the
    /// export is). `None` is the one cluster of a plain Kubernetes. Any other deletion is refused, and nothing is said
    /// of who refers to the object; neither is it where the bindings can't be read.
    ///
    /// What the rules and the review itself decide stands: it tells nothing of any other object.
    pub fn within(mut self, scope: Option<&LogicalCluster>) -> Self {
        match &mut self.0 {
            State::Evicting(eviction) => eviction.within(scope),
            State::Asking(asking) if asking.target.cluster.as_ref() != scope => asking.bound_to(scope.cloned()),
            State::Settled(_) | State::Asking(_) => {}
        }
        self
    }
}

impl Asking {
    fn bound_to(&mut self, provider: Option<LogicalCluster>) {
        let tells = provider.is_some() && self.target.cluster.is_some();
        self.bounds = Some(Bounds::new(provider));
        if !tells {
            self.leave_bounds();
        } else if self.bindings.is_none() {
            let on_delete = self.searches.iter().map(|search| search.on_delete).min().unwrap_or_default();
            let listing = Listing::new(BINDINGS_PATH.to_owned());
            self.bindings = Some(Bindings { listing, candidates: Vec::new(), cyclic: false, on_delete });
            self.ready.push_back(super::Asked::Bindings);
        }
    }

    /// All bindings have been read. Whether the review is about what it may be about.
    pub(super) fn keeps_bounds(&mut self) -> bool {
        match &mut self.bounds {
            Some(bounds) if bounds.verdict != Verdict::Inside => {
                self.leave_bounds();
                false
            }
            _ => true,
        }
    }

    fn leave_bounds(&mut self) {
        if let Some(bounds) = &mut self.bounds {
            bounds.verdict = Verdict::Outside;
        }
        self.bindings = None;
        self.ready.clear();
        self.open.clear();
        self.due.clear();
        self.forget();
    }

    /// What was found is not for whoever asks.
    fn forget(&mut self) {
        self.searches.clear();
        self.readings.clear();
    }

    pub(super) fn is_outside(&self) -> bool {
        self.bounds.as_ref().is_some_and(|bounds| bounds.verdict == Verdict::Outside)
    }

    /// The refusal of what is out of bounds. While that is not known, what was found is not to be told.
    pub(super) fn outside(&mut self) -> Option<Decision> {
        let bounds = self.bounds.as_ref()?;
        match bounds.verdict {
            Verdict::Inside => None,
            Verdict::Unknown => {
                self.forget();
                None
            }
            Verdict::Outside => {
                let problems = vec![Problem(bounds.why(&self.place(None)))];
                let subject = Subject { kind: self.target.kind.clone(), name: self.target.name.clone() };
                Some(Decision::deny(subject, Reason::Undecided { problems }, self.refusal))
            }
        }
    }
}
