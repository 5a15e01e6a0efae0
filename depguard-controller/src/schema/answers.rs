//! Cache of what API servers answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep};

/// Time limit of one refresh. The next refresh asks for the rest.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for which an answer is believed while later requests fail.
const BELIEVED: Duration = Duration::from_secs(60);
/// Pause after a failed request; where none was answered yet, twice as long each time, up to a minute.
const RETRY: Duration = Duration::from_secs(10);

/// Answers by key. A failure leaves an earlier answer in place for a minute.
#[derive(Debug)]
pub(crate) struct Answers<K, V> {
    known: BTreeMap<K, Known<V>>,
}

/// Time for which an answer holds: for as long as the answers before have said the same, at least `first` and at most
/// `last`. So a change is seen late by no more than the time for which nothing had changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holds {
    pub(crate) first: Duration,
    pub(crate) last: Duration,
}

#[derive(Debug)]
struct Known<V> {
    found: Result<V, String>,
    /// Time of the first answer that said the same.
    since: Instant,
    /// Time of the last answer.
    at: Instant,
    /// Requests that failed since then.
    failing: Option<Failing>,
    /// Time for which the answer holds, as of the last refresh.
    pause: Duration,
    /// True if the answer is asked for at the next refresh, whatever time it holds.
    is_doubted: bool,
}

#[derive(Debug, Clone, Copy)]
struct Failing {
    /// Time of the first failed request.
    since: Instant,
    /// Time of the last failed request.
    last: Instant,
}

impl Holds {
    /// Returns the same time for each answer.
    pub(crate) fn always(time: Duration) -> Self {
        Self { first: time, last: time }
    }
}

impl<K: Ord + Clone, V: PartialEq> Answers<K, V> {
    /// Makes answers due that somebody has reason to doubt.
    pub(crate) fn doubt(&mut self, is_doubted: impl Fn(&K) -> bool) {
        self.known.iter_mut().for_each(|(key, known)| known.is_doubted |= is_doubted(key));
    }

    /// Asks for the answers that are due, `at_once` at a time and those first that were asked for longest ago. Forgets the
    /// keys that are not `needed` any more. `ask` takes a key and what is needed of it.
    pub(crate) async fn refresh<N: Clone, A: Future<Output = Result<V, String>>>(
        &mut self,
        needed: &BTreeMap<K, N>,
        at_once: usize,
        holds: impl Fn(&K, &N, &V) -> Holds,
        ask: impl Fn(K, N) -> A,
    ) {
        let now = Instant::now();
        self.known.retain(|key, _| needed.contains_key(key));
        self.note_pauses(needed, &holds);
        let is_due = |(key, _): &(&K, &N)| self.known.get(*key).is_none_or(|known| known.due() <= now);
        let mut due: Vec<_> = needed.iter().filter(is_due).map(|(key, need)| (key.clone(), need.clone())).collect();
        // If the time does not suffice for all, the next refresh begins with the others.
        due.sort_by_key(|(key, _)| self.known.get(key).map(Known::tried));
        let mut left: BTreeSet<_> = due.iter().map(|(key, _)| key.clone()).collect();
        let asked = due.into_iter().map(|(key, need)| {
            let answer = ask(key.clone(), need);
            async move { (key, answer.await) }
        });
        let mut asked = Box::pin(stream::iter(asked).buffer_unordered(at_once).take_until(sleep(PATIENCE)));
        while let Some((key, found)) = asked.next().await {
            left.remove(&key);
            self.note(key, found, Instant::now());
        }
        left.retain(|key| self.known.contains_key(key));
        for key in left {
            self.note(key, Err("reading it took too long".to_owned()), Instant::now());
        }
        self.note_pauses(needed, &holds);
    }

    /// Returns the answer for a key, or the reason why there is none; `None` if it was never asked for.
    pub(crate) fn get(&self, key: &K) -> Option<Result<&V, &str>> {
        self.known.get(key).map(|known| known.found.as_ref().map_err(String::as_str))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, Result<&V, &str>)> {
        self.known.iter().map(|(key, known)| (key, known.found.as_ref().map_err(String::as_str)))
    }

    /// Returns the next time at which an answer is due, of those that hold for less than `within`.
    pub(crate) fn next_due(&self, within: Duration) -> Option<Instant> {
        self.known.values().filter(|known| known.pause < within).map(Known::due).min()
    }

    fn note_pauses<N>(&mut self, needed: &BTreeMap<K, N>, holds: impl Fn(&K, &N, &V) -> Holds) {
        for (key, known) in &mut self.known {
            let Some(need) = needed.get(key) else { continue };
            known.pause = known.pause(|found| holds(key, need, found));
        }
    }

    /// Stores an answer. A failure replaces an earlier answer once that is not believed any more.
    fn note(&mut self, key: K, found: Result<V, String>, now: Instant) {
        let known = self.known.get_mut(&key);
        match known {
            Some(before) if found.is_err() && before.is_believed(now) => {
                let since = before.failing.map_or(now, |failing| failing.since);
                (before.failing, before.is_doubted) = (Some(Failing { since, last: now }), false);
            }
            Some(before) if before.found == found => {
                (before.at, before.failing, before.is_doubted) = (now, None, false);
            }
            _ => {
                let known = Known { found, since: now, at: now, failing: None, pause: RETRY, is_doubted: false };
                self.known.insert(key, known);
            }
        }
    }
}

#[cfg(test)]
impl<K: Ord + Clone, V: PartialEq> Answers<K, V> {
    /// Returns one answer.
    pub(crate) fn of(key: K, found: V) -> Self {
        let mut answers = Self::default();
        answers.note(key, Ok(found), Instant::now());
        answers
    }
}

