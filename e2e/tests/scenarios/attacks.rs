//! Somebody repeats requests that depguard allows and another webhook refuses. They keep nobody out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use depguard_e2e::{Depguard, Outcome, Stop, World, ensure, eventually};
use tokio::time::sleep;

use crate::pairs::{Pairs, Side};
use crate::races::start_prepared;

/// Time for which marks are kept.
const WAIT: Duration = Duration::from_secs(5);
/// Time between two requests of the attack.
const EVERY: Duration = Duration::from_millis(50);

pub(crate) async fn creations(world: Arc<World>) -> Outcome {
    attack(world, Side::Creation).await
}

pub(crate) async fn deletions(world: Arc<World>) -> Outcome {
    attack(world, Side::Deletion).await
}

/// Repeats requests of one side about a VPC until one of the other side has passed.
async fn attack(world: Arc<World>, side: Side) -> Outcome {
    const NAME: &str = "a";
    let mut depguard = Depguard::prepare(&world).await?;
    depguard.keep_marks_for(WAIT);
    let (cast, _depguard) = start_prepared(&world, depguard).await?;
    let pairs = Pairs::new(Arc::clone(&world), cast).await?;
    let consumer = &pairs.cast.consumer;
    consumer.create_target(&pairs.cast.vpc, NAME).await?;
    pairs.gate.refuse(side.operation(), NAME);
    let send = async |side| pairs.send(&consumer.api, side, NAME).await?;
    let is_gates = async || {
        let reply = send(side).await?;
        if reply.message().contains("gate.example.com") { Ok(()) } else { Err(reply.unexpected("the gate's refusal")) }
    };
    eventually("depguard allows what the gate refuses", world.patience(), is_gates).await?;
    // The attack ends only with an error, or with the other side's success.
    let repeat = async {
        while send(side).await.is_ok() {
            sleep(EVERY).await;
        }
    };
    let (begun, mut put_off) = (Instant::now(), 0);
    let pass = eventually("the other side passes", world.patience(), async || {
        let reply = send(side.other()).await?;
        put_off += usize::from(reply.status == 429);
        reply.ok().map(drop)
    });
    tokio::select! {
        passed = pass => passed?,
        () = repeat => return Err(Stop::failed("the API server answers no more")),
    }
    let waits = begun.elapsed().as_secs_f32() / WAIT.as_secs_f32();
    world.print(format_args!(
        "{side:?} every {EVERY:?}: the other side passed after {waits:.1} W and {put_off} answers 429"
    ));
    ensure(put_off > 0, || "the attack kept nobody out for a moment".to_owned())
}
