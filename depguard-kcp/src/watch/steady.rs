//! Steady watch: a list of a collection, then each change. It is begun anew, with a list, whenever it breaks, falls
//! silent or grows old.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use depguard_core::protocol::{Accept, PagedList};
use futures::future::OptionFuture;
use futures::{Stream, stream};
use serde::Deserialize;
use serde::de::Error;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

use crate::http::endpoint::{Endpoint, HEAD_TIMEOUT};
use crate::http::lines::{Lines, MAX_LINE};
use crate::http::objects::{ApiError, Status, with_query};
use crate::http::paged_list::ReadPage;

/// Duration of a watch request; the next one goes on where it ended.
const WATCH_SECONDS: u64 = 25;

/// Maximum silence of a watch. A watch that is silent for longer is begun anew, with a list: a connection may have
/// broken unnoticed, and kcp's virtual workspaces can keep a watch open that never reports again. A healthy watch may
/// be silent too: a kube-apiserver sends no bookmark as long as no object of a kind was ever written. Then the list is
/// short.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 10);

/// Maximum age of a watch. An older watch is begun anew, with a list, even if it sends bookmarks: they do not prove
/// that the shard behind a virtual workspace reports everything.
const REFRESH: Duration = Duration::from_secs(300);

/// Time after which a watch counts as steady: when it breaks later, the pauses are short again.
const STEADY: Duration = Duration::from_secs(10);

/// First pause between attempts. Many short ones come first: a kcp takes some seconds to serve a new binding, and until
/// then nothing can be decided.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Maximum pause: however long a fault lasts, its consequences end soon after.
const MAX_PAUSE: Duration = Duration::from_secs(8);

/// Minimum duration of a watch that the server ended by itself.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Maximum length of a page of more than one object, in bytes. Objects of one tenant must not fill the memory that all
/// tenants share, and must not make a list fail that also shows other tenants' objects.
const MAX_PAGE: usize = 2 << 20;

/// Form in which a watch shows objects.
pub trait Form: Send + Sync + 'static {
    /// Object as it is shown.
    type Object: Send;

    /// True if the metadata of the objects is enough; the server may send whole objects nevertheless.
    const METADATA: bool = false;

    /// Reads an object's JSON.
    fn read(&self, json: &str) -> serde_json::Result<Self::Object>;

    /// Reads the metadata of an object that is too large to be read as a whole. An error fails the list.
    fn read_too_large(&self, _metadata: &str) -> serde_json::Result<Self::Object> {
        Err(serde_json::Error::custom("an object is too large; make that object smaller"))
    }

    /// Returns the places for pages that may be read at the same time, if there is a limit.
    fn places(&self) -> Option<&Semaphore> {
        None
    }
}

/// Event of a watch, which shows objects as values of type `T`.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum WatchEvent<T> {
    /// A list begins. Earlier knowledge no longer counts once the list is complete.
    Listing,
    /// The list has this object.
    Listed(T),
    /// The list is complete.
    Complete,
    /// An object was created or changed.
    Changed(T),
    /// An object is gone.
    Gone(T),
    /// Nothing has changed, and the watch works.
    Bookmark,
    /// The watch failed, and will be begun anew after a pause.
    Failed(WatchFailure),
}

/// Failure of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct WatchFailure {
    /// Text of the error.
    pub why: String,
    /// HTTP status, if the API server answered with one.
    pub status: Option<u16>,
    /// True if the watch failed before a list was read to its end. The present objects are unknown then.
    pub listing: bool,
}

impl Endpoint {
    /// Follows the objects of the collection at `path`, which may have a query: a list, then each change. The stream
    /// never ends: after a failure, a silence and a while, the watch is begun anew with a list.
    pub fn follow<F: Form>(&self, path: String, form: F) -> impl Stream<Item = WatchEvent<F::Object>> + Send + use<F> {
        let now = Instant::now();
        let watch = SteadyWatch {
            endpoint: self.within(HEAD_TIMEOUT),
            phase: Phase::List(PagedList::new(path.clone())),
            path,
            form,
            events: VecDeque::from([WatchEvent::Listing]),
            begun: now,
            understood: now,
            pause: FIRST_PAUSE,
        };
        stream::unfold(watch, |watch| async { Some(watch.next().await) })
    }
}

