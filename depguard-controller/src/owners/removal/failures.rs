//! Memory of a removal from one look at the cluster to the next: refusals, the beginnings of waits, and the objects
//! that were selected when a group was looked at. A restart forgets it, and asks and looks again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::backoff::Retries;

/// Pause after a first refusal: the reason is often gone the next moment.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Time to wait for something before it counts as stuck: finalizers are expected to take a while.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// Memory of one GlobalOwner's removal, by the UID of the object that was to be written.
#[derive(Debug)]
pub(crate) struct Memory {
    retries: Retries<String>,
    said: HashMap<String, String>,
    /// Beginning of each wait.
    waits: HashMap<String, Instant>,
    /// Objects that nobody owned yet when a group was looked at, by the group's UID.
    looks: BTreeMap<String, BTreeSet<String>>,
}

/// Result of a write, as far as a removal is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    /// The write was done, or was not needed any more, or not possible in this state: the next look shows which.
    Done,
    /// The write was refused in these words, or there was no answer.
    Refused(String),
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            retries: Retries::after(FIRST_PAUSE),
            said: HashMap::new(),
            waits: HashMap::new(),
            looks: BTreeMap::new(),
        }
    }
}

impl Memory {
    /// Notes the result of a write.
    pub(crate) fn note(&mut self, uid: &str, came: WriteOutcome, now: Instant) {
        match came {
            WriteOutcome::Done => {
                self.retries.done(&uid.to_owned());
                self.said.remove(uid);
            }
            WriteOutcome::Refused(why) => {
                self.retries.failed(uid.to_owned(), 0, now);
                self.said.insert(uid.to_owned(), why);
            }
        }
    }

    /// Returns true if the write may be asked for, or asked for again.
    pub(crate) fn is_due(&self, uid: &str, now: Instant) -> bool {
        self.retries.is_due(&uid.to_owned(), 0, now)
    }

    /// Returns the words of the last refusal.
    pub(crate) fn refusal(&self, uid: &str) -> Option<&str> {
        self.said.get(uid).map(String::as_str)
    }

    /// Notes what the removal waits for now, and the objects that were seen of groups.
    pub(crate) fn note_step(
        &mut self,
        waits: &BTreeSet<String>,
        looks: BTreeMap<String, BTreeSet<String>>,
        now: Instant,
    ) {
        self.waits.retain(|key, _| waits.contains(key));
        for key in waits {
            self.waits.entry(key.clone()).or_insert(now);
        }
        self.looks.extend(looks);
    }

    /// Returns true if a wait is so long that users are to be told.
    pub(crate) fn is_long(&self, key: &str, now: Instant) -> bool {
        self.waits.get(key).is_some_and(|since| *since + LONG <= now)
    }

    /// Returns the objects that nobody owned yet when the group with this UID was looked at; `None` if it has not been
    /// looked at.
    pub(crate) fn looked_at(&self, group_uid: &str) -> Option<&BTreeSet<String>> {
        self.looks.get(group_uid)
    }

    /// Forgets everything about objects that are gone.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.retries.keep(|uid| is_there(uid));
        self.said.retain(|uid, _| is_there(uid));
        self.looks.retain(|uid, _| is_there(uid));
    }

    /// Returns the time at which something refused may be asked for again, or at which a wait is so long that users are
    /// to be told.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let long = self.waits.values().map(|since| *since + LONG).filter(|long| *long > now);
        long.chain(self.retries.next()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_kept_until_it_is_done_or_its_object_is_gone() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        for uid in ["a", "b"] {
            memory.note(uid, WriteOutcome::Refused(format!("{uid} is referenced")), now);
        }
        assert!(!memory.is_due("a", now) && memory.is_due("a", now + FIRST_PAUSE));
        assert_eq!(memory.next(now), Some(now + FIRST_PAUSE));
        assert_eq!(memory.refusal("b"), Some("b is referenced"));
        memory.note("a", WriteOutcome::Done, now);
        assert!(memory.is_due("a", now));
        memory.keep(|uid| uid != "b");
        assert_eq!((memory.refusal("a"), memory.refusal("b"), memory.next(now)), (None, None, None));
    }

    #[test]
    fn what_is_waited_for_is_long_waited_for_half_a_minute_later_and_anew_once_it_was_not() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        let of = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
        let later = |seconds| now + Duration::from_secs(seconds);
        memory.note_step(&of(&["a", "b"]), BTreeMap::new(), now);
        memory.note_step(&of(&["a"]), BTreeMap::new(), later(20));
        memory.note_step(&of(&["a", "b"]), BTreeMap::new(), later(25));
        assert_eq!(memory.next(later(25)), Some(later(30)));
        assert!(!memory.is_long("a", later(29)) && memory.is_long("a", later(30)));
        assert!(!memory.is_long("b", later(30)) && memory.is_long("b", later(55)));
        assert_eq!((memory.next(later(30)), memory.next(later(55))), (Some(later(55)), None));
    }
}
