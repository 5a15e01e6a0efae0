//! What a removal remembers from one look at the cluster to the next: who refused what, since when what is waited for, and
//! what was selected when a group was looked at. A restart forgets it, and asks and looks again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::retries::Retries;

/// The pause after a first refusal: what held an object is often gone the next moment.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How long something may be waited for before it is said to be stuck: finalizers are expected to take a while.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// What is remembered of one GlobalOwner's removal, by the UID of what was to be written.
#[derive(Debug)]
pub(crate) struct Memory {
    retries: Retries<String>,
    said: HashMap<String, String>,
    /// Since when something is waited for.
    waits: HashMap<String, Instant>,
    /// What was not owned yet when a group was looked at, by the group's UID.
    looks: BTreeMap<String, BTreeSet<String>>,
}

/// What a write came to, as far as a removal is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Came {
    /// It was done, or there was nothing to do any more, or not in this state: the next look shows it.
    Done,
    /// It was refused, or not answered: with these words.
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
    /// Notes what a write came to.
    pub(crate) fn note(&mut self, uid: &str, came: Came, now: Instant) {
        match came {
            Came::Done => {
                self.retries.done(&uid.to_owned());
                self.said.remove(uid);
            }
            Came::Refused(why) => {
                self.retries.failed(uid.to_owned(), 0, now);
                self.said.insert(uid.to_owned(), why);
            }
        }
    }

    /// Whether it may be asked for (again).
    pub(crate) fn is_due(&self, uid: &str, now: Instant) -> bool {
        self.retries.is_due(&uid.to_owned(), 0, now)
    }

    /// What was said when it was refused last.
    pub(crate) fn refusal(&self, uid: &str) -> Option<&str> {
        self.said.get(uid).map(String::as_str)
    }

    /// Notes what is waited for now, and what was seen of groups.
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

    /// Whether something has been waited for so long that it is to be told.
    pub(crate) fn is_long(&self, key: &str, now: Instant) -> bool {
        self.waits.get(key).is_some_and(|since| *since + LONG <= now)
    }

    /// What was not owned yet when the group with this UID was looked at; `None`: it has not been.
    pub(crate) fn looked_at(&self, group_uid: &str) -> Option<&BTreeSet<String>> {
        self.looks.get(group_uid)
    }

    /// Forgets what is there no more.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.retries.keep(|uid| is_there(uid));
        self.said.retain(|uid, _| is_there(uid));
        self.looks.retain(|uid, _| is_there(uid));
    }

    /// When something that was refused may be asked for again, or something has been waited for so long that it is to be
    /// told.
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
            memory.note(uid, Came::Refused(format!("{uid} is referenced")), now);
        }
        assert!(!memory.is_due("a", now) && memory.is_due("a", now + FIRST_PAUSE));
        assert_eq!(memory.next(now), Some(now + FIRST_PAUSE));
        assert_eq!(memory.refusal("b"), Some("b is referenced"));
        memory.note("a", Came::Done, now);
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
