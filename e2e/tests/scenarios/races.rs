//! References and deletions of their targets are interlocked: at the same moment, and in trouble.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_e2e::rules::rule;
use depguard_e2e::{Api, Cast, Depguard, Outcome, Reply, World, ensure, eventually};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::join;
use tokio::time::sleep;

/// Variable with the number of pairs of requests.
const PAIRS: &str = "DEPGUARD_RACES";
const FEWER: usize = 100;
/// Number of pairs at once.
const AT_ONCE: usize = 16;
/// Maximum delay of a request.
const MAX_DELAY: Duration = Duration::from_millis(4);
/// Maximum delay of the creation in every second pair, as a multiple of the time of a deletion alone: a deletion records
/// its mark late, after a list.
const MAX_HEAD_START: u32 = 3;
/// Time between two kills of the webhook.
const BETWEEN_KILLS: Duration = Duration::from_millis(400);
pub(crate) const REGISTERS: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/referenceregisters";
/// Number of pairs after which the control looks if it has shown enough.
const CONTROL: usize = 50;
/// Number of pairs after which a control that shows nothing gives up.
const MAX_CONTROL: usize = 20_000;

/// Results of pairs: one creation of a machine that refers to a VPC, and one deletion of that VPC, which in one pair of
/// three is created again at once.
#[derive(Debug, Default)]
struct Tally {
    pairs: usize,
    created: usize,
    deleted: usize,
    /// Pairs of which neither request was carried out.
    neither: usize,
    /// Answers 429.
    put_off: usize,
    /// Machines whose VPC is not there.
    dangling: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pairs, created, deleted, neither, put_off, dangling } = self;
        write!(
            f,
            "{pairs} pairs: {created} machines created, {deleted} VPCs deleted, neither in {neither} pairs, {put_off} \
             answers 429, {dangling} dangling references"
        )
    }
}

/// Sends pairs of requests, in either order, from several clients, and looks at what is stored then.
///
/// The VPCs are deleted through `deleting`, a client of the same consumer.
async fn race(cast: &Cast, deleting: &Api, round: &str, pairs: usize) -> Outcome<Tally> {
    let target = format!("{round}-alone");
    cast.consumer.create_target(&cast.vpc, &target).await?;
    let begun = Instant::now();
    deleting.delete(&cast.consumer.object(&cast.vpc, &target)).await?;
    let head_start = begun.elapsed() * MAX_HEAD_START;
    let one_pair = |pair| one_pair(cast, deleting, format!("{round}-{pair}"), pair, head_start);
    let results = stream::iter(0..pairs).map(one_pair);
    let results: Vec<_> = results.buffer_unordered(AT_ONCE).try_collect().await?;
    let mut tally = Tally { pairs, ..Tally::default() };
    for pair in results {
        let [created, deleted] = pair.replies.map(|status| (200..300).contains(&status));
        tally.created += usize::from(created);
        tally.deleted += usize::from(deleted);
        tally.neither += usize::from(!created && !deleted);
        tally.put_off += pair.replies.iter().filter(|status| **status == 429).count();
        tally.dangling += usize::from(pair.is_dangling);
    }
    Ok(tally)
}

struct Pair {
    /// Statuses of the creation of the machine, and of the deletion of the VPC.
    replies: [u16; 2],
    is_dangling: bool,
}

async fn one_pair(cast: &Cast, deleting: &Api, name: String, number: usize, head_start: Duration) -> Outcome<Pair> {
    let Cast { consumer, vpc, vm, .. } = cast;
    let before_creation = drawn(number, if number.is_multiple_of(2) { head_start } else { MAX_DELAY });
    let before_deletion = drawn(number + 1, MAX_DELAY);
    consumer.create_target(vpc, &name).await?;
    let machine = machine(cast, &name, &name);
    let create = async {
        sleep(before_creation).await;
        consumer.api.post(&vm.collection(&consumer.namespace), &machine).await
    };
    let delete = async {
        sleep(before_deletion).await;
        let reply = deleting.delete(&consumer.object(vpc, &name)).await?;
        if number.is_multiple_of(3) && (200..300).contains(&reply.status) {
            consumer.create_target(vpc, &name).await?;
        }
        Outcome::Ok(reply)
    };
    let (created, deleted) = join!(create, delete);
    let replies = [created?, deleted?];
    for reply in &replies {
        // 500: the webhook was killed, and refuses by its absence.
        ensure(matches!(reply.status, 200 | 201 | 403 | 429 | 500), || format!("{reply:?}"))?;
    }
    let [machine, target] = [(vm, &name), (vpc, &name)].map(|(kind, name)| consumer.object(kind, name));
    let is_stored = |reply: Reply| !reply.is_gone();
    let is_there = is_stored(consumer.api.get(&machine).await?);
    let is_target_there = is_stored(consumer.api.get(&target).await?);
    // Later deletions list all machines: with many of them, each would take too long to win.
    consumer.api.delete(&machine).await?;
    Ok(Pair { replies: replies.map(|reply| reply.status), is_dangling: is_there && !is_target_there })
}

