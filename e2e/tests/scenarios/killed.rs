//! Processes of depguard die at each single write of a register, and others take over. Requests that were under way are
//! carried out only after the other side has tried.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use depguard_e2e::{Depguard, Outcome, Stop, World, ensure, eventually, metrics_page};
use depguard_testbed::{Death, Life};
use serde_json::json;
use tokio::time::timeout;

use crate::pairs::{Held, Pairs, Side};
use crate::races::{REGISTERS, delete, register_path, start_prepared};

/// Time for which marks are kept, longer than any request is held.
const KEPT: Duration = Duration::from_secs(3);
const OLDEST: &str = "depguard_controller_register_oldest_mark_seconds ";
const DEATHS: [Death; 2] = [Death::Before, Death::After];
/// Writes of the webhook, by their indexes. The first one of a creation is its intent, the second one the removal of the
/// intent, because the machine is stored or because the VPC is missing. A deletion writes its flag.
const WRITES: [(Side, bool, usize); 5] = [
    (Side::Creation, true, 0),
    (Side::Creation, true, 1),
    (Side::Creation, false, 0),
    (Side::Creation, false, 1),
    (Side::Deletion, true, 0),
];

/// Death of the webhook at one write of one request.
#[derive(Clone, Copy, Debug)]
struct Case {
    side: Side,
    has_target: bool,
    /// Index of the write among those of the request.
    write: usize,
    death: Death,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { side, has_target, write, death } = self;
        let missing = if *has_target { "" } else { "-missing" };
        write!(f, "{side:?}{missing}-{write}-{death:?}")
    }
}

/// depguard with one register, and requests that race.
struct Stage {
    pairs: Pairs,
    depguard: Depguard,
    life: Life,
}

/// Kills the webhook at each write of a creation and of a deletion.
pub(crate) async fn webhook(world: Arc<World>) -> Outcome {
    let mut stage = Stage::set(world, "depguard-webhook").await?;
    let cases = WRITES.iter().flat_map(|(side, has_target, write)| {
        DEATHS.map(|death| Case { side: *side, has_target: *has_target, write: *write, death })
    });
    let mut names = Vec::new();
    for case in cases {
        let name = case.to_string().to_lowercase();
        stage.webhook_dies(case, &name).await.map_err(|stop| Stop::Failed(format!("{case}: {stop}")))?;
        names.push(name);
    }
    stage.pairs.all_pass(&names).await?;
    stage.pairs.end().await
}

/// Kills the controller at each write, of a register that it cleans, creates or opens, while allowed requests are held.
pub(crate) async fn controller(world: Arc<World>) -> Outcome {
    let mut stage = Stage::set(world, "depguard-controller").await?;
    let mut names = Vec::new();
    for death in DEATHS {
        let name = format!("cleaned-{death:?}").to_lowercase();
        let held = Pairs::names(&name);
        stage.cleaner_dies(death, &held).await.map_err(|stop| Stop::Failed(format!("{name}: {stop}")))?;
        names.extend(held);
    }
    let held = Pairs::names("lost");
    stage.register_is_lost(&held).await?;
    names.extend(held);
    stage.pairs.all_pass(&names).await?;
    stage.pairs.end().await
}

impl Stage {
    /// Starts depguard, and follows the writes of registers by one of its accounts.
    async fn set(world: Arc<World>, account: &str) -> Outcome<Stage> {
        let life = world.follow(account, |write| write.path.contains(REGISTERS)).await?;
        let mut depguard = Depguard::prepare(&world).await?;
        depguard.keep_marks_for(KEPT);
        let (cast, depguard) = start_prepared(&world, depguard).await?;
        Ok(Stage { pairs: Pairs::new(world, cast).await?, depguard, life })
    }

