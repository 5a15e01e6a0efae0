//! References and deletions of their targets are interlocked: at the same moment, and in trouble.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_e2e::rules::rule;
use depguard_e2e::{Api, Cast, Depguard, Outcome, Reply, Stop, World, ensure, eventually};
use futures::future::try_join_all;
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
/// Time for which replicas with registers answer before one without takes a turn: pairs are decided in it.
const BETWEEN_TURNS: Duration = Duration::from_secs(1);
pub(crate) const REGISTERS: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/referenceregisters";
/// Number of pairs after which the control looks if it has shown enough.
const CONTROL: usize = 50;
/// Number of pairs after which a control that shows nothing gives up.
const MAX_CONTROL: usize = 20_000;

/// Results of pairs: one change by which a machine refers to a VPC, such as its creation, and one deletion of that VPC.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pairs: usize,
    changed: usize,
    deleted: usize,
    /// Pairs of which neither request was carried out.
    neither: usize,
    /// Answers 429.
    put_off: usize,
    /// Machines whose VPC is not there.
    dangling: usize,
}

impl Tally {
    pub(crate) fn take(&mut self, pair: &Pair) {
        let [changed, deleted] = pair.statuses.map(|status| (200..300).contains(&status));
        self.pairs += 1;
        self.changed += usize::from(changed);
        self.deleted += usize::from(deleted);
        self.neither += usize::from(!changed && !deleted);
        self.put_off += pair.statuses.iter().filter(|status| **status == 429).count();
        self.dangling += usize::from(pair.is_dangling);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pairs, changed, deleted, neither, put_off, dangling } = self;
        write!(
            f,
            "{pairs} pairs: {changed} machines created or changed, {deleted} VPCs deleted, neither in {neither} pairs, \
             {put_off} answers 429, {dangling} dangling references"
        )
    }
}

/// Sends pairs of requests, in either order, from several clients, and looks at what is stored then. One VPC in three is
/// created again at once after its deletion.
///
/// The VPCs are deleted through `deleting`, a client of the same consumer.
async fn race(cast: &Cast, deleting: &Api, round: &str, pairs: usize) -> Outcome<Tally> {
    let head_start = head_start(cast, deleting, round).await?;
    race_pairs(pairs, |pair| one_pair(cast, deleting, format!("{round}-{pair}"), pair, head_start)).await
}

/// Returns the maximum delay of a change in every second pair, so that deletions win some pairs, too.
pub(crate) async fn head_start(cast: &Cast, deleting: &Api, round: &str) -> Outcome<Duration> {
    let target = format!("{round}-alone");
    cast.consumer.create_target(&cast.vpc, &target).await?;
    let begun = Instant::now();
    deleting.delete(&cast.consumer.object(&cast.vpc, &target)).await?;
    Ok(begun.elapsed() * MAX_HEAD_START)
}

/// Waits before a change, for the same time in the same pair each time.
pub(crate) async fn before_change(number: usize, head_start: Duration) {
    sleep(drawn(number, if number.is_multiple_of(2) { head_start } else { MAX_DELAY })).await;
}

/// Waits before a deletion likewise.
pub(crate) async fn before_deletion(number: usize) {
    sleep(drawn(number + 1, MAX_DELAY)).await;
}

/// Plays pairs, some of them at once, and counts their results.
pub(crate) async fn race_pairs<F: Future<Output = Outcome<Pair>>>(
    pairs: usize,
    one_pair: impl Fn(usize) -> F,
) -> Outcome<Tally> {
    let results = stream::iter(0..pairs).map(one_pair);
    let results: Vec<_> = results.buffer_unordered(AT_ONCE).try_collect().await?;
    let mut tally = Tally::default();
    results.iter().for_each(|pair| tally.take(pair));
    Ok(tally)
}

/// Disturbs a race again and again until it ends, and returns how often.
async fn disturbed(
    race: impl Future<Output = Outcome<Tally>>,
    mut disturb: impl AsyncFnMut() -> Outcome,
) -> Outcome<(Tally, usize)> {
    let mut race = pin!(race);
    let mut times = 0;
    loop {
        tokio::select! {
            tally = &mut race => return Ok((tally?, times)),
            done = disturb() => done?,
        }
        times += 1;
    }
}

/// Result of a pair.
pub(crate) struct Pair {
    /// Statuses of the change of the machine, and of the deletion of the VPC.
    pub(crate) statuses: [u16; 2],
    /// True if the machine refers to a VPC that is not there.
    pub(crate) is_dangling: bool,
}

