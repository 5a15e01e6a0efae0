//! Faults on demand: what goes wrong, for which requests, how often.

mod life;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;

pub(crate) use life::Fate;
pub use life::{Death, Life, Write};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request waits before it is served.
    Latency(Duration),
    /// HTTP 429 with `Retry-After: <seconds>`.
    TooManyRequests {
        /// Seconds to wait.
        retry_after: u64,
    },
    /// HTTP 403 Forbidden, as for somebody without the right; the request is not carried out.
    Forbidden,
    /// HTTP 404 as of a path that nobody serves: what an API server says of a custom kind while it starts.
    NotFound,
    /// HTTP 500 InternalError; the request is not carried out.
    InternalError,
    /// The connection is cut in the middle of the answer's body (of a request that was carried out).
    Cut,
    /// A list with a `continue` token gets HTTP 410 Expired.
    ExpiredContinue,
    /// A list through a virtual workspace is empty and has no `metadata.resourceVersion`, and its
    /// watch never has an event: what kcp makes of a 404 of the shard behind it.
    EmptyList,
    /// The same of any list, through whichever door: what a proxy might make of an answer that it lost.
    BareList,
    /// Pages of lists hold so many objects at the most, whatever limit is asked for, as an API server may have it.
    ShortPages(usize),
    /// Watches break without a word: those that are open, and those that are opened.
    WatchDropped,
    /// Watches get HTTP 410 Expired as their next event, and end.
    WatchExpired,
    /// Watches stay open and say nothing, not even a bookmark; what they missed they tell once this is cleared.
    WatchSilent,
    /// The APIExportEndpointSlices can be read, and name no endpoint. Hits no requests.
    NoEndpoints,
    /// New connections get a certificate that has run out: how the server looks to a client whose clock has jumped.
    /// Hits no requests.
    ExpiredCertificate,
}

impl Fault {
    /// Whether it befalls a watch for as long as that is open, rather than a request as it comes.
    fn is_of_watches(self) -> bool {
        matches!(self, Self::WatchDropped | Self::WatchExpired | Self::WatchSilent)
    }

    fn is_of_requests(self) -> bool {
        !self.is_of_watches() && !matches!(self, Self::NoEndpoints | Self::ExpiredCertificate)
    }
}

/// Which requests a fault hits, and how many of them.
#[derive(Clone, Debug, Default)]
pub struct When {
    method: Option<String>,
    start: Option<String>,
    path: Option<String>,
    times: Option<u64>,
    after: u64,
}

impl When {
    /// Every request, until cleared.
    #[must_use]
    pub fn always() -> Self {
        Self::default()
    }

    /// Only requests of this HTTP method.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    /// Only requests whose path begins with this: `/clusters/` is the front-proxy's, `/services/` a virtual workspace's.
    #[must_use]
    pub fn under(mut self, start: &str) -> Self {
        self.start = Some(start.to_owned());
        self
    }

    /// Only requests whose path and query contain this.
    #[must_use]
    pub fn path(mut self, part: &str) -> Self {
        self.path = Some(part.to_owned());
        self
    }

    /// Only the first `times` of the requests that match.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets `count` matching requests pass first.
    #[must_use]
    pub fn after(mut self, count: u64) -> Self {
        self.after = count;
        self
    }

    fn matches(&self, method: &str, path_and_query: &str) -> bool {
        self.method.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(method))
            && self.start.as_deref().is_none_or(|start| path_and_query.starts_with(start))
            && self.path.as_deref().is_none_or(|part| path_and_query.contains(part))
    }
}

/// Names an injected fault, so that it can be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// The faults that are on.
#[derive(Debug, Default)]
pub struct Faults {
    injected: Mutex<Injected>,
    /// Counts what is turned on and off, for those who wait for it.
    changes: watch::Sender<u64>,
    lives: Mutex<Vec<Weak<life::Inner>>>,
}

#[derive(Debug, Default)]
struct Injected {
    next: u64,
    faults: Vec<One>,
}

#[derive(Debug)]
struct One {
    id: FaultId,
    fault: Fault,
    when: When,
    hits: u64,
}

impl Faults {
    /// Turns a fault on.
    pub fn inject(&self, fault: Fault, when: When) -> FaultId {
        let mut injected = self.lock();
        let id = FaultId(injected.next);
        injected.next += 1;
        injected.faults.push(One { id, fault, when, hits: 0 });
        drop(injected);
        self.tell();
        id
    }

    /// Turns one fault off. One that is off already stays so.
    pub fn clear(&self, id: FaultId) {
        self.lock().faults.retain(|one| one.id != id);
        self.tell();
    }

    /// Turns all faults off.
    pub fn clear_all(&self) {
        self.lock().faults.clear();
        self.tell();
    }

    /// How many requests the fault has hit; `None` once it is cleared.
    pub fn hits(&self, id: FaultId) -> Option<u64> {
        self.lock().faults.iter().find(|one| one.id == id).map(|one| one.hits)
    }

    /// Follows the writes of the user with this token, those that `counts` says are to be counted: for a test that lets
    /// a process die at each of them.
    pub fn follow(&self, token: &str, counts: impl Fn(&Write) -> bool + Send + Sync + 'static) -> Life {
        let life = Life::begin(token, counts);
        self.lives().push(Arc::downgrade(life.inner()));
        life
    }

    /// What is to become of a request of that user.
    pub(crate) fn fate(&self, token: &str, method: &str, path_and_query: &str) -> Fate {
        let mut lives = self.lives();
        lives.retain(|life| life.strong_count() > 0);
        Fate::of(lives.iter().filter_map(Weak::upgrade), token, method, path_and_query)
    }

    /// The faults that hit this request, each counted.
    pub(crate) fn strike(&self, method: &str, path_and_query: &str) -> Vec<Fault> {
        let mut struck = Vec::new();
        for one in &mut self.lock().faults {
            let continues = path_and_query.contains("continue=");
            if one.fault.is_of_requests()
                && (one.fault != Fault::ExpiredContinue || continues)
                && one.when.matches(method, path_and_query)
                && one.strikes()
            {
                struck.push(one.fault);
            }
        }
        struck
    }

    /// The first fault that befalls an open watch. Each fault counts it once: whether it hits is in `known` from then on.
    pub(crate) fn strike_watch(&self, path_and_query: &str, known: &mut BTreeMap<FaultId, bool>) -> Option<Fault> {
        let mut injected = self.lock();
        let watches = injected.faults.iter_mut().filter(|one| one.fault.is_of_watches());
        watches
            .filter(|one| one.when.matches("GET", path_and_query))
            .filter_map(|one| known.entry(one.id).or_insert_with(|| one.strikes()).then_some(one.fault))
            .next()
    }

    /// Whether such a fault is on, whatever it is aimed at.
    pub(crate) fn is_on(&self, fault: Fault) -> bool {
        self.lock().faults.iter().any(|one| one.fault == fault)
    }

    /// Tells whenever a fault is turned on or off.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lives(&self) -> MutexGuard<'_, Vec<Weak<life::Inner>>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Injected> {
        self.injected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl One {
    /// Counts something that matches, and says whether it is hit.
    fn strikes(&mut self) -> bool {
        if self.when.after > 0 {
            self.when.after -= 1;
            return false;
        }
        let strikes = self.when.times.is_none_or(|times| self.hits < times);
        self.hits += u64::from(strikes);
        strikes
    }
}
