//! Carries out a round: creates objects, begins the fault, deletes objects, ends the fault, and deletes all free
//! objects.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use depguard_kcp::{Endpoint, Preconditions};
use futures::stream::{self, StreamExt};

use crate::Result;
use crate::checker::{Attempt, GRACE, Object, Outcome, Span};
use crate::disturb::{Disturbance, lag};
use crate::kinds::{NAMESPACES, OTHER_REF, REF};
use crate::plan::{Fault, Round, Story, Target};
use crate::scene::Scene;

/// Maximum of concurrent deletions.
const MAX_CONCURRENT_ACTS: usize = 24;
/// Pause between two attempts to delete a free object.
const PAUSE: Duration = Duration::from_millis(250);
/// Time after the end of all faults for which deletions are still tried: a little longer than the checker's limit.
const GIVE_UP: Duration = Duration::from_millis(11_500);

/// Log of the actions and their results.
#[derive(Debug)]
pub(crate) struct Log {
    /// Time when the first rules were known.
    begun: Instant,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) spans: Vec<Span>,
    /// Requests and watches that each round of a fault hit.
    pub(crate) hits: BTreeMap<Fault, Vec<u64>>,
}

impl Log {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, attempts: Vec::new(), spans: Vec::new(), hits: BTreeMap::new() }
    }

    /// Returns the time since which no fault has been active.
    fn well(&self) -> Instant {
        self.spans.iter().map(|span| span.ended).max().unwrap_or(self.begun)
    }
}

/// Plays one round. Leaves no objects behind.
pub(crate) async fn play(scene: &mut Scene, round: &Round, log: &mut Log) -> Result {
    let tenant = scene.tenant.clone();
    each(&round.targets, async |target| prepare(&tenant, target).await).await?;

    if round.fault == Fault::Calm {
        // From here on no free object may be refused even once.
        tokio::time::sleep_until((log.well() + GRACE + Duration::from_millis(500)).into()).await;
    }
    let began = Instant::now();
    let disturbance = Disturbance::begin(scene, round).await?;
    let (early, late) = match waits(round.fault) {
        true => round.targets.split_at(round.targets.len() / 2),
        false => (&round.targets[..], &[][..]),
    };
    log.attempts.extend(each(early, async |target| first(&tenant, target).await).await?);
    tokio::time::sleep_until((began + round.least).into()).await;
    // In this time the webhook must notice a changed rule, or that removed rules are back.
    let known = lag(round.fault) + Duration::from_millis(500);
    if round.fault.changes_rules() {
        tokio::time::sleep_until((began + known).into()).await;
        log.attempts.extend(each(late, async |target| first(&tenant, target).await).await?);
    }
    log.hits.entry(round.fault).or_default().push(disturbance.end(scene).await?);
    let ended = Instant::now();
    if round.fault != Fault::Calm {
        log.spans.push(Span { fault: round.fault, began, ended });
    }
    if round.fault == Fault::EndpointsRemoved {
        tokio::time::sleep_until((ended + known).into()).await;
        log.attempts.extend(each(late, async |target| first(&tenant, target).await).await?);
    }

    let give_up = Instant::now() + lag(round.fault) + GIVE_UP;
    let after = each(&round.targets, async |target| {
        if target.story.stays() {
            return Ok(vec![delete(&tenant, target).await]);
        }
        Ok(until_gone(&tenant, target, give_up).await)
    });
    log.attempts.extend(after.await?.into_iter().flatten());

    // Deletes the targets that stayed, right after their last dependent is gone.
    let give_up = Instant::now() + GIVE_UP;
    let cleared = each(&round.targets, async |target| {
        release(&tenant, target).await?;
        Ok(if target.story.stays() { until_gone(&tenant, target, give_up).await } else { Vec::new() })
    });
    log.attempts.extend(cleared.await?.into_iter().flatten());
    if waits(round.fault) {
        // The next round begins with rules that are in force beyond doubt.
        tokio::time::sleep_until((ended + known).into()).await;
    }
    Ok(())
}

/// Returns true if half of the deletions come once the webhook must know of the change.
fn waits(fault: Fault) -> bool {
    fault.changes_rules() || fault == Fault::EndpointsRemoved
}

