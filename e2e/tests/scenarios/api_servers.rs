//! Two API servers on one etcd: one side's requests come through each, and one server stands still meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_e2e::{Api, Cast, Consumer, Depguard, Outcome, SecondApiServer, World, ensure};
use serde_json::json;
use tokio::time::sleep;

use crate::pairs::{Held, Pairs};
use crate::races::{create, delete, race_beside_control, start, start_prepared};

/// Time for which marks are kept before a standstill that is longer, and before one that is shorter.
const SHORT: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(20);
/// Duration of the shorter standstill: longer than the 10 s that API servers give depguard's webhook.
const STANDSTILL: Duration = Duration::from_secs(12);

/// Sends creations through one API server and deletions through another.
pub(crate) async fn race_through_two(world: Arc<World>) -> Outcome {
    let (cast, depguard) = start(&world).await?;
    let (_second, admin) = second(&world, &cast).await?;
    race_beside_control(&world, &cast, depguard, &admin).await
}

/// Lets an API server stand still for less than W while it carries out what depguard has allowed.
pub(crate) async fn one_stands_still(world: Arc<World>) -> Outcome {
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.keep_marks_for(SHORT);
    let (cast, mut depguard) = start_prepared(&world, depguard).await?;
    depguard.stop_controller().await;
    depguard.keep_marks_for(LONG);
    depguard.start_controller().await?;
    let (second, admin) = second(&world, &cast).await?;
    let pairs = Pairs::new(Arc::clone(&world), cast).await?;
    let names = Pairs::names("shorter");
    let held = stand_still(&pairs, &second, &admin, &names).await?;
    let began = Instant::now();
    while began.elapsed() < STANDSTILL {
        for reply in pairs.try_others(&held, &names).await? {
            ensure(reply.status == 429, || format!("while the other side is under way: {reply:?}"))?;
        }
        sleep(Duration::from_millis(250)).await;
    }
    second.resume()?;
    for ((_, request), name) in held.into_iter().zip(&names) {
        let reply = request.await??;
        world.print(format_args!("after a standstill of {} s: {}", STANDSTILL.as_secs(), reply.status));
        let dangles = pairs.dangles(name).await?;
        ensure(!dangles, || format!("a dangling reference: {reply:?}"))?;
    }
    pairs.all_pass(&names).await?;
    pairs.end().await
}

/// Lets an API server stand still for longer than W: the promise is broken, and the rule's status shows what dangles.
pub(crate) async fn one_stands_still_for_too_long(world: Arc<World>) -> Outcome {
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.keep_marks_for(SHORT);
    let (cast, _depguard) = start_prepared(&world, depguard).await?;
    world.grant_counting(&[&cast.vm, &cast.vpc]).await?;
    world.condition(&cast.compute, "machines", "TargetsExist", "True").await?;
    let (second, admin) = second(&world, &cast).await?;
    let pairs = Pairs::new(Arc::clone(&world), cast).await?;
    let names = Pairs::names("longer");
    let held = stand_still(&pairs, &second, &admin, &names).await?;
    let [created, deleted] = &names;
    delete(&world, &pairs.cast.consumer.object(&pairs.cast.vpc, created), &pairs.cast).await?;
    create(&world, &pairs.cast, deleted, deleted).await?;
    // Nobody asks each API server if it stands still.
    world.condition(&pairs.cast.compute, "machines", "Interlocked", "True").await?;
    second.resume()?;
    for ((_, request), name) in held.into_iter().zip(&names) {
        let reply = request.await??;
        let dangles = pairs.dangles(name).await?;
        ensure(dangles, || format!("{name}: nothing dangles, so W need not be longer than a standstill: {reply:?}"))?;
    }
    world
        .condition_says(&pairs.cast.compute, "machines", "TargetsExist", "False", |said| said.contains("longer"))
        .await?;
    pairs.end().await
}

/// Starts a second API server, with a client, and waits until it asks depguard's webhook about both sides.
async fn second<'w>(world: &'w World, cast: &Cast) -> Outcome<(SecondApiServer<'w>, Api)> {
    let second = world.ring().second_api_server().await?;
    let admin = second.admin().await?;
    let consumer = Consumer { api: admin.clone(), ..cast.consumer.clone() };
    consumer.create_target(&cast.vpc, "used").await?;
    create(world, cast, "used", "used").await?;
    consumer.until_checked(world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await?;
    consumer.until_protected(world, &cast.vpc, "used").await?;
    Ok((second, admin))
}

/// Lets an API server stand still before it carries out a creation and a deletion that depguard has allowed.
async fn stand_still(pairs: &Pairs, server: &SecondApiServer<'_>, via: &Api, names: &[String; 2]) -> Outcome<Held> {
    let held = pairs.hold(via, names).await?;
    server.suspend()?;
    pairs.gate.open();
    Ok(held)
}