/// Returns a time of at most `max`, the same for the same pair each time.
fn drawn(number: usize, max: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    (number, max).hash(&mut hasher);
    max * u32::try_from(hasher.finish() % 1000).unwrap_or_default() / 1000
}

/// Returns the limit of the scenario, as a multiple of the ring's patience.
pub(crate) fn limit() -> u32 {
    5 + u32::try_from(pairs() / 100).unwrap_or_default()
}

fn pairs() -> usize {
    std::env::var(PAIRS).ok().and_then(|pairs| pairs.parse().ok()).unwrap_or(FEWER)
}

/// Returns the rule that machines refer to VPCs, which must be there, and which stay while a machine refers to them.
pub(crate) fn interlocked(cast: &Cast) -> Value {
    let mut rule = rule("machines", &cast.vm, &[(&cast.vpc, ".spec.vpcRef.name")]);
    rule["spec"]["dependencies"][0]["onMissing"] = json!("Deny");
    rule
}

/// Starts depguard with an interlocked rule, and waits until the rule's status says so.
pub(crate) async fn start(world: &Arc<World>) -> Outcome<(Cast, Depguard)> {
    let depguard = Depguard::prepare(world).await?;
    start_prepared(world, depguard).await
}

/// Starts this depguard likewise.
pub(crate) async fn start_prepared(world: &World, mut depguard: Depguard) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    world.add_rule(&cast.compute, &interlocked(&cast)).await?;
    depguard.start_controller().await?;
    depguard.start_webhook().await?;
    world.condition_says(&cast.compute, "machines", "Interlocked", "True", |_| true).await?;
    Ok((cast, depguard))
}

pub(crate) fn machine(cast: &Cast, name: &str, target: &str) -> Value {
    json!({
        "apiVersion": cast.vm.api_version(), "kind": cast.vm.kind, "metadata": {"name": name},
        "spec": {"vpcRef": {"name": target}},
    })
}

/// Creates a machine as a client does that waits while it is told to come again.
pub(crate) async fn create(world: &World, cast: &Cast, name: &str, target: &str) -> Outcome {
    let (collection, object) = (cast.vm.collection(&cast.consumer.namespace), machine(cast, name, target));
    eventually("the machine is created", world.patience(), async || {
        let reply = cast.consumer.api.post(&collection, &object).await?;
        if reply.status == 201 { Ok(()) } else { Err(reply.unexpected("201")) }
    })
    .await
}

/// Deletes an object as a client does that waits while it is told to come again.
pub(crate) async fn delete(world: &World, path: &str, cast: &Cast) -> Outcome {
    eventually("the object is deleted", world.patience(), async || {
        let reply = cast.consumer.api.delete(path).await?;
        if reply.status == 200 { Ok(()) } else { Err(reply.unexpected("200")) }
    })
    .await
}

pub(crate) async fn never_dangling(world: Arc<World>) -> Outcome {
    let (cast, depguard) = start(&world).await?;
    race_beside_control(&world, &cast, depguard, &cast.consumer.api).await
}

