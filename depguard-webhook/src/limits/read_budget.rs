//! Budget of all reads under way.
//!
//! Each read has a place while it is under way, and room for its body until the body has been searched. Both are given
//! in the order of asking. Cheap reads and pages of many objects have places and room of their own, so that neither
//! waits for the other; and a list of many pages waits in line for each page.
//!
//! The length of a body is not known beforehand. A read that holds no room takes room for an estimate up front; it
//! takes more only if some is left. So no read that holds room waits for more, and there is no deadlock.

use std::sync::Arc;

use bytes::BytesMut;
use depguard_kcp::BodyBudget;
use tokio::sync::OwnedSemaphorePermit;

use crate::limits::gauged_semaphore::GaugedSemaphore;

/// Maximum length of a list's body. A longer page is asked for again with fewer objects.
const MAX_PAGE_BYTES: usize = 16 << 20;
/// Maximum number of pages that are read at once.
const MAX_CONCURRENT_PAGES: usize = 16;
/// Maximum number of cheap reads at once.
const MAX_CONCURRENT_SMALL_READS: usize = 64;
/// Maximum length of a cheap read's body: more than any object has, and a list is asked for again with fewer objects.
/// Several such bodies have room at once, so that the long ones of one tenant don't keep everybody waiting.
const MAX_SMALL_BYTES: usize = 4 << 20;
/// Maximum number of watches of one name at once. Each lasts for two seconds at most.
const MAX_CONCURRENT_WATCHES: usize = 64;

/// Places and room of all reads.
#[derive(Debug)]
pub(crate) struct Budget {
    small: Class,
    pages: Class,
    events: Class,
}

/// Size of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// A few objects.
    Small,
    /// A page of many objects.
    Page,
    /// The first event of a watch of one name.
    Event,
}

impl Size {
    pub(crate) const ALL: [Self; 3] = [Self::Small, Self::Page, Self::Event];

    /// Returns one word of a closed set, fit for a metric's label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Page => "page",
            Self::Event => "event",
        }
    }
}

#[derive(Debug)]
struct Class {
    places: GaugedSemaphore,
    permits: GaugedSemaphore,
    most: usize,
}

/// Room for a body. The room counts as taken until this is dropped.
#[derive(Debug)]
pub struct BytePermit {
    size: Size,
    place: Option<OwnedSemaphorePermit>,
    taken: OwnedSemaphorePermit,
    most: usize,
    /// True if the room could not grow, and the only reason is that others have taken the rest.
    was_refused: bool,
    buffer: BytesMut,
}

impl Budget {
    /// Makes a budget with so much room for pages, in bytes; besides, half as much for all cheap reads together, and an
    /// eighth for the events of all watches.
    pub(crate) fn new(pages: usize) -> Self {
        let (small, events) = ((pages / 2).max(MAX_SMALL_BYTES), (pages / 8).max(MAX_SMALL_BYTES / 2));
        Self {
            small: Class::new(MAX_CONCURRENT_SMALL_READS, small, MAX_SMALL_BYTES),
            pages: Class::new(MAX_CONCURRENT_PAGES, pages, MAX_PAGE_BYTES),
            events: Class::new(MAX_CONCURRENT_WATCHES, events, events / 2),
        }
    }

    /// Returns the places and the bytes that are taken for reads of this size.
    pub(crate) fn taken(&self, size: Size) -> (GaugedSemaphore, GaugedSemaphore) {
        let Class { places, permits, .. } = self.class(size);
        (places.clone(), permits.clone())
    }

    fn class(&self, size: Size) -> &Class {
        match size {
            Size::Small => &self.small,
            Size::Page => &self.pages,
            Size::Event => &self.events,
        }
    }

    /// Waits for a place, and then for room for a body of about so many bytes. Holds nothing while it waits for the
    /// place.
    pub(crate) async fn enter(&self, size: Size, estimate: usize) -> Option<BytePermit> {
        let class = self.class(size);
        // The semaphores are never closed.
        let place = class.places.semaphore().acquire_owned().await.ok()?;
        let bytes = u32::try_from(estimate.min(class.most)).ok()?;
        let taken = class.permits.semaphore().acquire_many_owned(bytes).await.ok()?;
        Some(BytePermit {
            size,
            place: Some(place),
            taken,
            most: class.most,
            was_refused: false,
            buffer: BytesMut::new(),
        })
    }
}