/// Plays one pair about a VPC of this name, and takes the machine away again.
pub(crate) async fn one_pair(
    cast: &Cast,
    deleting: &Api,
    name: String,
    number: usize,
    head_start: Duration,
) -> Outcome<Pair> {
    let Cast { consumer, vpc, vm, .. } = cast;
    consumer.create_target(vpc, &name).await?;
    let machine = machine(cast, &name, &name);
    let create = async {
        before_change(number, head_start).await;
        consumer.api.post(&vm.collection(&consumer.namespace), &machine).await
    };
    let delete = async {
        before_deletion(number).await;
        let reply = deleting.delete(&consumer.object(vpc, &name)).await?;
        if number.is_multiple_of(3) && (200..300).contains(&reply.status) {
            consumer.create_target(vpc, &name).await?;
        }
        Outcome::Ok(reply)
    };
    let (created, deleted) = join!(create, delete);
    let replies = [created?, deleted?];
    for reply in &replies {
        // 500 and more: the webhook was killed, or its answer was lost; its absence refuses.
        ensure(matches!(reply.status, 200 | 201 | 403 | 429 | 500 | 503 | 504), || format!("{reply:?}"))?;
    }
    let [machine, target] = [(vm, &name), (vpc, &name)].map(|(kind, name)| consumer.object(kind, name));
    let is_stored = |reply: Reply| !reply.is_gone();
    let is_there = is_stored(consumer.api.get(&machine).await?);
    let is_target_there = is_stored(consumer.api.get(&target).await?);
    // Later deletions list all machines: with many of them, each would take too long to win.
    consumer.api.delete(&machine).await?;
    Ok(Pair { statuses: replies.map(|reply| reply.status), is_dangling: is_there && !is_target_there })
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
pub(crate) async fn start_prepared(world: &World, depguard: Depguard) -> Outcome<(Cast, Depguard)> {
    start_by(world, depguard, interlocked).await
}

/// Starts this depguard with another rule about the same machines.
pub(crate) async fn start_by(
    world: &World,
    mut depguard: Depguard,
    rule: impl FnOnce(&Cast) -> Value,
) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    world.add_rule(&cast.compute, &rule(&cast)).await?;
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
    create_machine(world, cast, &machine(cast, name, target)).await
}

