//! Reviews that no API server sent, and the renewal of the paths by which the webhook knows them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::interlock::{Generation, Register};
use depguard_e2e::rules::{REFERENCES_CONFIGURATION, RULES};
use depguard_e2e::{Cast, Depguard, Outcome, Stop, World, ensure, eventually};
use depguard_kcp::{CallError, Caller, PathKey};
use serde_json::{Value, json};

use crate::races::{REGISTERS, machine, start_prepared};

/// Time for which one key signs paths.
const PERIOD: Duration = Duration::from_secs(4);
/// Number of renewals after which the first path is over.
const RENEWALS: usize = 3;

pub(crate) async fn reviews(world: Arc<World>) -> Outcome {
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.sign_paths_for(PERIOD);
    let (cast, depguard) = start_prepared(&world, depguard).await?;
    let consumer = &cast.consumer;
    for target in ["a", "b"] {
        consumer.create_target(&cast.vpc, target).await?;
    }
    eventually("a reference is stored", world.patience(), async || {
        consumer.api.post(&cast.vm.collection(&consumer.namespace), &machine(&cast, "m", "a")).await?.ok().map(drop)
    })
    .await?;
    let first = installed(&cast).await?;
    let mut paths = BTreeSet::from([first.clone()]);
    let mut requests = 0;
    while paths.len() <= RENEWALS {
        requests += 1;
        nobody_is_held_up(&cast, requests).await?;
        nothing_is_in_doubt(&cast).await?;
        paths.insert(installed(&cast).await?);
    }
    world.print(format_args!("{requests} rounds of requests while {RENEWALS} keys ended"));

    let caller = |url: &str| -> Outcome<Caller> {
        let ca = std::fs::read(depguard.file("ca.crt"))?;
        Caller::new(url, Some(&ca), None, None).map_err(|why| Stop::Failed(why.to_string()))
    };
    eventually("no mark is left", world.patience(), async || {
        let left = marks(&world).await?;
        ensure(left == 0, || format!("{left} marks"))
    })
    .await?;
    let review = forged(&cast);
    let post = async |url: &str| {
        caller(url)?.post(review.to_string().into_bytes(), 1 << 20, Duration::from_secs(10)).await.map_err(|why| {
            match why {
                CallError::Status { status, .. } => Stop::Failed(format!("{status}")),
                why => Stop::Failed(why.to_string()),
            }
        })
    };
    let (before, segment) = generation_of(&first)?;
    let other_key = PathKey::parse(&std::fs::read_to_string(depguard.file("path-key"))?).map_err(Stop::failed)?;
    let unsigned = format!("{before}{segment}");
    let by_other_key = format!("{before}{}", other_key.suffix_after(&segment, None));
    for url in [first, unsigned, by_other_key] {
        let answer = post(&url).await;
        ensure(matches!(&answer, Err(Stop::Failed(why)) if why.starts_with("404")), || format!("{url}: {answer:?}"))?;
    }
    ensure(marks(&world).await? == 0, || "a forged review left a mark".to_owned())?;
    // The same review at the present path leaves one: nothing but the path was wrong.
    eventually("a review at the present path leaves a mark", world.patience(), async || {
        post(&installed(&cast).await?).await?;
        ensure(marks(&world).await? > 0, || "no mark".to_owned())
    })
    .await
}

/// Sends requests that are allowed, and one that is refused.
async fn nobody_is_held_up(cast: &Cast, number: usize) -> Outcome {
    let consumer = &cast.consumer;
    consumer.api.dry_run_delete(&consumer.object(&cast.vpc, "b")).await?.ok()?;
    let refused = consumer.api.dry_run_delete(&consumer.object(&cast.vpc, "a")).await?;
    ensure(refused.message().contains("still referenced by VirtualMachine/m"), || refused.message().to_owned())?;
    let name = format!("m{number}");
    consumer.api.post(&cast.vm.collection(&consumer.namespace), &machine(cast, &name, "a")).await?.ok()?;
    consumer.api.delete(&consumer.object(&cast.vm, &name)).await?.ok().map(drop)
}

/// Checks that the rule's conditions are all true.
async fn nothing_is_in_doubt(cast: &Cast) -> Outcome {
    let rule = cast.compute.api.get(&format!("{RULES}/machines")).await?.ok()?;
    for condition in ["Programmed", "Enforced", "Interlocked"] {
        let conditions = rule["status"]["conditions"].as_array().into_iter().flatten();
        let is_true = conditions.into_iter().any(|one| one["type"] == condition && one["status"] == "True");
        ensure(is_true, || format!("{condition}: {}", rule["status"]))?;
    }
    Ok(())
}

/// Returns the installed URL for reviews of references.
async fn installed(cast: &Cast) -> Outcome<String> {
    let configuration = cast.compute.api.get(REFERENCES_CONFIGURATION).await?.ok()?;
    let url = configuration["webhooks"][0]["clientConfig"]["url"].as_str().map(str::to_owned);
    url.ok_or_else(|| Stop::Failed(configuration.to_string()))
}

/// Splits a URL before the segment with the registers' generation, and returns the segment too.
fn generation_of(url: &str) -> Outcome<(&str, String)> {
    let is_generation = |segment: &&str| Generation::from_segment(segment).is_some();
    let segment = url.split('/').find(is_generation).map(|segment| format!("/{segment}"));
    let found = segment.and_then(|segment| Some((url.split_once(&segment)?.0, segment.clone())));
    found.ok_or_else(|| Stop::Failed(format!("{url} names no registers")))
}

/// Returns the review of a creation that nobody asked for.
fn forged(cast: &Cast) -> Value {
    let (vm, namespace) = (&cast.vm, &cast.consumer.namespace);
    let mut object = machine(cast, "forged", "b");
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["uid"] = json!("forged");
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "forged", "operation": "CREATE", "name": "forged", "namespace": namespace,
        "kind": {"group": vm.group, "version": vm.versions[0], "kind": vm.kind},
        "resource": {"group": vm.group, "version": vm.versions[0], "resource": vm.plural},
        "userInfo": {"username": "nobody"}, "object": object,
    }})
}

/// Returns the number of targets with marks.
async fn marks(world: &World) -> Outcome<usize> {
    let registers = world.own_cluster().get(REGISTERS).await?.ok()?;
    let registers = registers["items"].as_array().into_iter().flatten();
    let mut number = 0;
    for register in registers {
        let register = Register::parse(register.to_string().as_bytes());
        number += register.map_err(|why| Stop::Failed(why.to_string()))?.marks().count();
    }
    Ok(number)
}