impl Class {
    fn new(places: usize, permits: usize, most: usize) -> Self {
        let permits = GaugedSemaphore::new(permits.max(1));
        // A body for which there is no room even alone would wait in vain.
        let most = most.min(permits.all());
        Self { places: GaugedSemaphore::new(places), permits, most }
    }
}

impl BytePermit {
    /// Returns the number of bytes for which there is room.
    pub fn size(&self) -> usize {
        self.taken.num_permits()
    }

    /// Makes room for `bytes` in all. Returns false if there is none, so that the body can't be taken in.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.size()).filter(|more| *more > 0) else { return true };
        if bytes > self.most {
            return false;
        }
        let more = u32::try_from(more).ok().and_then(|more| {
            let permits = Arc::clone(self.taken.semaphore());
            permits.try_acquire_many_owned(more).ok()
        });
        self.was_refused |= more.is_none();
        more.map(|more| self.taken.merge(more)).is_some()
    }

    /// Returns the size of the read that the room is for.
    pub(crate) fn reads(&self) -> Size {
        self.size
    }

    /// Has the body read into a buffer that was used before.
    pub(crate) fn reuse(&mut self, buffer: BytesMut) {
        self.buffer = buffer;
    }

    /// Returns the size of the read and the maximum room of its class, if only others' room was in the way.
    pub(crate) fn refused(&self) -> Option<(Size, usize)> {
        self.was_refused.then_some((self.size, self.most))
    }

    /// Leaves the place to others once the body is in, and gives back the room that the body didn't need.
    pub(crate) fn settle(&mut self, bytes: usize) {
        self.place = None;
        if let Some(left) = self.size().checked_sub(bytes) {
            drop(self.taken.split(left));
        }
    }
}

impl BodyBudget for BytePermit {
    fn size(&self) -> usize {
        self.size()
    }

    fn grow(&mut self, bytes: usize) -> bool {
        self.grow(bytes)
    }

    fn buffer(&mut self) -> BytesMut {
        std::mem::take(&mut self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const MIB: usize = 1 << 20;

    async fn page(budget: &Budget, bytes: usize) -> Option<BytePermit> {
        timeout(Duration::from_millis(10), budget.enter(Size::Page, bytes)).await.ok().flatten()
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_waited_for_up_front_and_grows_only_where_some_is_left() {
        let budget = Budget::new(4 * MIB);
        let mut first = page(&budget, MIB).await.unwrap();
        let mut second = page(&budget, 2 * MIB).await.unwrap();
        assert!(first.grow(2 * MIB));
        assert!(!first.grow(3 * MIB) && !second.grow(3 * MIB));
        assert_eq!(first.refused(), Some((Size::Page, 4 * MIB)));
        assert!(page(&budget, 1).await.is_none());
        second.settle(MIB);
        assert!(first.grow(3 * MIB));
        drop((first, second));
        assert_eq!(page(&budget, 4 * MIB).await.unwrap().size(), 4 * MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn no_body_has_more_than_a_page_may_have() {
        let budget = Budget::new(64 * MIB);
        let mut permits = page(&budget, 100 * MIB).await.unwrap();
        assert_eq!(permits.size(), MAX_PAGE_BYTES);
        assert!(!permits.grow(MAX_PAGE_BYTES + 1));
        assert_eq!(permits.refused(), None, "it is the body that is too long");
    }

    #[tokio::test(start_paused = true)]
    async fn one_long_cheap_read_leaves_room_for_others() {
        let budget = Budget::new(64 * MIB);
        let mut long = budget.enter(Size::Small, MIB).await.unwrap();
        assert!(long.grow(MAX_SMALL_BYTES) && !long.grow(MAX_SMALL_BYTES + 1));
        assert!(timeout(Duration::from_millis(10), budget.enter(Size::Small, MAX_SMALL_BYTES)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_given_in_the_order_of_asking_and_cheap_reads_have_their_own() {
        let budget = Arc::new(Budget::new(64 * MIB));
        let mut held = Vec::new();
        for _ in 0..MAX_CONCURRENT_PAGES {
            held.push(page(&budget, MIB).await.unwrap());
        }
        assert!(page(&budget, MIB).await.is_none());
        assert!(timeout(Duration::from_millis(10), budget.enter(Size::Small, MIB)).await.is_ok());
        // A body that is in takes up room, and no place.
        held.last_mut().unwrap().settle(MIB);
        assert!(page(&budget, MIB).await.is_some());
    }
}
