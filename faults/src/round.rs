//! Carries out a round: objects are made, something goes wrong, objects are deleted, it is right again, and what is free
//! has to go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use depguard_kcp::{Endpoint, Preconditions};
use futures::stream::{self, StreamExt};

use crate::Result;
use crate::disturb::{Disturbance, lag};
use crate::judge::{Attempt, GRACE, Object, Outcome, Span};
use crate::kinds::{NAMESPACES, OTHER_REF, REF};
use crate::plan::{Fault, Round, Story, Target};
use crate::scene::Scene;

/// Deletions at once.
const AT_ONCE: usize = 24;
/// Between two attempts at what is to go.
const PAUSE: Duration = Duration::from_millis(250);
/// So long after all is well again it is still tried: a little longer than the judge allows.
const GIVE_UP: Duration = Duration::from_millis(11_500);

/// What was done and what came of it.
#[derive(Debug)]
pub(crate) struct Log {
    /// When the first rules were known.
    begun: Instant,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) spans: Vec<Span>,
    /// Of each round of a fault, the requests and watches that it hit.
    pub(crate) hits: BTreeMap<Fault, Vec<u64>>,
}

impl Log {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, attempts: Vec::new(), spans: Vec::new(), hits: BTreeMap::new() }
    }

    /// Since when nothing has been wrong.
    fn well(&self) -> Instant {
        self.spans.iter().map(|span| span.ended).max().unwrap_or(self.begun)
    }
}

/// Plays one round. What it leaves behind is nothing.
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
    // By then the webhook must know that a rule was changed, and by which it was when there are none any more.
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

    // What stayed is let go at the very moment that nothing refers to it any more.
    let give_up = Instant::now() + GIVE_UP;
    let cleared = each(&round.targets, async |target| {
        release(&tenant, target).await?;
        Ok(if target.story.stays() { until_gone(&tenant, target, give_up).await } else { Vec::new() })
    });
    log.attempts.extend(cleared.await?.into_iter().flatten());
    if waits(round.fault) {
        // The next round begins with rules that nobody can be in doubt of.
        tokio::time::sleep_until((ended + known).into()).await;
    }
    Ok(())
}

/// Whether half of the deletions come once the webhook must know what has changed.
fn waits(fault: Fault) -> bool {
    fault.changes_rules() || fault == Fault::EndpointsRemoved
}

/// Does the same for each target, many at once.
async fn each<T>(targets: &[Target], act: impl AsyncFn(&Target) -> Result<T>) -> Result<Vec<T>> {
    let done = stream::iter(targets).map(|target| act(target)).buffer_unordered(AT_ONCE);
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

/// What has to happen just before, and the deletion.
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

/// Takes away what refers to a target.
async fn release(tenant: &Endpoint, target: &Target) -> Result {
    let namespace = if target.story == Story::Namesake { other(target.namespace) } else { target.namespace };
    for (name, place) in dependents(target, namespace) {
        let path = format!("{}/{name}", target.pair.dependents_in(place));
        persistently(async || tenant.delete(&path, Preconditions::default()).await).await?;
    }
    Ok(())
}

/// Those who refer to a target in that namespace, and where they are: every other one elsewhere, where that is possible.
fn dependents<'a>(target: &'a Target, namespace: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    target.dependents.iter().enumerate().map(move |(index, name)| {
        let elsewhere = target.pair.crosses() && index % 2 == 1;
        (name.as_str(), if elsewhere { other(namespace) } else { namespace })
    })
}

fn other(namespace: &str) -> &'static str {
    if namespace == NAMESPACES[0] { NAMESPACES[1] } else { NAMESPACES[0] }
}

/// Again where there is no answer; what was done by an attempt whose answer was lost is done.
async fn persistently<T>(act: impl AsyncFn() -> std::result::Result<T, depguard_kcp::ApiError>) -> Result {
    for _ in 0..100 {
        match act().await {
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.status(), Some(404 | 409)) => return Ok(()),
            Err(error) if error.status().is_some() => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    Err("the API server did not answer who sets up".into())
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