struct SteadyWatch<F: Form> {
    endpoint: Endpoint,
    path: String,
    form: F,
    phase: Phase,
    /// Events that nobody has taken yet, each with its object's JSON. A tree of a tenant's object takes many times the
    /// memory of its text, so there is never more than one.
    events: VecDeque<WatchEvent<EventObject>>,
    /// Time at which the watch last began anew.
    begun: Instant,
    /// Time of the last message that was understood: an event, a bookmark, or a list read to its end. A response that has
    /// only begun does not count: it may be the same unusable list for ever.
    understood: Instant,
    /// Pause after the next failure.
    pause: Duration,
}

/// JSON of an object, or of the metadata of one that is too large.
enum EventObject {
    Whole(Box<str>),
    TooLarge(Box<str>),
}

/// Next thing to do.
enum Phase {
    Pause,
    /// Read the next page.
    List(PagedList),
    /// Watch from this resource version on.
    Open(String),
    /// Read the next event of a watch that began at this time; the last event had this resource version.
    Events(Lines, Instant, String),
}

#[derive(Deserialize)]
struct EventWire<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Versioned {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

impl<F: Form> SteadyWatch<F> {
    async fn next(mut self) -> (WatchEvent<F::Object>, Self) {
        loop {
            let done = match self.events.pop_front() {
                Some(event) => {
                    let listing = matches!(event, WatchEvent::Listed(_));
                    match event.read(|text| text.read(&self.form)) {
                        Ok(event) => return (event, self),
                        Err(why) => Err(unusable(&why, listing)),
                    }
                }
                None => self.step().await,
            };
            if let Err(failure) = done {
                tracing::debug!(path = self.path, url = self.endpoint.url(), ?failure, "watch broke");
                if self.begun.elapsed() > STEADY {
                    self.pause = FIRST_PAUSE;
                }
                self.events = VecDeque::from([WatchEvent::Failed(failure)]);
                self.phase = Phase::Pause;
            }
        }
    }

    async fn step(&mut self) -> Result<(), WatchFailure> {
        match &mut self.phase {
            Phase::Pause => {
                sleep(self.pause).await;
                self.pause = (self.pause * 5 / 4).min(MAX_PAUSE);
                self.begin();
                Ok(())
            }
            Phase::List(_) => self.page().await.map_err(|error| WatchFailure::new(&error, true)),
            Phase::Open(from) => {
                let query = format!(
                    "watch=true&timeoutSeconds={WATCH_SECONDS}&allowWatchBookmarks=true&resourceVersion={from}"
                );
                let accept = if F::METADATA { Accept::Event } else { Accept::Json };
                let lines = self.endpoint.lines(&with_query(&self.path, &query), accept.as_str()).await;
                let lines = lines.map_err(|error| WatchFailure::new(&error, false))?;
                self.phase = Phase::Events(lines, Instant::now(), std::mem::take(from));
                Ok(())
            }
            Phase::Events(..) => self.event().await,
        }
    }

    /// Begins anew, with a list.
    fn begin(&mut self) {
        self.begun = Instant::now();
        self.events.push_back(WatchEvent::Listing);
        self.phase = Phase::List(PagedList::new(self.path.clone()));
    }

    async fn page(&mut self) -> Result<(), ApiError> {
        let Phase::List(list) = &mut self.phase else { return Ok(()) };
        let accept = if F::METADATA { Accept::Metadata } else { Accept::Json };
        let most = if list.limit() == 1 { MAX_LINE } else { MAX_PAGE };
        let whole = |object: &str| Ok(WatchEvent::Listed(EventObject::Whole(object.into())));
        let _place = OptionFuture::from(self.form.places().map(Semaphore::acquire)).await;
        let mut page = self.endpoint.page_of(list, &self.path, accept.as_str(), most, whole).await?;
        if matches!(page, ReadPage::TooLarge(_)) {
            let metadata = |object: &str| Ok(WatchEvent::Listed(EventObject::TooLarge(object.into())));
            let accept = Accept::Metadata.as_str();
            page = self.endpoint.page_of(list, &self.path, accept, most, metadata).await?;
        }
        match page {
            ReadPage::TooLarge(error) => return Err(error),
            ReadPage::More(objects) => self.events.extend(objects),
            ReadPage::Last(objects, resource_version) => {
                self.understood = Instant::now();
                self.events.extend(objects);
                self.events.push_back(WatchEvent::Complete);
                self.phase = Phase::Open(resource_version);
            }
            ReadPage::Expired(_) => self.events.push_back(WatchEvent::Listing),
        }
        Ok(())
    }

