//! Begins and ends faults.

use std::time::Duration;

use depguard_testbed::{Fault as Injected, FaultId, When};

use crate::Result;
use crate::kinds::{COMPUTE, OTHER_REF, Pair, REF};
use crate::plan::{Fault, Round};
use crate::random::Random;
use crate::scene::Scene;

/// Fault that is active at the moment.
pub(crate) struct Disturbance {
    fault: Fault,
    ids: Vec<FaultId>,
    changed: Option<Pair>,
}

/// Chooses which of depguard's requests the fault hits. Only depguard sends GETs here; the client that deletes does
/// not.
fn aim(random: &mut Random) -> When {
    let get = When::always().method("GET");
    match random.below(4) {
        0 => get.path("/apibindings"),
        1 => get,
        _ => dependents(),
    }
}

/// Selects the lists of dependents, and no watches.
fn dependents() -> When {
    When::always().method("GET").path(COMPUTE)
}

fn watches() -> When {
    When::always().path("watch=true")
}

impl Disturbance {
    /// Begins the round's fault.
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
                // Connections that were opened before would hide the expired certificate.
                inject(Injected::Cut, When::always().method("GET").times(times));
            }
            Fault::WebhookKilled => scene.kill_webhook(),
            Fault::ControllerKilled => scene.stop_controller().await,
            Fault::TwoControllers => scene.start_controller().await?,
            Fault::Calm | Fault::RulesChanged => {}
        }
        if round.fault.hits_watches() {
            disturbance.until_hit(scene).await?;
        }
        if round.fault.changes_rules() {
            let pair = Pair::ALL[random.below(Pair::ALL.len())];
            scene.change_rule(pair, OTHER_REF).await?;
            disturbance.changed = Some(pair);
        }
        Ok(disturbance)
    }

    /// Waits until the fault hits. No watch is open while the watchers pause after a former fault.
    async fn until_hit(&self, scene: &Scene) -> Result {
        let hit = async {
            while self.ids.iter().any(|id| scene.testbed.faults().hits(*id) == Some(0)) {
                tokio::time::sleep(POLL).await;
            }
        };
        let timely = tokio::time::timeout(MAX_UNWATCHED, hit).await;
        timely.map_err(|_| format!("no watch was opened in {} s", MAX_UNWATCHED.as_secs()).into())
    }

    /// Ends the fault, and returns the number of requests and watches that it hit. Its consequences may last a moment
    /// longer.
    pub(crate) async fn end(self, scene: &mut Scene) -> Result<u64> {
        let mut hits = 0;
        for id in self.ids {
            hits += scene.testbed.faults().hits(id).unwrap_or_default();
            scene.testbed.faults().clear(id);
        }
        match self.fault {
            Fault::WebhookKilled => scene.start_webhook().await?,
            Fault::ControllerKilled => scene.start_controller().await?,
            // The second controller takes over.
            Fault::TwoControllers => scene.stop_controller().await,
            _ => {}
        }
        if let Some(pair) = self.changed {
            scene.change_rule(pair, REF).await?;
        }
        Ok(hits)
    }
}

const POLL: Duration = Duration::from_millis(10);
/// Maximum of the time without any open watch: longer than the pauses of watchers between two attempts.
const MAX_UNWATCHED: Duration = Duration::from_secs(90);

/// Returns the time in which the webhook must notice a change of the rules, or of their presence.
pub(crate) fn lag(fault: Fault) -> Duration {
    match fault {
        Fault::RulesChangedUnheard => UNHEARD,
        _ => LAG,
    }
}

/// Time while all is well, or while watches break that can be begun anew.
pub(crate) const LAG: Duration = Duration::from_secs(5);
/// Time while watches are silent.
pub(crate) const UNHEARD: Duration = Duration::from_secs(45);
