//! What a removal remembers from one look at the cluster to the next: who refused what. A restart forgets it, and asks
//! again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::retries::Retries;

/// The pause after a first refusal: what held an object is often gone the next moment.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The refusals of one GlobalOwner's removal, by the UID of what was to be written.
#[derive(Debug)]
pub(crate) struct Memory {
    retries: Retries<String>,
    said: HashMap<String, String>,
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
        Self { retries: Retries::after(FIRST_PAUSE), said: HashMap::new() }
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

    /// Forgets what is there no more.
    pub(crate) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.retries.keep(|uid| is_there(uid));
        self.said.retain(|uid, _| is_there(uid));
    }

    /// When something that was refused may be asked for again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.retries.next()
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
        assert_eq!(memory.next(), Some(now + FIRST_PAUSE));
        assert_eq!(memory.refusal("b"), Some("b is referenced"));
        memory.note("a", Came::Done, now);
        assert!(memory.is_due("a", now));
        memory.keep(|uid| uid != "b");
        assert_eq!((memory.refusal("a"), memory.refusal("b"), memory.next()), (None, None, None));
    }
}
