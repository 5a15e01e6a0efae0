//! What all reads under way may take up together.
//!
//! Each read has a place while it is under way, and room for its body until that has been searched. Both are given in
//! the order of asking. What is cheap to answer and what is a page of many objects have places and room of their own, so
//! that the one never waits for the other; and a list of many pages waits in line for each.
//!
//! How long a body will be is not known beforehand. The room for an estimate is taken up front, by whoever holds none;
//! more is taken only where some is left. So nobody who holds room waits for more, and there is no deadlock.

use std::sync::Arc;

use bytes::BytesMut;
use depguard_kcp::Space;
use tokio::sync::OwnedSemaphorePermit;

use crate::taken::Taken;

/// The longest body of a list that is taken in. A page that is longer is asked for again with fewer objects.
const MOST: usize = 16 << 20;
/// Pages of many objects at once.
const PAGES: usize = 16;
/// Cheap reads at once.
const SMALL_READS: usize = 64;
/// The longest body of a cheap read: more than any object has, and a list is asked for again with fewer. Several such have
/// room at once, so that the long ones of one tenant don't keep everybody waiting.
const SMALL_MOST: usize = 4 << 20;
/// The room for all cheap reads together.
const SMALL_ROOM: usize = 16 << 20;

/// The places and the room of all reads.
#[derive(Debug)]
pub(crate) struct Budget {
    small: Class,
    pages: Class,
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// A few objects.
    Small,
    /// A page of many.
    Page,
}

impl Size {
    /// One word of a closed set, fit for a metric's label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Page => "page",
        }
    }
}

#[derive(Debug)]
struct Class {
    places: Taken,
    room: Taken,
    most: usize,
}

/// How much of a body may be taken in. Its bytes count until this is dropped.
#[derive(Debug)]
pub struct Room {
    size: Size,
    place: Option<OwnedSemaphorePermit>,
    taken: OwnedSemaphorePermit,
    most: usize,
    /// Whether it could not grow only since others took the room up.
    was_refused: bool,
    buffer: BytesMut,
}

impl Budget {
    /// With so much room for pages, in bytes.
    pub(crate) fn new(pages: usize) -> Self {
        Self { small: Class::new(SMALL_READS, SMALL_ROOM, SMALL_MOST), pages: Class::new(PAGES, pages, MOST) }
    }

    /// The places and the bytes that are taken for reads of this size.
    pub(crate) fn taken(&self, size: Size) -> (Taken, Taken) {
        let Class { places, room, .. } = self.class(size);
        (places.clone(), room.clone())
    }

    fn class(&self, size: Size) -> &Class {
        match size {
            Size::Small => &self.small,
            Size::Page => &self.pages,
        }
    }

    /// Waits for a place, and for room for a body of about so many bytes. Holds nothing while it waits for the first.
    pub(crate) async fn enter(&self, size: Size, estimate: usize) -> Option<Room> {
        let class = self.class(size);
        // Closed never.
        let place = class.places.semaphore().acquire_owned().await.ok()?;
        let bytes = u32::try_from(estimate.min(class.most)).ok()?;
        let taken = class.room.semaphore().acquire_many_owned(bytes).await.ok()?;
        Some(Room { size, place: Some(place), taken, most: class.most, was_refused: false, buffer: BytesMut::new() })
    }
}

impl Class {
    fn new(places: usize, room: usize, most: usize) -> Self {
        let room = Taken::of(room.max(1));
        // What has no room even alone would wait in vain.
        let most = most.min(room.all());
        Self { places: Taken::of(places), room, most }
    }
}

impl Room {
    /// How many bytes there is room for.
    pub fn size(&self) -> usize {
        self.taken.num_permits()
    }

    /// Makes room for `bytes` in all. `false`: there is none, and the body can't be taken in.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.size()).filter(|more| *more > 0) else { return true };
        if bytes > self.most {
            return false;
        }
        let more = u32::try_from(more).ok().and_then(|more| {
            let room = Arc::clone(self.taken.semaphore());
            room.try_acquire_many_owned(more).ok()
        });
        self.was_refused |= more.is_none();
        more.map(|more| self.taken.merge(more)).is_some()
    }

    /// What it is for.
    pub(crate) fn reads(&self) -> Size {
        self.size
    }

    /// Has the body read into a buffer that was used before.
    pub(crate) fn reuse(&mut self, buffer: BytesMut) {
        self.buffer = buffer;
    }

    /// The most that is taken in, and what it is for, where only others' room was in the way.
    pub(crate) fn refused(&self) -> Option<(Size, usize)> {
        self.was_refused.then_some((self.size, self.most))
    }

    /// The body is in: leaves the place to others, and what room it didn't need.
    pub(crate) fn settle(&mut self, bytes: usize) {
        self.place = None;
        if let Some(left) = self.size().checked_sub(bytes) {
            drop(self.taken.split(left));
        }
    }
}

impl Space for Room {
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

    async fn page(budget: &Budget, bytes: usize) -> Option<Room> {
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
        let mut room = page(&budget, 100 * MIB).await.unwrap();
        assert_eq!(room.size(), MOST);
        assert!(!room.grow(MOST + 1));
        assert_eq!(room.refused(), None, "it is the body that is too long");
    }

    #[tokio::test(start_paused = true)]
    async fn one_long_cheap_read_leaves_room_for_others() {
        let budget = Budget::new(64 * MIB);
        let mut long = budget.enter(Size::Small, MIB).await.unwrap();
        assert!(long.grow(SMALL_MOST) && !long.grow(SMALL_MOST + 1));
        assert!(timeout(Duration::from_millis(10), budget.enter(Size::Small, SMALL_MOST)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_given_in_the_order_of_asking_and_cheap_reads_have_their_own() {
        let budget = Arc::new(Budget::new(64 * MIB));
        let mut held = Vec::new();
        for _ in 0..PAGES {
            held.push(page(&budget, MIB).await.unwrap());
        }
        assert!(page(&budget, MIB).await.is_none());
        assert!(timeout(Duration::from_millis(10), budget.enter(Size::Small, MIB)).await.is_ok());
        // A body that is in still takes up room, and no place.
        held.last_mut().unwrap().settle(MIB);
        assert!(page(&budget, MIB).await.is_some());
    }
}