    /// Waits for the next event, until it is time to begin anew.
    async fn event(&mut self) -> Result<(), WatchFailure> {
        let Phase::Events(lines, since, last) = &mut self.phase else { return Ok(()) };
        let due = self.begun + REFRESH;
        match timeout_at(due.min(self.understood + SILENCE), lines.next()).await {
            Ok(Ok(Some(line))) => {
                let (event, resource_version) = read_event(&line)?;
                *last = resource_version;
                self.understood = Instant::now();
                self.events.push_back(event);
            }
            Ok(Ok(None)) if since.elapsed() < AT_ONCE => return Err(broken("the watch ended at once")),
            Ok(Ok(None)) => self.phase = Phase::Open(std::mem::take(last)),
            Ok(Err(why)) => return Err(broken(&why)),
            Err(_) => {
                if Instant::now() >= due {
                    self.pause = FIRST_PAUSE;
                } else {
                    let seconds = SILENCE.as_secs();
                    tracing::debug!(
                        path = self.path,
                        url = self.endpoint.url(),
                        "the watch was silent for {seconds} s: beginning again"
                    );
                }
                self.begin();
            }
        }
        Ok(())
    }
}

/// Reads an event, and its object's resource version.
fn read_event(line: &[u8]) -> Result<(WatchEvent<EventObject>, String), WatchFailure> {
    let EventWire { r#type, object } = serde_json::from_slice(line).map_err(|why| unusable(&why, false))?;
    let json = object.get();
    if r#type == "ERROR" {
        return Err(WatchFailure::from_status(&Status::of_event(json), false));
    }
    let read: Versioned = serde_json::from_str(json).map_err(|why| unusable(&why, false))?;
    let event = match r#type {
        "BOOKMARK" => WatchEvent::Bookmark,
        "ADDED" | "MODIFIED" => WatchEvent::Changed(EventObject::Whole(json.into())),
        "DELETED" => WatchEvent::Gone(EventObject::Whole(json.into())),
        other => return Err(broken(&format!("the watch has an event of the unknown type {other:?}"))),
    };
    match read.metadata.resource_version {
        version if version.is_empty() => Err(broken("the watch has an event without metadata.resourceVersion")),
        version => Ok((event, version)),
    }
}

fn unusable(why: &serde_json::Error, listing: bool) -> WatchFailure {
    WatchFailure { listing, ..broken(&format!("the API server sent an object that can't be read: {why}")) }
}

/// Returns the failure of a watch whose list was read.
fn broken(why: &str) -> WatchFailure {
    WatchFailure { why: why.to_owned(), status: None, listing: false }
}

impl EventObject {
    fn read<F: Form>(&self, form: &F) -> serde_json::Result<F::Object> {
        match self {
            Self::Whole(json) => form.read(json),
            Self::TooLarge(metadata) => form.read_too_large(metadata),
        }
    }
}

impl<T> WatchEvent<T> {
    /// Reads the object of the event, if it has one.
    fn read<U, E>(self, read: impl FnOnce(T) -> Result<U, E>) -> Result<WatchEvent<U>, E> {
        Ok(match self {
            Self::Listing => WatchEvent::Listing,
            Self::Listed(object) => WatchEvent::Listed(read(object)?),
            Self::Complete => WatchEvent::Complete,
            Self::Changed(object) => WatchEvent::Changed(read(object)?),
            Self::Gone(object) => WatchEvent::Gone(read(object)?),
            Self::Bookmark => WatchEvent::Bookmark,
            Self::Failed(failure) => WatchEvent::Failed(failure),
        })
    }
}

impl WatchFailure {
    fn new(error: &ApiError, listing: bool) -> Self {
        match error {
            ApiError::Refused { status, .. } => Self::from_status(status, listing),
            ApiError::Request(_) | ApiError::Unusable { .. } => Self { why: error.to_string(), status: None, listing },
        }
    }

    fn from_status(status: &Status, listing: bool) -> Self {
        Self { why: status.to_string(), status: Some(status.code), listing }
    }
}

impl fmt::Display for WatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for WatchFailure {}
