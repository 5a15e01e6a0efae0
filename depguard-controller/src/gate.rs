//! Whether this controller may write: it is the one that was elected, where there is an election, and nobody is
//! uninstalling.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use depguard_kcp::{ApiError, Endpoint};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::election::{Candidate, Timing};
use crate::lease::Lease;

/// How often it is looked whether somebody uninstalls.
pub(crate) const LOOK: Duration = Duration::from_secs(3);
/// For how long an uninstall keeps controllers from writing after its last sign of life.
pub(crate) const MARK: Duration = Duration::from_secs(120);
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);

/// Whether to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Yes.
    Granted,
    /// Another one does.
    StandingBy(String),
    /// Nobody does, and why.
    Withheld(String),
}

/// Finds out.
pub(crate) struct Gate {
    mark: Lease,
    election: Option<(Lease, Candidate, Timing)>,
    permit: watch::Sender<Permit>,
}

/// The Lease by which an uninstall tells controllers to write no more.
pub(crate) fn mark(endpoint: &Endpoint, namespace: &str, id: &str) -> Lease {
    Lease::new(endpoint.within(REQUEST), namespace, &mark_name(id))
}

/// The name of that Lease, beside the one of the controllers' election.
pub(crate) fn mark_name(id: &str) -> String {
    format!("{id}-uninstall")
}

impl Gate {
    /// With an election where a Lease is to last so long.
    pub(crate) fn new(
        endpoint: &Endpoint,
        namespace: &str,
        id: &str,
        elected_for: Option<Duration>,
    ) -> (Self, watch::Receiver<Permit>) {
        let (permit, permitted) = watch::channel(Permit::Withheld("it is being found out whether to write".to_owned()));
        let election = elected_for.map(|duration| {
            let timing = Timing::of(duration);
            let lease = Lease::new(endpoint.within(timing.deadline / 2), namespace, id);
            (lease, Candidate::new(identity(), timing), timing)
        });
        (Self { mark: mark(endpoint, namespace, id), election, permit }, permitted)
    }

    /// Keeps the permit as it is to be, for as long as it is polled.
    pub(crate) async fn run(&mut self) {
        let permit = &self.permit;
        let unknown = permit.borrow().clone();
        let (tell_mark, mut marked) = watch::channel(unknown);
        let (tell_standing, mut standing) = watch::channel(match self.election {
            Some(_) => Permit::StandingBy("the election has not begun".to_owned()),
            None => Permit::Granted,
        });
        let combine = async {
            loop {
                let now = match &*marked.borrow_and_update() {
                    Permit::Granted => standing.borrow_and_update().clone(),
                    withheld => withheld.clone(),
                };
                set(permit, now);
                tokio::select! {
                    Ok(()) = marked.changed() => {}
                    Ok(()) = standing.changed() => {}
                    else => return,
                }
            }
        };
        let election = async {
            if let Some((lease, candidate, timing)) = &mut self.election {
                stand(lease, candidate, *timing, &tell_standing).await;
            }
        };
        tokio::join!(combine, heed(&self.mark, &tell_mark), election);
    }

    /// Leaves the Lease to others, now that nothing is written any more.
    pub(crate) async fn leave(&mut self) {
        let Some((lease, candidate, _)) = &self.election else { return };
        if let Ok(Some(held)) = lease.read().await
            && held.holder == candidate.identity()
        {
            // Else it runs out.
            let _ = lease.write(Some(&held), "", Duration::from_secs(1)).await;
        }
    }
}

/// Looks again and again whether somebody uninstalls.
async fn heed(mark: &Lease, tell: &watch::Sender<Permit>) {
    loop {
        match mark.read().await {
            Ok(Some(held)) if held.is_fresh() => {
                let why = "depguard is being uninstalled, so nothing is installed until two minutes after that";
                set(tell, Permit::Withheld(why.to_owned()));
            }
            Ok(_) => set(tell, Permit::Granted),
            // Who must not see it can't heed it; the uninstall notices.
            Err(error) if error.status() == Some(403) => set(tell, Permit::Granted),
            Err(error) => tracing::debug!("could not see whether depguard is being uninstalled: {error}"),
        }
        sleep(LOOK).await;
    }
}

/// Stands for the election, again and again.
async fn stand(lease: &Lease, candidate: &mut Candidate, timing: Timing, tell: &watch::Sender<Permit>) {
    loop {
        let next = Instant::now() + timing.retry;
        let attempt = async |candidate: &mut Candidate| try_to_hold(lease, candidate, timing).await;
        let tried = match candidate.acts_until() {
            // However long the answer takes, it is acted no longer than this.
            Some(until) if until > Instant::now() => timeout_at(until, attempt(candidate)).await,
            _ => Ok(attempt(candidate).await),
        };
        set(tell, standing(candidate, tried.unwrap_or_else(|_| Err("it was not renewed in time".to_owned()))));
        if let Some(until) = candidate.acts_until().filter(|until| *until < next) {
            sleep_until(until).await;
            set(tell, standing(candidate, Err("it was not renewed in time".to_owned())));
        }
        sleep_until(next).await;
    }
}

/// Takes or renews the Lease where that may be, and says who holds it.
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

fn standing(candidate: &Candidate, tried: Result<String, String>) -> Permit {
    match tried {
        _ if candidate.acts_until().is_some_and(|until| Instant::now() < until) => Permit::Granted,
        Ok(holder) => Permit::StandingBy(format!("{holder} is the one that writes")),
        Err(why) => Permit::StandingBy(format!("the Lease could not be had: {why}")),
    }
}

fn set(permit: &watch::Sender<Permit>, now: Permit) {
    permit.send_if_modified(|known| {
        let news = *known != now;
        *known = now;
        news
    });
}

/// The pod's name, and what tells this process from another in it.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "depguard-controller".to_owned());
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let started = k8s_openapi::jiff::Timestamp::now().as_nanosecond();
    format!("{host}_{}_{started:x}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