    async fn webhook_dies(&mut self, Case { side, has_target, write, death }: Case, name: &str) -> Outcome {
        let Pairs { world, cast, gate } = &self.pairs;
        if has_target {
            cast.consumer.create_target(&cast.vpc, name).await?;
        }
        if write == 0 {
            gate.close(side.operation(), name);
        }
        self.die_at(write, death);
        let first = self.pairs.send(&cast.consumer.api, side, name);
        self.until_dead().await?;
        self.depguard.kill_webhook();
        self.life.revive();
        self.depguard.start_webhook().await?;
        cast.consumer.until_checked(world, &cast.vm, json!({"vpcRef": {"name": "nowhere"}})).await?;
        let second = self.pairs.send(&cast.consumer.api, side.other(), name).await??;
        gate.open();
        let first = first.await??;
        self.pairs.check(name, &[&first, &second]).await?;
        if write == 0 {
            // The next case counts writes.
            self.pairs.until_followed(&[&first, &second]).await?;
        }
        Ok(())
    }

    /// Lets the controller die as it takes an old flag away.
    async fn cleaner_dies(&mut self, death: Death, names: &[String; 2]) -> Outcome {
        let Pairs { world, cast, .. } = &self.pairs;
        let old = format!("{}-old", names[0]);
        cast.consumer.create_target(&cast.vpc, &old).await?;
        delete(world, &cast.consumer.object(&cast.vpc, &old), cast).await?;
        self.until_half_old().await?;
        let held = self.pairs.hold(&cast.consumer.api, names).await?;
        self.die_at(0, death);
        self.next_controller(None).await?;
        self.release(held, names).await
    }

    /// Loses the register, and lets the controller die as it creates and opens another one.
    async fn register_is_lost(&mut self, names: &[String; 2]) -> Outcome {
        let Pairs { world, cast, .. } = &self.pairs;
        let held = self.pairs.hold(&cast.consumer.api, names).await?;
        self.die_at(0, Death::Before);
        world.own_cluster().delete(&register_path(world, 0).await?).await?.ok()?;
        self.next_controller(Some(Death::After)).await?;
        self.next_controller(Some(Death::Before)).await?;
        self.release(held, names).await?;
        ensure(!self.life.is_dead(), || "the register was opened while requests were under way".to_owned())?;
        self.next_controller(Some(Death::After)).await?;
        self.next_controller(None).await
    }

    /// Tries the other side of each held request, then lets both go.
    async fn release(&self, held: Held, names: &[String; 2]) -> Outcome {
        let others = self.pairs.try_others(&held, names).await?;
        self.pairs.gate.open();
        for (((_, request), name), other) in held.into_iter().zip(names).zip(&others) {
            let reply = request.await??;
            ensure(matches!(reply.status, 200 | 201), || format!("{reply:?}"))?;
            self.pairs.check(name, &[&reply, other]).await?;
        }
        Ok(())
    }

    fn die_at(&self, write: usize, death: Death) {
        self.life.die_at(self.life.writes().len() + write, death);
    }

    async fn until_dead(&self) -> Outcome {
        let died = timeout(self.pairs.world.patience(), self.life.died()).await;
        died.map_err(|_| Stop::failed(format!("nobody died; the writes were {:?}", self.life.writes())))
    }

    /// Waits until the controller has died, and starts another one. If `death` is given, that one dies at its first write.
    async fn next_controller(&mut self, death: Option<Death>) -> Outcome {
        self.until_dead().await?;
        self.depguard.kill_controller();
        self.life.revive();
        if let Some(death) = death {
            self.die_at(0, death);
        }
        self.depguard.start_controller().await
    }

    /// Waits until the controller has seen a mark for half of the time for which marks are kept.
    async fn until_half_old(&self) -> Outcome {
        eventually("a mark is older", self.pairs.world.patience(), async || {
            let [_, controller] = self.depguard.metrics();
            let page = metrics_page(controller).await?;
            let age = page.lines().find_map(|line| line.strip_prefix(OLDEST)?.trim().parse::<f32>().ok());
            ensure(age.is_some_and(|age| age > KEPT.as_secs_f32() / 2.0), || format!("its age is {age:?}"))
        })
        .await
    }
}
