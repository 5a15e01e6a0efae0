//! Life of one process as its API server sees it, and its death at a write.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Moment of a process's death at a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a write takes effect or it does not")]
pub enum Death {
    /// The write never reaches the API server.
    Before,
    /// The write takes effect, but the process gets no answer.
    After,
}

/// Write request: a POST, PUT, PATCH or DELETE.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Write {
    /// HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
}

/// Record of one user's writes, for a process that has a user of its own. When the record is dropped, the user is
/// served as before.
///
/// From the process's death on, every request of the user is cut without an answer and without an effect, until the
/// process is [revived](Self::revive). Meanwhile the test ends the process and starts another one. Requests in progress
/// at the moment of death are carried out, as an API server does; only their answers are lost.
#[derive(Debug)]
pub struct Life(Arc<Inner>);

pub(super) struct Inner {
    token: String,
    counts: Box<dyn Fn(&Write) -> bool + Send + Sync>,
    state: Mutex<State>,
    dead: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    writes: Vec<Write>,
    end: Option<(usize, Death)>,
}

/// Fate of a request.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    Served(Vec<RequestLife>),
    Cut,
}

/// Life that a request belongs to, and true if the request is its last one.
#[derive(Debug)]
pub(crate) struct RequestLife(Arc<Inner>, bool);

impl Life {
    /// Returns the writes so far, in the order in which they arrived.
    pub fn writes(&self) -> Vec<Write> {
        self.0.lock().writes.clone()
    }

    /// Lets the process die at a write, by the write's index among all [`writes`](Self::writes). An index in the past
    /// never matches.
    pub fn die_at(&self, write: usize, death: Death) {
        self.0.lock().end = Some((write, death));
    }

    /// Returns true if the process has died.
    pub fn is_dead(&self) -> bool {
        *self.0.dead.borrow()
    }

    /// Waits until the process has died.
    pub async fn died(&self) {
        // The sender lives as long as this value.
        self.0.dead.subscribe().wait_for(|dead| *dead).await.ok();
    }

    /// Serves the user again. No further death happens until the next [`die_at`](Self::die_at).
    pub fn revive(&self) {
        self.0.lock().end = None;
        self.0.dead.send_replace(false);
    }

    pub(super) fn begin(token: &str, counts: impl Fn(&Write) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            token: token.to_owned(),
            counts: Box::new(counts),
            state: Mutex::default(),
            dead: watch::Sender::new(false),
        }))
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl RequestOutcome {
    /// Returns the fate of a request in the lives of its user.
    pub(super) fn new(lives: impl Iterator<Item = Arc<Inner>>, token: &str, method: &str, path: &str) -> Self {
        let mut lasts = Vec::new();
        for life in lives.filter(|life| life.token == token) {
            match life.meet(method, path) {
                Some(last) => lasts.push(RequestLife(life, last)),
                None => return Self::Cut,
            }
        }
        Self::Served(lasts)
    }

    /// Returns true if the answer reaches the process.
    pub(crate) fn is_answered(&self) -> bool {
        let Self::Served(lives) = self else { return false };
        for RequestLife(life, _) in lives.iter().filter(|RequestLife(_, last)| *last) {
            life.dead.send_replace(true);
        }
        lives.iter().all(|RequestLife(life, _)| !*life.dead.borrow())
    }
}

impl Inner {
    /// Returns true if this is the last request that takes effect; `None` if it takes no effect.
    fn meet(&self, method: &str, path: &str) -> Option<bool> {
        let mut state = self.lock();
        if *self.dead.borrow() {
            return None;
        }
        let write = Write { method: method.to_owned(), path: path.to_owned() };
        if !matches!(method, "POST" | "PUT" | "PATCH" | "DELETE") || !(self.counts)(&write) {
            return Some(false);
        }
        let index = state.writes.len();
        state.writes.push(write);
        match state.end {
            Some((at, Death::Before)) if at == index => {
                self.dead.send_replace(true);
                None
            }
            Some((at, Death::After)) => Some(at == index),
            _ => Some(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Inner").field("token", &self.token).field("state", &self.state).finish_non_exhaustive()
    }
}
