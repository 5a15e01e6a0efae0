//! Permission to write: this controller was elected, if there is an election, and nobody is uninstalling depguard.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use depguard_kcp::{ApiError, Endpoint, latest, send_if_new};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::leader::election::{Candidate, Timing};
use crate::leader::lease::Lease;
use crate::leader::uninstall_watch::{Looks, watch_uninstall};

/// Time for which an uninstall keeps controllers from writing after it last renewed its Lease.
pub(crate) const UNINSTALL_MARK_FRESH: Duration = Duration::from_secs(120);
/// Time limit of one request.
const REQUEST: Duration = Duration::from_secs(5);
/// Reason for which nothing is written before anything is known.
const UNKNOWN: &str = "the controller does not know yet whether it may write";

/// Permission to write, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WritePermit {
    /// This controller writes.
    Granted,
    /// Another controller writes, or may; the text says why this one waits.
    StandingBy(String),
    /// No controller writes; the text says why.
    Withheld(String),
}

/// The permit as rounds see it; clones see the same.
#[derive(Clone)]
pub(crate) struct PermitReader {
    permit: watch::Receiver<WritePermit>,
    looks: Looks,
}

impl PermitReader {
    /// Returns the permit as far as it is known, and marks it as seen. At rest nobody looks for an uninstall: a round
    /// does, by [`Self::while_granted`].
    pub(crate) fn latest(&mut self) -> WritePermit {
        latest(&mut self.permit)
    }

    /// Waits until the permit changes. Returns false if it can't any more.
    pub(crate) async fn changed(&mut self) -> bool {
        self.permit.changed().await.is_ok()
    }

    /// Looks for an uninstall, and carries out a round if there is none. Breaks the round off and returns `None` once
    /// the permit to write is gone.
    pub(crate) async fn while_granted<T>(mut self, round: impl Future<Output = T>) -> Option<T> {
        let _looking = self.looks.begin_round();
        let looked_first = async {
            self.looks.fresh().await;
            round.await
        };
        tokio::select! {
            biased;
            _ = self.permit.wait_for(|permit| *permit != WritePermit::Granted) => None,
            done = looked_first => Some(done),
        }
    }
}

/// Source of the permit: looks for an uninstall, and stands for the election.
pub(crate) struct WritePermitSource {
    mark: Lease,
    election: Option<(Lease, Candidate, Timing)>,
    permit: watch::Sender<WritePermit>,
    looks: Looks,
}

/// Returns the Lease by which an uninstall tells controllers to write no more.
pub(crate) fn uninstall_marker(endpoint: &Endpoint, namespace: &str, id: &str) -> Lease {
    Lease::new(endpoint.within(REQUEST), namespace, &uninstall_marker_name(id))
}

/// Returns the name of the Lease that marks an uninstall, made from the name of the election's Lease.
pub(crate) fn uninstall_marker_name(id: &str) -> String {
    format!("{id}-uninstall")
}

impl WritePermitSource {
    /// Makes a source of the permit, with an election if a duration for the Lease is given.
    pub(crate) fn new(
        endpoint: &Endpoint,
        namespace: &str,
        id: &str,
        elected_for: Option<Duration>,
    ) -> (Self, PermitReader) {
        let (permit, permitted) = watch::channel(WritePermit::Withheld(UNKNOWN.to_owned()));
        let election = elected_for.map(|duration| {
            let timing = Timing::new(duration);
            let lease = Lease::new(endpoint.within(timing.deadline / 2), namespace, id);
            (lease, Candidate::new(identity(), timing), timing)
        });
        let looks = Looks::new();
        let reader = PermitReader { permit: permitted, looks: looks.clone() };
        (Self { mark: uninstall_marker(endpoint, namespace, id), election, permit, looks }, reader)
    }

