//! Faults on demand: their kinds, the requests that they hit, and their number.

mod life;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;

pub(crate) use life::RequestOutcome;
pub use life::{Death, Life, Write};

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request waits before it is served, at most until the fault is cleared.
    Latency(Duration),
    /// HTTP 429 with `Retry-After: <seconds>`.
    TooManyRequests {
        /// Seconds to wait.
        retry_after: u64,
    },
    /// HTTP 403 Forbidden, as for a user without the right. The request is not carried out.
    Forbidden,
    /// HTTP 404 as for a path that is not served. An API server answers so for a custom kind while it starts.
    NotFound,
    /// HTTP 500 InternalError; the request is not carried out.
    InternalError,
    /// The connection is cut in the middle of the answer's body. The request was carried out.
    Cut,
    /// A list with a `continue` token gets HTTP 410 Expired.
    ExpiredContinue,
    /// A list through a virtual workspace is empty and has no `metadata.resourceVersion`, and a watch there never has
    /// an event. kcp answers so if the shard behind it returned 404.
    EmptyList,
    /// The same for lists through every door, as a proxy might answer after it lost the real answer.
    BareList,
    /// Pages of lists have at most this many objects, whatever the limit in the request. An API server may do so.
    ShortPages(usize),
    /// Open and new watches break without a message.
    WatchDropped,
    /// Watches get HTTP 410 Expired as their next event, and end.
    WatchExpired,
    /// Watches stay open without any message, not even a bookmark. They report missed events once this fault is
    /// cleared.
    WatchSilent,
    /// The APIExportEndpointSlices can be read, but name no endpoint. Hits no requests.
    NoEndpoints,
    /// New connections get an expired certificate, as a client sees it whose clock has jumped. Hits no requests.
    ExpiredCertificate,
}

impl Fault {
    /// Returns true if the fault hits an open watch, and not a request as it arrives.
    fn is_of_watches(self) -> bool {
        matches!(self, Self::WatchDropped | Self::WatchExpired | Self::WatchSilent)
    }

    fn is_of_requests(self) -> bool {
        !self.is_of_watches() && !matches!(self, Self::NoEndpoints | Self::ExpiredCertificate)
    }
}

/// Selects the requests that a fault hits, and their number.
#[derive(Clone, Debug, Default)]
pub struct When {
    method: Option<String>,
    start: Option<String>,
    path: Option<String>,
    times: Option<u64>,
    after: u64,
}

impl When {
    /// Selects every request, until the fault is cleared.
    #[must_use]
    pub fn always() -> Self {
        Self::default()
    }

    /// Selects only requests with this HTTP method.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    /// Selects only requests whose path begins with this: `/clusters/` for the front-proxy, `/services/` for a virtual
    /// workspace.
    #[must_use]
    pub fn under(mut self, start: &str) -> Self {
        self.start = Some(start.to_owned());
        self
    }

    /// Selects only requests whose path and query contain this.
    #[must_use]
    pub fn path(mut self, part: &str) -> Self {
        self.path = Some(part.to_owned());
        self
    }

    /// Selects only the first `times` of the requests that match.
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
        self.method.as_deref().is_none_or(|name| name.eq_ignore_ascii_case(method))
            && self.start.as_deref().is_none_or(|start| path_and_query.starts_with(start))
            && self.path.as_deref().is_none_or(|part| path_and_query.contains(part))
    }
}

/// Identifies an injected fault, so that it can be cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// Active faults.
#[derive(Debug, Default)]
pub struct Faults {
    injected: Mutex<ActiveFaults>,
    /// Number of changes to the faults, for tasks that wait for one.
    changes: watch::Sender<u64>,
    lives: Mutex<Vec<Weak<life::Inner>>>,
}

#[derive(Debug, Default)]
struct ActiveFaults {
    next: u64,
    faults: Vec<ActiveFault>,
}

#[derive(Debug)]
struct ActiveFault {
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
        injected.faults.push(ActiveFault { id, fault, when, hits: 0 });
        drop(injected);
        self.tell();
        id
    }

    /// Turns one fault off. Does nothing if the fault is off already.
    pub fn clear(&self, id: FaultId) {
        self.lock().faults.retain(|one| one.id != id);
        self.tell();
    }

    /// Turns all faults off.
    pub fn clear_all(&self) {
        self.lock().faults.clear();
        self.tell();
    }

    /// Returns the number of requests that the fault has hit; `None` once it is cleared.
    pub fn hits(&self, id: FaultId) -> Option<u64> {
        self.lock().faults.iter().find(|one| one.id == id).map(|one| one.hits)
    }

    /// Follows the writes of the user with this token. Counts those that `counts` selects. A test can let a process die
    /// at each of them.
    pub fn follow(&self, token: &str, counts: impl Fn(&Write) -> bool + Send + Sync + 'static) -> Life {
        let life = Life::begin(token, counts);
        self.lives().push(Arc::downgrade(life.inner()));
        life
    }

    /// Returns the fate of a request of that user.
    pub(crate) fn outcome(&self, token: &str, method: &str, path_and_query: &str) -> RequestOutcome {
        let mut lives = self.lives();
        lives.retain(|life| life.strong_count() > 0);
        RequestOutcome::new(lives.iter().filter_map(Weak::upgrade), token, method, path_and_query)
    }

    /// Returns the faults that hit this request, and counts each hit.
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

    /// Returns the first fault that hits an open watch. Each fault counts a watch once: `known` keeps if the fault hits
    /// it.
    pub(crate) fn strike_watch(&self, path_and_query: &str, known: &mut BTreeMap<FaultId, bool>) -> Option<Fault> {
        let mut injected = self.lock();
        let watches = injected.faults.iter_mut().filter(|one| one.fault.is_of_watches());
        watches
            .filter(|one| one.when.matches("GET", path_and_query))
            .filter_map(|one| known.entry(one.id).or_insert_with(|| one.strikes()).then_some(one.fault))
            .next()
    }

    /// Returns true if such a fault is on, whatever its target.
    pub(crate) fn is_on(&self, fault: Fault) -> bool {
        self.lock().faults.iter().any(|one| one.fault == fault)
    }

    /// Returns a receiver that is notified when a fault is turned on or off.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lives(&self) -> MutexGuard<'_, Vec<Weak<life::Inner>>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, ActiveFaults> {
        self.injected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveFault {
    /// Counts a matching request or watch. Returns true if the fault hits it.
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
