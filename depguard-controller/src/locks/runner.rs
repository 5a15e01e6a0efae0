//! Rounds, for as long as the controller runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::Home;
use depguard_kcp::{Features, Mirror, MirrorOptions, MirrorState};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::round::{Ended, Memory, Rounds};
use super::{VitalKind, export, world};
use crate::gate::Permit;
use crate::rounds::{Basis, settled, while_granted};

/// The shortest and the longest pause before what failed is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Everything about locks.
pub(crate) struct Locks {
    rounds: Rounds,
    /// Its watches end with it.
    _mirror: Mirror,
    states: watch::Receiver<Arc<MirrorState>>,
    pause: Duration,
    /// What was last said to keep rounds from being carried out.
    said: Option<String>,
}

impl Locks {
    /// Begins to watch, in home kcp through the APIExport of locks. For `clean_after` a lock must have been missed before
    /// its entry goes.
    pub(crate) fn new(basis: Basis, features: Features, vital: BTreeSet<VitalKind>, clean_after: Duration) -> Self {
        let watched = world::watched(basis.home, &features);
        let options = MirrorOptions { home: basis.home, export_name: export(), watched, allowance: basis.allowance };
        let (mirror, _) = Mirror::start(basis.connection.clone(), options);
        // In a plain cluster nothing of rules bears on locks.
        let rules = if basis.home == Home::Kcp { basis.rules } else { mirror.subscribe() };
        Self {
            rounds: Rounds {
                memory: Memory::new(clean_after, basis.deference),
                basis: Basis { rules, ..basis },
                features,
                vital,
            },
            states: mirror.subscribe(),
            _mirror: mirror,
            pause: PAUSES.0,
            said: None,
        }
    }

    /// A round whenever something changed, failed things are due, or the time has come; none before everything is loaded,
    /// nor while another one is to write, or nobody.
    pub(crate) async fn run(mut self) {
        loop {
            let basis = &mut self.rounds.basis;
            let (state, rules) = (self.states.borrow_and_update().clone(), basis.rules.borrow_and_update().clone());
            let clients = basis.clients.borrow_and_update().clone();
            let may_write = *basis.permit.borrow_and_update() == Permit::Granted;
            let unseen = state.unseen().or(rules.unseen());
            let mut due = basis.resync;
            match unseen {
                Some(why) if self.said.as_deref() != Some(why) => {
                    tracing::info!("nothing is done about locks yet: {why}");
                    self.said = Some(why.to_owned());
                }
                Some(_) => {}
                None if may_write => {
                    self.said = None;
                    let permit = basis.permit.clone();
                    if let Some(ended) = while_granted(permit, self.rounds.round(&state, &rules, &clients)).await {
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

    /// How long to wait after a round.
    fn next(&mut self, ended: &Ended) -> Duration {
        let resync = self.rounds.basis.resync;
        let again = ended.again.map_or(resync, |again| again.min(resync));
        if !ended.failed {
            self.pause = PAUSES.0;
            return again;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSES.1);
        again.min(pause)
    }

    /// Waits for a reason for another round. `false`: there can't be one any more.
    async fn wait(&mut self, due: Instant) -> bool {
        let basis = &mut self.rounds.basis;
        tokio::select! {
            changed = settled(&mut self.states) => changed,
            changed = settled(&mut basis.rules) => changed,
            changed = basis.clients.changed() => changed.is_ok(),
            changed = basis.permit.changed() => changed.is_ok(),
            () = sleep_until(due) => true,
        }
    }
}