    /// Keeps the permit up to date for as long as it is polled.
    pub(crate) async fn run(&mut self) {
        let permit = &self.permit;
        let (tell_mark, mut marked) = watch::channel(Some(UNKNOWN.to_owned()));
        let (tell_permit, mut write_permit) = watch::channel(match self.election {
            Some(_) => WritePermit::StandingBy("the election has not begun".to_owned()),
            None => WritePermit::Granted,
        });
        let combine = async {
            loop {
                let now = match latest(&mut marked) {
                    None => latest(&mut write_permit),
                    Some(why) => WritePermit::Withheld(why),
                };
                send_if_new(permit, now);
                tokio::select! {
                    Ok(()) = marked.changed() => {}
                    Ok(()) = write_permit.changed() => {}
                    else => return,
                }
            }
        };
        let election = async {
            if let Some((lease, candidate, timing)) = &mut self.election {
                run_election(lease, candidate, *timing, &tell_permit).await;
            }
        };
        let mark = &self.mark;
        let look = || is_marked(mark);
        tokio::join!(combine, watch_uninstall(look, &self.looks, &tell_mark), election);
    }

    /// Releases the Lease to the other controllers. Called when nothing is written any more.
    pub(crate) async fn release_lease(&mut self) {
        let Some((lease, candidate, _)) = &self.election else { return };
        if let Ok(Some(held)) = lease.read().await
            && held.holder == candidate.identity()
        {
            // If this write fails, the Lease runs out.
            let _ = lease.write(Some(&held), "", Duration::from_secs(1)).await;
        }
    }
}

/// Returns true if somebody is uninstalling depguard.
async fn is_marked(mark: &Lease) -> Result<bool, String> {
    match mark.read().await {
        Ok(held) => Ok(held.is_some_and(|held| held.is_fresh())),
        // A controller that must not read the Lease can't obey it; the uninstall notices that.
        Err(error) if error.status() == Some(403) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// Stands for the election again and again.
async fn run_election(lease: &Lease, candidate: &mut Candidate, timing: Timing, tell: &watch::Sender<WritePermit>) {
    loop {
        let next = Instant::now() + timing.retry;
        let attempt = async |candidate: &mut Candidate| try_to_hold(lease, candidate, timing).await;
        let tried = match candidate.acts_until() {
            // However long the answer takes, the controller acts no longer than this.
            Some(until) if until > Instant::now() => timeout_at(until, attempt(candidate)).await,
            _ => Ok(attempt(candidate).await),
        };
        send_if_new(
            tell,
            write_permit(candidate, tried.unwrap_or_else(|_| Err("the Lease was not renewed in time".to_owned()))),
        );
        if let Some(until) = candidate.acts_until().filter(|until| *until < next) {
            sleep_until(until).await;
            send_if_new(tell, write_permit(candidate, Err("the Lease was not renewed in time".to_owned())));
        }
        sleep_until(next).await;
    }
}

/// Takes or renews the Lease if the candidate may, and returns the identity of the holder.
async fn try_to_hold(lease: &Lease, candidate: &mut Candidate, timing: Timing) -> Result<String, String> {
    let said = |error: ApiError| error.to_string();
    let held = lease.read().await.map_err(said)?;
    if !candidate.may_write(held.as_ref(), Instant::now()) {
        candidate.lost();
        return Ok(held.map(|held| held.holder).unwrap_or_default());
    }
    let sent = Instant::now();
    lease.write(held.as_ref(), candidate.identity(), timing.duration).await.map_err(said)?;
    candidate.wrote(sent);
    Ok(candidate.identity().to_owned())
}

fn write_permit(candidate: &Candidate, tried: Result<String, String>) -> WritePermit {
    match tried {
        _ if candidate.acts_until().is_some_and(|until| Instant::now() < until) => WritePermit::Granted,
        Ok(holder) => WritePermit::StandingBy(format!("{holder} holds the Lease and writes")),
        Err(why) => WritePermit::StandingBy(format!("could not acquire the Lease: {why}")),
    }
}

/// Returns the pod's name, with a suffix that tells this process from another one in the pod.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "depguard-controller".to_owned());
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let started = k8s_openapi::jiff::Timestamp::now().as_nanosecond();
    format!("{host}_{}_{started:x}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
