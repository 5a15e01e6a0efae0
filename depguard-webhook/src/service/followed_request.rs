//! Allowed request that is followed until it is over, so that its marks can go.

use std::time::Duration;

use depguard_core::interlock::ObjectRead;
use depguard_core::interlocked::InterlockedReferences;
use tokio::time::{sleep, timeout};

use crate::limits::read_budget::Size;
use crate::ports::api_reader::ApiReader;
use crate::reads::driver;
use crate::reads::shared_gets::SharedGets;

/// Pauses before the reads that show if the request is stored. Most are stored within a few milliseconds.
const FIRST: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(40)];
/// Pauses before the reads after the first watch has shown nothing.
const LATER: [Duration; 3] = [Duration::from_millis(640), Duration::from_millis(2500), Duration::from_secs(10)];
/// Time limit of each read.
const MAX_READ: Duration = Duration::from_secs(10);
/// Time limit of all watches of a request, the wait for a place included.
const MAX_WATCH: Duration = Duration::from_secs(2);
/// Maximum number of events that are read. The first ones may be about earlier objects of the name.
const MAX_EVENTS: usize = 4;
/// Estimated bytes of an event.
const EVENT: usize = 16 << 10;

/// Request that was allowed, and may be stored at any moment.
pub(crate) struct FollowedRequest<P: ApiReader> {
    gets: SharedGets<P>,
    request: InterlockedReferences,
    read: ObjectRead,
    /// Revision of the dependents' kind from before the request was allowed, if it was read.
    since: Option<String>,
}

impl<P: ApiReader> FollowedRequest<P> {
    pub(crate) fn new(gets: SharedGets<P>, request: InterlockedReferences, since: Option<String>) -> Self {
        let read = request.read_dependent();
        Self { gets, request, read, since }
    }

    /// Waits until the request is over. Returns false if nobody knows by then.
    pub(crate) async fn is_over(&self) -> bool {
        let is_shown = async || timeout(MAX_WATCH, self.watch()).await.ok().flatten().is_some();
        // An API server that is slow shows the object to the second watch.
        self.shows_in(&FIRST).await || is_shown().await || self.shows_in(&LATER).await || is_shown().await
    }

    /// GETs the object after each of these pauses.
    async fn shows_in(&self, pauses: &[Duration]) -> bool {
        for pause in pauses {
            sleep(*pause).await;
            let page = timeout(MAX_READ, self.gets.get(&self.read.query())).await.ok().flatten();
            if self.request.is_over(&self.read.observation(driver::answer(page.as_ref()))) {
                return true;
            }
        }
        false
    }

    /// Watches the name, from before the request was allowed on: an object that was deleted at once is gone for a GET.
    /// Returns once the object that the request creates was seen.
    async fn watch(&self) -> Option<()> {
        let mut since = self.since.clone()?;
        for _ in 0..MAX_EVENTS {
            let source = self.gets.source();
            let permit = source.enter(Size::Event, EVENT).await?;
            let page = source.fetch(&self.read.watch_query(&since), permit).await;
            let shown = self.read.event(page.fetched.as_answer())?;
            if self.request.has_created(&shown) {
                return Some(());
            }
            since = shown.resource_version().to_owned();
        }
        None
    }
}