/// Sends pairs of requests with the interlock, of which none may dangle, and then without the interlock until one does.
///
/// The VPCs are deleted through `deleting`, a client of the same consumer.
pub(crate) async fn race_beside_control(world: &World, cast: &Cast, mut depguard: Depguard, deleting: &Api) -> Outcome {
    let tally = race(cast, deleting, "r", pairs()).await?;
    world.print(format_args!("with the interlock, {tally}"));
    ensure(tally.dangling == 0, || format!("with the interlock, {tally}"))?;
    ensure(tally.created > 0 && tally.deleted > 0, || format!("one side never passes: {tally}"))?;

    // Without the interlock, both checks are made all the same.
    depguard.kill_webhook();
    depguard.stop_controller().await;
    depguard.without_interlock();
    depguard.start_controller().await?;
    depguard.start_webhook().await?;
    cast.consumer.until_checked(world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await?;
    let mut all = Tally::default();
    for round in 0.. {
        let tally = race(cast, deleting, &format!("c{round}"), CONTROL).await?;
        all.pairs += tally.pairs;
        all.dangling += tally.dangling;
        if all.dangling > 0 {
            break;
        }
        ensure(all.pairs < MAX_CONTROL, || format!("the control shows no race in {} pairs", all.pairs))?;
    }
    world.print(format_args!("without the interlock, {} pairs: {} dangling references", all.pairs, all.dangling));
    Ok(())
}

/// Keeps marks for longer than the scenario lasts: whatever passes then does not wait for the controller.
pub(crate) async fn nobody_waits_for_old_marks(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = start(&world).await?;
    depguard.stop_controller().await;
    depguard.keep_marks_for(Duration::from_secs(3600));
    depguard.start_controller().await?;
    let [vm, vpc] = [(&cast.vm, "m"), (&cast.vpc, "a")].map(|(kind, name)| cast.consumer.object(kind, name));
    for _ in 0..3 {
        cast.consumer.create_target(&cast.vpc, "a").await?;
        create(&world, &cast, "m", "a").await?;
        let refused = cast.consumer.api.delete(&vpc).await?;
        ensure(refused.status == 403 && refused.message().contains("VirtualMachine/m"), || format!("{refused:?}"))?;
        until_no_intents(&world).await?;
        delete(&world, &vm, &cast).await?;
        delete(&world, &vpc, &cast).await?;
        // The deletion's mark stays, and is about another VPC of this name.
        cast.consumer.create_target(&cast.vpc, "a").await?;
        create(&world, &cast, "m", "a").await?;
        until_no_intents(&world).await?;
        delete(&world, &vm, &cast).await?;
        delete(&world, &vpc, &cast).await?;
    }
    Ok(())
}

/// Waits until the webhook has taken the marks of all stored references down.
async fn until_no_intents(world: &World) -> Outcome {
    eventually("no reference is under way", world.patience(), async || {
        let registers = world.own_cluster().get(REGISTERS).await?.ok()?;
        let items = registers["items"].as_array().into_iter().flatten();
        let targets = items.flat_map(|register| register["spec"]["targets"].as_array().into_iter().flatten());
        let intents = targets.filter(|target| target.get("intents").is_some()).count();
        ensure(intents == 0, || format!("{intents} targets have intents"))
    })
    .await
}

/// Kills the webhook again and again while pairs race. It leaves marks of which nobody knows any more.
pub(crate) async fn crashes(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = start(&world).await?;
    let mut race = pin!(race(&cast, &cast.consumer.api, "k", pairs().min(FEWER)));
    let mut kills = 0;
    let tally = loop {
        tokio::select! {
            tally = &mut race => break tally?,
            killed = async {
                sleep(BETWEEN_KILLS).await;
                depguard.kill_webhook();
                depguard.start_webhook().await?;
                cast.consumer.until_checked(&world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await
            } => {
                killed?;
                kills += 1;
            }
        }
    };
    world.print(format_args!("with {kills} kills of the webhook, {tally}"));
    ensure(kills > 0 && tally.created > 0, || format!("{kills} kills, {tally}"))?;
    ensure(tally.dangling == 0, || format!("with {kills} kills, {tally}"))?;
    // Nothing is stuck. The race may have ended between a kill and the next start.
    depguard.kill_webhook();
    depguard.start_webhook().await?;
    cast.consumer.create_target(&cast.vpc, "after").await?;
    create(&world, &cast, "after", "after").await?;
    delete(&world, &cast.consumer.object(&cast.vm, "after"), &cast).await?;
    delete(&world, &cast.consumer.object(&cast.vpc, "after"), &cast).await
}

/// Deletes all registers. The controller makes others, which are closed for a while.
pub(crate) async fn lose_registers(world: &World) -> Outcome {
    let admin = world.own_cluster();
    let registers = admin.get(REGISTERS).await?.ok()?;
    for register in registers["items"].as_array().into_iter().flatten() {
        let name = register["metadata"]["name"].as_str().unwrap_or_default();
        admin.delete(&format!("{REGISTERS}/{name}")).await?.ok()?;
    }
    Ok(())
}

/// Deletes a register while a reference is under way, as far as anybody knows.
pub(crate) async fn lost_registers(world: Arc<World>) -> Outcome {
    let (cast, _depguard) = start(&world).await?;
    cast.consumer.create_target(&cast.vpc, "a").await?;
    lose_registers(&world).await?;
    let object = machine(&cast, "m", "a");
    let reply = cast.consumer.api.post(&cast.vm.collection(&cast.consumer.namespace), &object).await?;
    ensure(reply.status == 429, || format!("without its register, a reference got {reply:?}"))?;
    world.condition_says(&cast.compute, "machines", "Interlocked", "False", |said| said.contains("Register")).await?;
    // The controller makes them anew, closed, and opens them.
    create(&world, &cast, "m", "a").await?;
    world.condition_says(&cast.compute, "machines", "Interlocked", "True", |_| true).await
}
