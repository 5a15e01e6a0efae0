//! Looks for an uninstall, as long as a round may write: a controller at rest sends no request.
//!
//! An uninstall writes a mark, waits, and then relies on no controller writing any more. So a round begins only after a
//! look that is younger than [`FRESH`], and is broken off before the last look that found no mark is older than
//! [`MAX_LOOK_AGE`]. A look counts from the time at which it was sent. A look that fails proves nothing. While a look has
//! no answer, further looks are sent, so that a slow API server's answers come one after the other.

use std::time::Duration;

use depguard_kcp::{latest, send_if_new};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Maximum age of the look by which a round writes. An uninstall waits longer than that after its mark.
pub(crate) const MAX_LOOK_AGE: Duration = Duration::from_secs(3);
/// Maximum age of the look by which a round begins, and time limit of one look.
const FRESH: Duration = Duration::from_millis(2250);
/// Age at which a look is repeated while a round may write.
const REPEAT: Duration = Duration::from_millis(1500);
/// Age of a look without an answer at which the next one is sent. Then the next answer comes before the last one is too old,
/// if each takes no longer than [`FRESH`].
const MEANWHILE: Duration = Duration::from_millis(750);
/// Pause after a look that failed, while the last one still counts.
const RETRY: Duration = Duration::from_millis(500);

/// Reason for which a look failed.
const LATE: &str = "the API server did not answer in time";
/// Reason for which nobody writes during an uninstall.
const UNINSTALLING: &str =
    "depguard is being uninstalled; the controller installs nothing until two minutes after the uninstall";

/// Requests of rounds for looks; clones share them.
#[derive(Clone)]
pub(crate) struct Looks {
    /// Number of rounds that may write.
    rounds: watch::Sender<usize>,
    /// Time at which the last look that found no mark was sent.
    last: watch::Sender<Option<Instant>>,
}

/// A round that may write; the looks go on until it is dropped.
pub(crate) struct RoundUnderWay(watch::Sender<usize>);

impl Looks {
    pub(crate) fn new() -> Self {
        Self { rounds: watch::Sender::new(0), last: watch::Sender::new(None) }
    }

    /// Asks for looks as long as the result exists.
    pub(crate) fn begin_round(&self) -> RoundUnderWay {
        self.rounds.send_modify(|rounds| *rounds = rounds.saturating_add(1));
        RoundUnderWay(self.rounds.clone())
    }

    /// Waits for a look that is young enough for a round to begin.
    pub(crate) async fn fresh(&self) {
        let mut last = self.last.subscribe();
        let is_fresh = |last: &Option<Instant>| last.is_some_and(|sent| Instant::now() < sent + FRESH);
        if last.wait_for(is_fresh).await.is_err() {
            // Nobody looks any more, so nobody writes any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for RoundUnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|rounds| *rounds = rounds.saturating_sub(1));
    }
}

/// Looks for the mark of an uninstall while a round may write, or while none may. `look` returns true if the mark is
/// there. Keeps in `withheld` the reason for which nobody may write, if there is one.
pub(crate) async fn watch_uninstall<L: Future<Output = Result<bool, String>>>(
    look: impl Fn() -> L,
    looks: &Looks,
    withheld: &watch::Sender<Option<String>>,
) {
    let mut rounds = looks.rounds.subscribe();
    // Looks without an answer, the time of the newest look, and of the newest one with an answer.
    let mut asked = FuturesUnordered::new();
    let (mut newest, mut answered) = (None, None);
    let mut next = Instant::now();
    // Time until which a failed look changes nothing: what rounds write goes by a look that is young enough.
    let mut bearable = next + MAX_LOOK_AGE;
    let mut failure = LATE.to_owned();
    let unknown = |why: &str| Some(format!("could not find out whether depguard is being uninstalled: {why}"));
    loop {
        let may_write = withheld.borrow().is_none();
        tokio::select! {
            biased;
            Some((sent, found)) = asked.next() => match found {
                // An earlier look than one that was answered tells nothing new.
                Ok(_) if Some(sent) < answered => {}
                Ok(false) if Instant::now() < sent + MAX_LOOK_AGE => {
                    answered = Some(sent);
                    bearable = sent + MAX_LOOK_AGE;
                    looks.last.send_replace(Some(sent));
                    send_if_new(withheld, None);
                    if newest == answered {
                        next = sent + REPEAT;
                    }
                }
                Ok(false) => {}
                Ok(true) => {
                    answered = Some(sent);
                    send_if_new(withheld, Some(UNINSTALLING.to_owned()));
                    asked.clear();
                    next = sent + MAX_LOOK_AGE;
                }
                Err(why) if may_write => {
                    tracing::debug!("could not find out whether depguard is being uninstalled: {why}");
                    failure = why;
                    next = next.min(Instant::now() + RETRY);
                }
                Err(why) => {
                    if withheld.borrow().as_deref() != Some(UNINSTALLING) {
                        send_if_new(withheld, unknown(&why));
                    }
                }
            },
            () = sleep_until(next) => {
                if may_write && latest(&mut rounds) == 0 {
                    // A round that begins from here on waits for a look that is sent from here on.
                    looks.last.send_replace(None);
                    asked.clear();
                    if latest(&mut rounds) == 0 {
                        if rounds.wait_for(|rounds| *rounds > 0).await.is_err() {
                            return;
                        }
                        bearable = Instant::now() + MAX_LOOK_AGE;
                    }
                }
                let sent = Instant::now();
                let look = timeout_at(sent + FRESH, look());
                asked.push(async move { (sent, look.await.unwrap_or_else(|_| Err(LATE.to_owned()))) });
                newest = Some(sent);
                next = sent + if may_write { MEANWHILE } else { MAX_LOOK_AGE };
            }
            () = sleep_until(bearable), if may_write => send_if_new(withheld, unknown(&failure)),
        }
    }
}

#[cfg(test)]
mod tests;
