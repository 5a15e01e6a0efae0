//! Cleaner of registers: takes marks away that no request can need any more.

use std::collections::BTreeMap;
use std::time::Duration;

use super::mark::{Marks, Nonce, SharedMark, Wait};
use super::object_key::{Dependent, ObjectKey, RegisterName};
use super::register::Register;

/// Ages of marks, as one controller has seen them.
///
/// A mark is taken away once the cleaner has seen it unchanged for the time that it keeps marks, which is longer than
/// the lifetime of any request. Nobody compares clocks: the cleaner counts by its own, from the moment at which it first
/// saw the mark. A cleaner that has been started again sees all marks for the first time.
///
/// A [shared mark](SharedMark) is closed after that time, and taken away after the same time again. A register is opened
/// after that time. A [wait](Wait) ends two thirds of that time after it was last asked for.
#[derive(Debug, Clone)]
pub struct Cleaner {
    keep: Duration,
    sightings: BTreeMap<RegisterName, Sightings>,
}

/// First sightings of what is in one register.
#[derive(Debug, Clone, Default)]
struct Sightings {
    /// UID of the register: a register that was deleted and made again is another one.
    uid: String,
    since: BTreeMap<AgingPart, Duration>,
}

/// Part of a register that ages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AgingPart {
    /// The state of a register that is not open.
    Closed,
    /// A flag about this target.
    Flag(ObjectKey, Nonce),
    /// An intent about this target.
    Intent(ObjectKey, Nonce),
    /// The shared mark about this target.
    Shared(ObjectKey, SharedMark),
    /// The wait about this target.
    Wait(ObjectKey, Wait),
}

impl Cleaner {
    /// Creates a cleaner that keeps each mark for this time.
    pub fn new(keep: Duration) -> Self {
        Self { keep, sightings: BTreeMap::new() }
    }

    /// Looks at a stored register. Returns the register to write by the version that was read; `None` if nothing is to
    /// be changed.
    ///
    /// `now` is the time of any clock that never goes back. It must be taken *after* the register was read: else marks
    /// that were written while the answer was under way would seem older than they are.
    ///
    /// `is_stored` tells if the caller has ever seen the object with a dependent's UID stored. The cleaner asks that of
    /// creations, whose intents are not needed any more then: the second LIST of each later deletion shows the object.
    /// (The name alone tells nothing, because another creation may have the same name. About an update the UID tells
    /// nothing, because the object existed before.)
    pub fn clean(
        &mut self,
        register: &Register,
        now: Duration,
        is_stored: impl Fn(&Dependent) -> bool,
    ) -> Option<Register> {
        let uid = register.uid()?;
        let keep = self.keep;
        let mut seen = self.sightings.remove(&register.name()).unwrap_or_default();
        if seen.uid != uid {
            seen = Sightings { uid: uid.to_owned(), since: BTreeMap::new() };
        }
        let mut since = BTreeMap::new();
        let mut is_ripe = |part: AgingPart| {
            let time = if matches!(part, AgingPart::Wait(..)) { keep / 3 } else { keep };
            let first = seen.since.get(&part).copied().unwrap_or(now);
            since.insert(part, first);
            now.saturating_sub(first) >= time
        };
        let mut next = register.clone();
        if !register.is_open() && is_ripe(AgingPart::Closed) {
            next = next.opened();
        }
        for (target, marks) in &mut next.marks {
            let Marks { flags, intents, shared, wait } = marks;
            flags.retain(|nonce, _| !is_ripe(AgingPart::Flag(target.clone(), *nonce)));
            intents.retain(|nonce, intent| {
                let is_over = !intent.is_update() && is_stored(&intent.dependent);
                !is_ripe(AgingPart::Intent(target.clone(), *nonce)) && !is_over
            });
            if let Some(mark) = *shared
                && is_ripe(AgingPart::Shared(target.clone(), mark))
            {
                *shared = mark.is_open.then_some(SharedMark { is_open: false, ..mark });
            }
            if let Some(left) = *wait
                && is_ripe(AgingPart::Wait(target.clone(), left))
            {
                *wait = left.is_fresh.then_some(Wait { is_fresh: false, ..left });
            }
        }
        next.drop_empty();
        self.sightings.insert(register.name(), Sightings { uid: uid.to_owned(), since });
        (next != *register).then_some(next)
    }

    /// Returns the parts of the registers, with the time for which the cleaner has seen each unchanged.
    pub fn ages(&self, now: Duration) -> impl Iterator<Item = (RegisterName, &AgingPart, Duration)> {
        self.sightings.iter().flat_map(move |(name, seen)| {
            seen.since.iter().map(move |(part, first)| (*name, part, now.saturating_sub(*first)))
        })
    }
}