impl<K, V> Default for Answers<K, V> {
    fn default() -> Self {
        Self { known: BTreeMap::new() }
    }
}

impl<V> Known<V> {
    /// Returns the time from the last request to the next.
    fn pause(&self, holds: impl Fn(&V) -> Holds) -> Duration {
        let Holds { first, last } = match &self.found {
            Ok(_) if self.failing.is_some() => Holds::always(RETRY),
            Ok(found) => holds(found),
            Err(_) => Holds { first: RETRY, last: BELIEVED },
        };
        self.at.saturating_duration_since(self.since).max(first).min(last)
    }

    /// Returns the time of the next request.
    fn due(&self) -> Instant {
        if self.is_doubted { self.tried() } else { self.tried() + self.pause }
    }

    fn is_believed(&self, now: Instant) -> bool {
        let failing = self.failing.map_or(Duration::ZERO, |failing| now.saturating_duration_since(failing.since));
        self.found.is_ok() && failing < BELIEVED
    }

    /// Returns the time of the last request.
    fn tried(&self) -> Instant {
        self.failing.map_or(self.at, |failing| failing.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOLDS: Holds = Holds { first: MINUTE, last: Duration::from_secs(600) };

    /// Returns the seconds after `begun` at which the answer is asked for again.
    fn due(answers: &mut Answers<&str, u32>, begun: Instant) -> u64 {
        answers.note_pauses(&BTreeMap::from([("a", ())]), |_, (), _| HOLDS);
        (answers.known["a"].due() - begun).as_secs()
    }

    #[test]
    fn an_answer_is_believed_for_a_minute_while_requests_fail() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let failure = || Err("500".to_owned());
        let mut answers = Answers::default();
        answers.note("a", Ok(1), begun);
        assert_eq!((due(&mut answers, begun), answers.next_due(MINUTE)), (60, None));

        answers.note("a", failure(), after(100));
        assert_eq!(answers.get(&"a"), Some(Ok(&1)));
        assert_eq!((due(&mut answers, begun), answers.next_due(MINUTE)), (110, Some(after(110))));
        answers.note("a", failure(), after(159));
        assert_eq!(answers.get(&"a"), Some(Ok(&1)));

        answers.note("a", failure(), after(160));
        assert_eq!(answers.get(&"a"), Some(Err("500")), "it is too old to be believed");
        assert_eq!(due(&mut answers, begun), 170);
        answers.note("a", Ok(2), after(170));
        answers.note("a", failure(), after(230));
        assert_eq!(answers.get(&"a"), Some(Ok(&2)), "a success begins a new minute");
    }

    #[test]
    fn an_answer_that_stays_the_same_holds_twice_as_long_each_time() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut answers = Answers::default();
        let mut asked = Vec::new();
        let mut now = 0;
        for _ in 0..7 {
            answers.note("a", Ok(1), after(now));
            asked.push(now);
            now = due(&mut answers, begun);
        }
        assert_eq!(asked, [0, 60, 120, 240, 480, 960, 1560]);
        answers.note("a", Ok(2), after(now));
        assert_eq!(due(&mut answers, begun), now + 60, "a new answer holds as long as a first one");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_doubted_is_asked_for_once_though_it_holds() {
        let mut answers = Answers::default();
        let asked = std::sync::Mutex::new(Vec::new());
        let ask = |key: &'static str, result: Result<u32, String>| {
            asked.lock().unwrap().push(key);
            async move { result }
        };
        let round = async |answers: &mut Answers<_, _>, found: Result<u32, String>| {
            answers.refresh(&BTreeMap::from([("a", found.clone()), ("b", found)]), 2, |_, _, _| HOLDS, ask).await;
            std::mem::take(&mut *asked.lock().unwrap())
        };
        assert_eq!(round(&mut answers, Ok(1)).await, ["a", "b"]);
        for found in [Ok(1), Ok(2), Err("500".to_owned())] {
            answers.doubt(|key| *key == "a");
            assert_eq!(round(&mut answers, found.clone()).await, ["a"]);
            assert_eq!(round(&mut answers, found.clone()).await, [""; 0], "{found:?}");
        }
        assert_eq!((answers.get(&"a"), answers.get(&"b")), (Some(Ok(&2)), Some(Ok(&1))));
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_due_is_asked_for_and_what_nobody_needs_is_forgotten() {
        let mut answers = Answers::default();
        let asked = std::sync::Mutex::new(Vec::new());
        let ask = |key: &'static str, need: u32| {
            asked.lock().unwrap().push(key);
            async move { if need == 0 { std::future::pending().await } else { Ok(need) } }
        };
        let holds =
            |_: &&str, need: &u32, found: &u32| if need == found { HOLDS } else { Holds::always(Duration::ZERO) };
        let needed = BTreeMap::from([("a", 1), ("b", 2)]);
        answers.refresh(&needed, 2, holds, ask).await;
        answers.refresh(&needed, 2, holds, ask).await;
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), ["a", "b"]);
        // Somebody needs more of `a`, which takes too long; `c` is new, and as late.
        let needed = BTreeMap::from([("a", 0), ("c", 0)]);
        answers.refresh(&needed, 2, holds, ask).await;
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), ["c", "a"]);
        assert_eq!((answers.get(&"a"), answers.get(&"b"), answers.get(&"c")), (Some(Ok(&1)), None, None));
        assert!(answers.next_due(MINUTE).is_some());
    }
}