/// Does the same for each target, many at a time.
async fn each<T>(targets: &[Target], act: impl AsyncFn(&Target) -> Result<T>) -> Result<Vec<T>> {
    let done = stream::iter(targets).map(|target| act(target)).buffer_unordered(MAX_CONCURRENT_ACTS);
    done.collect::<Vec<_>>().await.into_iter().collect()
}

async fn prepare(tenant: &Endpoint, target: &Target) -> Result {
    persistently(async || {
        tenant.post_json(&target.pair.targets_in(target.namespace), &target.pair.make_target(&target.name)).await
    })
    .await?;
    match target.story {
        Story::Referenced | Story::JustFreed => refer(tenant, target, target.namespace, REF).await,
        Story::ReferencedByOther => refer(tenant, target, target.namespace, OTHER_REF).await,
        Story::Namesake => refer(tenant, target, other(target.namespace), REF).await,
        Story::JustReferenced | Story::Free => Ok(()),
    }
}

/// Makes the change that comes just before the deletion, and deletes the target.
async fn first(tenant: &Endpoint, target: &Target) -> Result<Attempt> {
    match target.story {
        Story::JustReferenced => refer(tenant, target, target.namespace, REF).await?,
        Story::JustFreed => release(tenant, target).await?,
        _ => return Ok(delete(tenant, target).await),
    }
    tokio::time::sleep(target.pause).await;
    Ok(delete(tenant, target).await)
}

async fn refer(tenant: &Endpoint, target: &Target, namespace: &str, field: &str) -> Result {
    for (name, place) in dependents(target, namespace) {
        let mut dependent = target.pair.make_dependent(name, field, &target.name);
        if place != namespace {
            dependent["spec"][field]["namespace"] = namespace.into();
        }
        let collection = target.pair.dependents_in(place);
        persistently(async || tenant.post_json(&collection, &dependent).await).await?;
    }
    Ok(())
}

/// Deletes the dependents that refer to a target.
async fn release(tenant: &Endpoint, target: &Target) -> Result {
    let namespace = if target.story == Story::Namesake { other(target.namespace) } else { target.namespace };
    for (name, place) in dependents(target, namespace) {
        let path = format!("{}/{name}", target.pair.dependents_in(place));
        persistently(async || tenant.delete(&path, Preconditions::default()).await).await?;
    }
    Ok(())
}

/// Returns the dependents that refer to a target in that namespace, and their namespaces. If the pair allows it, every
/// second one lies in the other namespace.
fn dependents<'a>(target: &'a Target, namespace: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    target.dependents.iter().enumerate().map(move |(index, name)| {
        let elsewhere = target.pair.crosses() && index % 2 == 1;
        (name.as_str(), if elsewhere { other(namespace) } else { namespace })
    })
}

fn other(namespace: &str) -> &'static str {
    if namespace == NAMESPACES[0] { NAMESPACES[1] } else { NAMESPACES[0] }
}

/// Repeats an action until there is an answer. An earlier attempt whose answer was lost may have taken effect.
async fn persistently<T>(act: impl AsyncFn() -> std::result::Result<T, depguard_kcp::ApiError>) -> Result {
    for _ in 0..100 {
        match act().await {
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.status(), Some(404 | 409)) => return Ok(()),
            Err(error) if error.status().is_some() => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    Err("the API server did not answer the requests that prepare a round".into())
}

async fn until_gone(tenant: &Endpoint, target: &Target, give_up: Instant) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    loop {
        let attempt = delete(tenant, target).await;
        let done = attempt.outcome == Outcome::Gone || attempt.answered > give_up;
        attempts.push(attempt);
        if done {
            return attempts;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn delete(tenant: &Endpoint, target: &Target) -> Attempt {
    let path = format!("{}/{}", target.pair.targets_in(target.namespace), target.name);
    let sent = Instant::now();
    let answer = tenant.delete(&path, Preconditions::default()).await;
    let outcome = match answer {
        Ok(_) => Outcome::Gone,
        Err(error) if error.is_not_found() => Outcome::Gone,
        Err(error) if error.status().is_some() => Outcome::Refused(error.to_string()),
        Err(error) => Outcome::Unanswered(error.to_string()),
    };
    let object = Object::new(target.pair.target().1, target.namespace, &target.name);
    Attempt { object, sent, answered: Instant::now(), outcome }
}
