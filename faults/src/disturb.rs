//! Has things go wrong, and right again.

use std::time::Duration;

use depguard_testbed::{Fault as Injected, FaultId, When};

use crate::Result;
use crate::kinds::{COMPUTE, OTHER_REF, Pair, REF};
use crate::plan::{Fault, Round};
use crate::random::Random;
use crate::scene::Scene;

/// What is wrong at the moment.
pub(crate) struct Disturbance {
    fault: Fault,
    ids: Vec<FaultId>,
    changed: Option<Pair>,
}

/// Which requests of depguard's are hit. It alone GETs here: who deletes does not.
fn aim(random: &mut Random) -> When {
    let get = When::always().method("GET");
    match random.below(4) {
        0 => get.path("/apibindings"),
        1 => get,
        _ => dependents(),
    }
}

/// The lists of dependents, and no watch.
fn dependents() -> When {
    When::always().method("GET").path(COMPUTE)
}

fn watches() -> When {
    When::always().path("watch=true")
}

impl Disturbance {
    /// Begins it.
    pub(crate) async fn begin(scene: &mut Scene, round: &Round) -> Result<Self> {
        let mut random = Random::new(round.dice);
        let mut disturbance = Self { fault: round.fault, ids: Vec::new(), changed: None };
        let times = random.within(3, 60) as u64;
        let mut inject = |fault, when| disturbance.ids.push(scene.testbed.faults().inject(fault, when));
        match round.fault {
            Fault::Latency => {
                let late = random.millis(50, 600);
                inject(Injected::Latency(late), aim(&mut random));
            }
            Fault::TooManyRequests => inject(Injected::TooManyRequests { retry_after: 1 }, aim(&mut random)),
            Fault::InternalError => inject(Injected::InternalError, aim(&mut random)),
            Fault::Cut => inject(Injected::Cut, aim(&mut random)),
            Fault::CutMidPage => inject(Injected::Cut, dependents().path("continue=")),
            Fault::ExpiredContinue => inject(Injected::ExpiredContinue, dependents().times(times)),
            Fault::NotFound => inject(Injected::NotFound, dependents()),
            Fault::BareList => inject(Injected::BareList, dependents()),
            Fault::WatchDropped => inject(Injected::WatchDropped, watches()),
            Fault::WatchExpired => inject(Injected::WatchExpired, watches()),
            Fault::WatchSilent | Fault::RulesChangedUnheard => inject(Injected::WatchSilent, watches()),
            Fault::EndpointsRemoved => inject(Injected::NoEndpoints, When::always()),
            Fault::EndpointsUnreadable => {
                let slices = || When::always().path("/apiexportendpointslices");
                inject(Injected::InternalError, slices());
                inject(Injected::WatchDropped, slices());
                scene.kill_webhook();
                scene.start_webhook().await?;
            }
            Fault::ClockJump => {
                inject(Injected::ExpiredCertificate, When::always());
                // Connections that were made before would hide it.
                inject(Injected::Cut, When::always().method("GET").times(times));
            }
            Fault::WebhookKilled => scene.kill_webhook(),
            Fault::ControllerKilled => scene.stop_controller().await,
            Fault::TwoControllers => scene.start_controller().await?,
            Fault::Calm | Fault::RulesChanged => {}
        }
        if round.fault.changes_rules() {
            let pair = Pair::ALL[random.below(Pair::ALL.len())];
            scene.change_rule(pair, OTHER_REF).await?;
            disturbance.changed = Some(pair);
        }
        Ok(disturbance)
    }

    /// Ends it, and says how many requests and watches it hit. What follows from it may take a moment more to be over.
    pub(crate) async fn end(self, scene: &mut Scene) -> Result<u64> {
        let mut hits = 0;
        for id in self.ids {
            hits += scene.testbed.faults().hits(id).unwrap_or_default();
            scene.testbed.faults().clear(id);
        }
        match self.fault {
            Fault::WebhookKilled => scene.start_webhook().await?,
            Fault::ControllerKilled => scene.start_controller().await?,
            // The one that came takes over.
            Fault::TwoControllers => scene.stop_controller().await,
            _ => {}
        }
        if let Some(pair) = self.changed {
            scene.change_rule(pair, REF).await?;
        }
        Ok(hits)
    }
}

/// How long after a change of rules, or of whether there are any, the webhook has to know of it.
pub(crate) fn lag(fault: Fault) -> Duration {
    match fault {
        Fault::RulesChangedUnheard => UNHEARD,
        _ => LAG,
    }
}

/// While all is well, and while watches break that can be begun anew.
pub(crate) const LAG: Duration = Duration::from_secs(5);
/// While watches say nothing.
pub(crate) const UNHEARD: Duration = Duration::from_secs(45);
