//! Surroundings of an object: they show if the object is torn down, and if the review's sender may ask about it.

use super::request_queue::RequestQueue;
use crate::applicability::api_bindings::{BINDINGS_PATH, read_page};
use crate::applicability::caller_scope::{CallerScope, Containment};
use crate::applicability::teardown::{self, Scope, TeardownScopes, place};
use crate::model::names::{GroupResource, LogicalCluster, Namespace};
use crate::protocol::paged_list::{PagedList, Progress};
use crate::protocol::problem::Unresolved;
use crate::protocol::response::Answer;
use crate::protocol::response_error::{not_a_kcp, unanswered};

/// The Namespace, the LogicalCluster and the APIBinding around an object.
#[derive(Debug)]
pub(super) struct ObjectScope {
    kind: GroupResource,
    cluster: Option<LogicalCluster>,
    namespace: Option<Namespace>,
    /// Scope of the review; `None`: the review may be about any object.
    bounds: Option<CallerScope>,
    scopes: TeardownScopes,
    bindings: PagedList,
    state: Bindings,
    /// True if the binding that serves the kind is being deleted.
    unbinding: bool,
}

#[derive(Debug)]
enum Bindings {
    NotAsked,
    Asked,
    Read,
    Unread(Unresolved),
}

/// An object among the surroundings that must be read.
#[derive(Debug, Clone)]
pub(super) enum Around {
    Scope(Scope),
    Bindings,
}

impl ObjectScope {
    pub(super) fn new(kind: GroupResource, cluster: Option<LogicalCluster>, namespace: Option<Namespace>) -> Self {
        Self {
            kind,
            bounds: None,
            scopes: TeardownScopes::new(cluster.clone(), namespace.clone()),
            bindings: PagedList::new(BINDINGS_PATH.to_owned()),
            state: Bindings::NotAsked,
            unbinding: false,
            cluster,
            namespace,
        }
    }

    /// Sets the scope of the webhook configuration that caused the review.
    pub(super) fn within(&mut self, scope: Option<&LogicalCluster>) {
        if self.cluster.as_ref() == scope {
            return;
        }
        let mut bounds = CallerScope::new(scope.cloned());
        if scope.is_none() || self.cluster.is_none() {
            bounds.containment = Containment::Outside;
        }
        self.bounds = Some(bounds);
    }

    /// Returns the reads that show if the review is within its scope.
    pub(super) fn ask_bounds(&mut self) -> Vec<Around> {
        match &self.bounds {
            Some(bounds) if bounds.containment == Containment::Unknown => self.ask_bindings(),
            _ => Vec::new(),
        }
    }

    /// Returns the reads that show if the object is torn down.
    pub(super) fn ask_teardown(&mut self) -> Vec<Around> {
        let mut reads = Vec::new();
        if let teardown::TeardownVerdict::Unknown(scopes) = self.scopes.namespace_verdict(self.namespace.as_ref()) {
            for scope in scopes {
                if self.scopes.ask(&scope) {
                    reads.push(Around::Scope(scope));
                }
            }
        }
        if self.cluster.is_some() {
            reads.extend(self.ask_bindings());
        }
        reads
    }

    fn ask_bindings(&mut self) -> Vec<Around> {
        if !matches!(self.state, Bindings::NotAsked) {
            return Vec::new();
        }
        self.state = Bindings::Asked;
        vec![Around::Bindings]
    }

    /// Requests these reads. `purpose` turns each into a purpose of the desk's owner.
    pub(super) fn send<T>(
        &self,
        reads: impl IntoIterator<Item = Around>,
        desk: &mut RequestQueue<T>,
        purpose: fn(Around) -> T,
    ) {
        for around in reads {
            let path = match &around {
                Around::Scope(scope) => scope.path(),
                Around::Bindings => self.bindings.next(),
            };
            desk.get(purpose(around), path);
        }
    }

    /// Takes an answer, and requests the next read if one is needed.
    pub(super) fn answer<T>(
        &mut self,
        around: Around,
        answer: Answer<'_>,
        desk: &mut RequestQueue<T>,
        purpose: fn(Around) -> T,
    ) {
        let again = self.take(around, answer);
        self.send(again, desk, purpose);
    }

    /// Takes an answer, and returns the next read if one is needed.
    fn take(&mut self, around: Around, answer: Answer<'_>) -> Option<Around> {
        if let Around::Scope(scope) = around {
            self.scopes.answer(scope, answer);
            return None;
        }
        let progress = self.bindings.answer(answer, |body| {
            read_page(body, |binding| {
                let kind = (self.kind.group.as_str(), self.kind.resource.as_str());
                self.unbinding |= binding.is_terminating() && binding.bound().any(|bound| bound == kind);
                if let Some(bounds) = &mut self.bounds {
                    bounds.observe(binding, &self.kind);
                }
            })
        });
        match progress {
            Progress::More => return Some(Around::Bindings),
            Progress::Restart => {
                self.unbinding = false;
                if let Some(bounds) = &mut self.bounds {
                    bounds.reset();
                }
                return Some(Around::Bindings);
            }
            Progress::Complete => {
                self.state = Bindings::Read;
                if let Some(bounds) = self.bounds.as_mut().filter(|bounds| bounds.containment == Containment::Unknown) {
                    bounds.containment = Containment::Outside;
                }
            }
            Progress::NotFound => self.state = Bindings::Unread(not_a_kcp()),
            Progress::Failed(why) => self.state = Bindings::Unread(why),
        }
        None
    }

    /// Returns true if the object is known to be torn down with its surroundings.
    pub(super) fn is_going(&self) -> bool {
        let unbound = self.unbinding && matches!(self.state, Bindings::Read);
        unbound || self.scopes.namespace_verdict(self.namespace.as_ref()) == teardown::TeardownVerdict::Terminating
    }

    /// Returns the reason why nothing may be revealed or done: the review is out of scope, or that is unknown.
    pub(super) fn is_out_of_bounds(&self) -> Option<Unresolved> {
        let bounds = self.bounds.as_ref()?;
        match bounds.containment {
            Containment::Inside => None,
            Containment::Outside => Some(bounds.why(&place(self.cluster.as_ref(), None))),
            Containment::Unknown => {
                let why = match &self.state {
                    Bindings::Unread(why) => why.clone(),
                    _ => unanswered(),
                };
                Some(self.bindings_problem(why))
            }
        }
    }

    /// Returns the reasons why it is unknown if the object is torn down.
    pub(super) fn unread(&self) -> Vec<Unresolved> {
        let bindings = match &self.state {
            Bindings::NotAsked | Bindings::Read => None,
            Bindings::Asked => Some(self.bindings_problem(unanswered())),
            Bindings::Unread(why) => Some(self.bindings_problem(why.clone())),
        };
        self.scopes.unread().into_iter().chain(bindings).collect()
    }

    fn bindings_problem(&self, why: Unresolved) -> Unresolved {
        why.about(format_args!("the list of apibindings{}", place(self.cluster.as_ref(), None)))
    }
}
