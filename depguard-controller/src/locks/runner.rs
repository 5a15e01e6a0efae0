//! Rounds about locks, for as long as the controller runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_kcp::{Features, Reflector, ReflectorOptions, Snapshot, latest};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::leader::write_permit::WritePermit;
use crate::locks::reconciler::{Memory, RoundResult, Rounds};
use crate::locks::{export, snapshot};
use crate::model::vital_kind::VitalKind;
use crate::runtime::round::{ReconcileContext, settled};

/// Minimum and maximum pause before a failed round is repeated.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// All work about locks.
pub(crate) struct Locks {
    rounds: Rounds,
    /// Kept because its watches end with it.
    _reflector: Reflector,
    states: watch::Receiver<Arc<Snapshot>>,
    pause: Duration,
    /// Last logged reason for which no round is carried out.
    said: Option<String>,
}

impl Locks {
    /// Begins to watch, in kcp through the APIExport of locks. `clean_after` is the time for which no lock must
    /// have asked for an entry of a table before the entry goes.
    pub(crate) fn new(
        context: ReconcileContext,
        features: Features,
        vital: BTreeSet<VitalKind>,
        clean_after: Duration,
    ) -> Self {
        let watched = snapshot::watched(context.control_plane, &features);
        let options = ReflectorOptions {
            control_plane: context.control_plane,
            export_name: export(),
            watched,
            allowance: context.allowance,
        };
        let (reflector, _) = Reflector::start(context.connection.clone(), options);
        // In a plain cluster no reflector of rules matters for locks.
        let rules = if context.control_plane == ControlPlane::Kcp { context.rules } else { reflector.subscribe() };
        Self {
            rounds: Rounds {
                memory: Memory::new(clean_after, context.deference),
                context: ReconcileContext { rules, ..context },
                features,
                vital,
            },
            states: reflector.subscribe(),
            _reflector: reflector,
            pause: PAUSES.0,
            said: None,
        }
    }

    /// Carries out a round whenever something changed, a failure is due again, or the time has come. Does none before
    /// everything is loaded, and none without a permit to write.
    pub(crate) async fn run(mut self) {
        loop {
            let context = &mut self.rounds.context;
            let (state, rules) = (latest(&mut self.states), latest(&mut context.rules));
            let clients = latest(&mut context.clients);
            let may_write = context.permit.latest() == WritePermit::Granted;
            let unseen = state.unseen().or(rules.unseen());
            let mut due = context.resync;
            match unseen {
                Some(why) if self.said.as_deref() != Some(why) => {
                    tracing::info!("locks are not processed yet: {why}");
                    self.said = Some(why.to_owned());
                }
                Some(_) => {}
                None if may_write => {
                    self.said = None;
                    let permit = context.permit.clone();
                    if let Some(ended) = permit.while_granted(self.rounds.round(&state, &rules, &clients)).await {
                        due = self.next(&ended);
                    }
                }
                None => {}
            }
            drop((state, rules));
            if !self.wait(Instant::now() + due).await {
                return;
            }
        }
    }

    /// Returns the time to wait after a round.
    fn next(&mut self, ended: &RoundResult) -> Duration {
        let resync = self.rounds.context.resync;
        let again = ended.again.map_or(resync, |again| again.min(resync));
        if !ended.failed {
            self.pause = PAUSES.0;
            return again;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSES.1);
        again.min(pause)
    }

    /// Waits for a reason for another round. Returns false if there can't be one any more.
    async fn wait(&mut self, due: Instant) -> bool {
        let context = &mut self.rounds.context;
        tokio::select! {
            changed = settled(&mut self.states) => changed,
            changed = settled(&mut context.rules) => changed,
            changed = context.clients.changed() => changed.is_ok(),
            changed = context.permit.changed() => changed,
            () = sleep_until(due) => true,
        }
    }
}