/// Creates this machine likewise.
pub(crate) async fn create_machine(world: &World, cast: &Cast, machine: &Value) -> Outcome {
    let collection = cast.vm.collection(&cast.consumer.namespace);
    eventually("the machine is created", world.patience(), async || {
        let reply = cast.consumer.api.post(&collection, machine).await?;
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
pub(crate) async fn race_beside_control(world: &World, cast: &Cast, depguard: Depguard, deleting: &Api) -> Outcome {
    beside_control(world, cast, depguard, pairs(), async |round, pairs| race(cast, deleting, round, pairs).await).await
}

/// Plays so many pairs with the interlock, of which none may dangle, and then pairs without it until one does. `race` plays
/// pairs, whose objects have names that begin with the first argument.
pub(crate) async fn beside_control(
    world: &World,
    cast: &Cast,
    mut depguard: Depguard,
    pairs: usize,
    race: impl AsyncFn(&str, usize) -> Outcome<Tally>,
) -> Outcome {
    let tally = race("r", pairs).await?;
    world.print(format_args!("with the interlock, {tally}"));
    ensure(tally.dangling == 0, || format!("with the interlock, {tally}"))?;
    ensure(tally.changed > 0 && tally.deleted > 0, || format!("one side never passes: {tally}"))?;

    // Without the interlock, both checks are made all the same.
    depguard.kill_webhook();
    depguard.stop_controller().await;
    depguard.without_interlock();
    depguard.start_controller().await?;
    depguard.start_webhook().await?;
    cast.consumer.until_checked(world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await?;
    let mut all = Tally::default();
    for round in 0.. {
        let tally = race(&format!("c{round}"), CONTROL).await?;
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

/// Creates machines that refer to a VPC, and deletes them at once, and then the VPC: 20 times one machine, then 20, and on real
/// servers 100 at once. Marks are kept for longer than the scenario lasts, so the VPC's deletion waits for nobody who is gone.
pub(crate) async fn gone_at_once(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = start(&world).await?;
    depguard.stop_controller().await;
    depguard.keep_marks_for(Duration::from_secs(3600));
    depguard.start_controller().await?;
    let vpc = cast.consumer.object(&cast.vpc, "a");
    let come_and_go = async |name: String| {
        create(&world, &cast, &name, "a").await?;
        cast.consumer.api.delete(&cast.consumer.object(&cast.vm, &name)).await?.ok().map(drop)
    };
    let (mut at_first, mut longest) = (0, Duration::ZERO);
    // Many testbeds run at once, in the test's own process.
    let (alone, most): (_, &[usize]) = if world.ring().kind().is_testbed() { (5, &[20]) } else { (20, &[20, 100]) };
    for machines in std::iter::repeat_n(1, alone).chain(most.iter().copied()) {
        cast.consumer.create_target(&cast.vpc, "a").await?;
        try_join_all((0..machines).map(|number| come_and_go(format!("m{number}")))).await?;
        let begun = Instant::now();
        match cast.consumer.api.delete(&vpc).await?.status {
            200 => at_first += 1,
            _ => delete(&world, &vpc, &cast).await?,
        }
        longest = longest.max(begun.elapsed());
    }
    world.print(format_args!("{at_first} VPCs were deleted by the first request, and the last after {longest:.1?}"));
    Ok(())
}

/// Creates a machine again whose name is taken, and deletes the VPC to which the second machine would have referred.
pub(crate) async fn taken_names(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = start(&world).await?;
    depguard.stop_controller().await;
    depguard.keep_marks_for(Duration::from_secs(3600));
    depguard.start_controller().await?;
    cast.consumer.create_target(&cast.vpc, "a").await?;
    cast.consumer.create_target(&cast.vpc, "b").await?;
    create(&world, &cast, "m", "a").await?;
    until_no_intents(&world).await?;
    let (vm, namespace) = (&cast.vm, &cast.consumer.namespace);
    let mut machine = json!({
        "apiVersion": vm.api_version(), "kind": vm.kind, "metadata": {"name": "m"}, "spec": {"vpcRef": {"name": "b"}},
    });
    for _ in 0..3 {
        let reply = cast.consumer.api.post(&vm.collection(namespace), &machine).await?;
        let is_taken = reply.status == 409 && reply.body["reason"] == "AlreadyExists";
        ensure(is_taken && reply.message().contains("\"m\" already exists"), || format!("{reply:?}"))?;
    }
    delete(&world, &cast.consumer.object(&cast.vpc, "b"), &cast).await?;
    // An apply of the same name is an update, and its reference counts.
    cast.consumer.create_target(&cast.vpc, "c").await?;
    machine["spec"]["vpcRef"]["name"] = json!("c");
    cast.consumer.api.apply(&cast.consumer.object(vm, "m"), &machine).await?.ok()?;
    let refused = cast.consumer.api.delete(&cast.consumer.object(&cast.vpc, "c")).await?;
    ensure(refused.status == 403 && refused.message().contains("VirtualMachine/m"), || format!("{refused:?}"))
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
    let race = race(&cast, &cast.consumer.api, "k", pairs().min(FEWER));
    let (tally, kills) = disturbed(race, async || {
        sleep(BETWEEN_KILLS).await;
        depguard.kill_webhook();
        depguard.start_webhook().await?;
        cast.consumer.until_checked(&world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await
    })
    .await?;
    world.print(format_args!("with {kills} kills of the webhook, {tally}"));
    ensure(kills > 0 && tally.changed > 0, || format!("{kills} kills, {tally}"))?;
    ensure(tally.dangling == 0, || format!("with {kills} kills, {tally}"))?;
    // Nothing is stuck. The race may have ended between a kill and the next start.
    depguard.kill_webhook();
    depguard.start_webhook().await?;
    cast.consumer.create_target(&cast.vpc, "after").await?;
    create(&world, &cast, "after", "after").await?;
    delete(&world, &cast.consumer.object(&cast.vm, "after"), &cast).await?;
    delete(&world, &cast.consumer.object(&cast.vpc, "after"), &cast).await
}

/// Returns the path of the register of this index.
pub(crate) async fn register_path(world: &World, index: usize) -> Outcome<String> {
    let registers = world.own_cluster().get(REGISTERS).await?.ok()?;
    let names = registers["items"].as_array().into_iter().flatten();
    let mut names = names.filter_map(|register| register["metadata"]["name"].as_str());
    let name = names.find(|name| name.starts_with(&format!("bucket-{index}-of-")));
    name.map(|name| format!("{REGISTERS}/{name}")).ok_or_else(|| Stop::Failed(format!("no register {index}")))
}

/// Lets replicas with registers and replicas without take turns while pairs race. API servers call by a path that the
/// latter don't answer.
pub(crate) async fn without_registers(world: Arc<World>) -> Outcome {
    let (cast, mut depguard) = start(&world).await?;
    let race = race(&cast, &cast.consumer.api, "w", pairs().max(4 * FEWER));
    let (tally, turns) = disturbed(race, async || {
        sleep(BETWEEN_TURNS).await;
        depguard.kill_webhook();
        depguard.switch_webhook_registers();
        depguard.start_webhook().await?;
        until_nobody_answers(&world, &cast).await?;
        depguard.kill_webhook();
        depguard.switch_webhook_registers();
        depguard.start_webhook().await?;
        cast.consumer.until_checked(&world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await
    })
    .await?;
    world.print(format_args!("with {turns} turns of replicas with registers and without, {tally}"));
    ensure(turns > 0 && tally.changed > 0 && tally.deleted > 0, || format!("{turns} turns, {tally}"))?;
    ensure(tally.dangling == 0, || format!("with {turns} turns, {tally}"))
}

/// Waits until a creation is refused because the webhook doesn't answer at the path of the registers.
async fn until_nobody_answers(world: &World, cast: &Cast) -> Outcome {
    let path = format!("{}?dryRun=All", cast.vm.collection(&cast.consumer.namespace));
    eventually("no path of registers is answered", world.patience(), async || {
        let reply = cast.consumer.api.post(&path, &machine(cast, "asked", "nowhere")).await?;
        // A kube-apiserver leaves the webhook's own text out of an answer 404.
        let not_found = ["could not find the requested resource", "reference registers of another number"];
        let message = reply.message();
        let is_refused = reply.status == 500 && not_found.iter().any(|text| message.contains(text));
        if is_refused { Ok(()) } else { Err(reply.unexpected("no answer")) }
    })
    .await
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
