//! Where an object lies: whether that is torn down, and whether the review's sender has to do with it.

use super::desk::Desk;
use crate::answers::UNANSWERED;
use crate::bindings::{BINDINGS_PATH, read_page};
use crate::bounds::{Bounds, Verdict};
use crate::decision::Problem;
use crate::listing::{Listing, Progress};
use crate::names::{GroupResource, LogicalCluster, Namespace};
use crate::query::Answer;
use crate::scopes::{self, Scope, Scopes, place};

/// The Namespace, the LogicalCluster and the APIBinding around an object.
#[derive(Debug)]
pub(super) struct Surroundings {
    kind: GroupResource,
    cluster: Option<LogicalCluster>,
    namespace: Option<Namespace>,
    /// What the review may be about; `None`: anything.
    bounds: Option<Bounds>,
    scopes: Scopes,
    bindings: Listing,
    state: Bindings,
    /// Whether the binding that serves the kind is being deleted.
    unbinding: bool,
}

#[derive(Debug)]
enum Bindings {
    NotAsked,
    Asked,
    Read,
    Unread(String),
}

/// Something around the object that is to be read.
#[derive(Debug, Clone)]
pub(super) enum Around {
    Scope(Scope),
    Bindings,
}

impl Surroundings {
    pub(super) fn new(kind: GroupResource, cluster: Option<LogicalCluster>, namespace: Option<Namespace>) -> Self {
        Self {
            kind,
            bounds: None,
            scopes: Scopes::new(cluster.clone(), namespace.clone()),
            bindings: Listing::new(BINDINGS_PATH.to_owned()),
            state: Bindings::NotAsked,
            unbinding: false,
            cluster,
            namespace,
        }
    }

    /// The review came by a webhook configuration that lies in `scope`.
    pub(super) fn within(&mut self, scope: Option<&LogicalCluster>) {
        if self.cluster.as_ref() == scope {
            return;
        }
        let mut bounds = Bounds::new(scope.cloned());
        if scope.is_none() || self.cluster.is_none() {
            bounds.verdict = Verdict::Outside;
        }
        self.bounds = Some(bounds);
    }

    /// What must be read to tell whether the review is about what it may be about.
    pub(super) fn ask_bounds(&mut self) -> Vec<Around> {
        match &self.bounds {
            Some(bounds) if bounds.verdict == Verdict::Unknown => self.ask_bindings(),
            _ => Vec::new(),
        }
    }

    /// What must be read to tell whether the object is torn down.
    pub(super) fn ask_teardown(&mut self) -> Vec<Around> {
        let mut wanted = Vec::new();
        if let scopes::Verdict::Ask(scopes) = self.scopes.judge_one(self.namespace.as_ref()) {
            for scope in scopes {
                if self.scopes.ask(&scope) {
                    wanted.push(Around::Scope(scope));
                }
            }
        }
        if self.cluster.is_some() {
            wanted.extend(self.ask_bindings());
        }
        wanted
    }

    fn ask_bindings(&mut self) -> Vec<Around> {
        if !matches!(self.state, Bindings::NotAsked) {
            return Vec::new();
        }
        self.state = Bindings::Asked;
        vec![Around::Bindings]
    }

    /// Has what is wanted read: each is a purpose of the desk's owner.
    pub(super) fn send<T>(
        &self,
        wanted: impl IntoIterator<Item = Around>,
        desk: &mut Desk<T>,
        purpose: fn(Around) -> T,
    ) {
        for around in wanted {
            let path = match &around {
                Around::Scope(scope) => scope.path(),
                Around::Bindings => self.bindings.next(),
            };
            desk.get(purpose(around), path);
        }
    }

    /// Takes an answer, and asks for what more it calls for.
    pub(super) fn answer<T>(
        &mut self,
        around: Around,
        answer: Answer<'_>,
        desk: &mut Desk<T>,
        purpose: fn(Around) -> T,
    ) {
        let again = self.take(around, answer);
        self.send(again, desk, purpose);
    }

    /// What it hands back is to be asked again.
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
                    bounds.see(binding, &self.kind);
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
                if let Some(bounds) = self.bounds.as_mut().filter(|bounds| bounds.verdict == Verdict::Unknown) {
                    bounds.verdict = Verdict::Outside;
                }
            }
            Progress::NotFound => {
                let why = "failed with HTTP 404; make sure that this is a kcp, or run with --home kubernetes";
                self.state = Bindings::Unread(why.to_owned());
            }
            Progress::Failed(why) => self.state = Bindings::Unread(why),
        }
        None
    }

    /// Whether the object is known to be torn down with what it lies in.
    pub(super) fn is_going(&self) -> bool {
        let unbound = self.unbinding && matches!(self.state, Bindings::Read);
        unbound || self.scopes.judge_one(self.namespace.as_ref()) == scopes::Verdict::Going
    }

    /// Why nothing may be told or done: the review is about something that its sender has nothing to do with, or that
    /// can't be told.
    pub(super) fn is_out_of_bounds(&self) -> Option<Problem> {
        let bounds = self.bounds.as_ref()?;
        match bounds.verdict {
            Verdict::Inside => None,
            Verdict::Outside => Some(Problem(bounds.why(&place(self.cluster.as_ref(), None)))),
            Verdict::Unknown => {
                let why = match &self.state {
                    Bindings::Unread(why) => why.as_str(),
                    _ => UNANSWERED,
                };
                Some(self.bindings_problem(why))
            }
        }
    }

    /// Why it can't be told whether the object is torn down.
    pub(super) fn unread(&self) -> Vec<Problem> {
        let bindings = match &self.state {
            Bindings::NotAsked | Bindings::Read => None,
            Bindings::Asked => Some(self.bindings_problem(UNANSWERED)),
            Bindings::Unread(why) => Some(self.bindings_problem(why)),
        };
        self.scopes.unread().into_iter().chain(bindings).collect()
    }

    fn bindings_problem(&self, why: &str) -> Problem {
        Problem(format!("the list of apibindings{} {why}", place(self.cluster.as_ref(), None)))
    }
}
