//! Rounds about rules, for as long as the controller runs.

use std::sync::Arc;

use depguard_kcp::{Health, Snapshot, latest};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::interlock::InterlockState;
use crate::leader::write_permit::WritePermit;
use crate::rules::reconciler::Reconciler;
use crate::rules::snapshot::is_leaving;
use crate::runtime::client_config::Clients;
use crate::runtime::round::{Change, Changes, Rounds};

/// All work about rules.
pub(crate) struct RuleRunner {
    pub(crate) reconciler: Reconciler,
    /// Health of the controller: it can do its work, or not.
    pub(crate) ready: watch::Sender<Health>,
}

impl Changes for RuleRunner {
    async fn changed(&mut self) -> Change {
        let Reconciler { context, probe_handle, counts, interlock, .. } = &mut self.reconciler;
        tokio::select! {
            changed = context.rules.changed() => {
                let state = latest(&mut context.rules);
                match changed {
                    Ok(()) if is_leaving(context.export_name.as_str(), &state) => Change::Urgent,
                    changed => changed.into(),
                }
            }
            () = probe_handle.changed() => Change::Usual,
            changed = counts.changed() => changed.into(),
            () = registers_changed(interlock.as_mut()) => Change::Usual,
        }
    }
}

impl Rounds for RuleRunner {
    type Input = (Arc<Snapshot>, Clients);

    /// Asks for no round while a watched resource is missing or not followed: another controller that sees a newer rule
    /// may have installed what this one would take away.
    fn prepare(&mut self, permit: WritePermit) -> Option<Self::Input> {
        let context = &mut self.reconciler.context;
        let (state, clients) = (latest(&mut context.rules), latest(&mut context.clients));
        context.metrics.leads(permit == WritePermit::Granted);
        let health = match (state.unseen(), permit) {
            (Some(why), _) => Health::NotReady(why.to_owned()),
            (None, WritePermit::Granted) if self.reconciler.lacks_key() => {
                Health::NotReady("the key of the reference registers is not known yet".to_owned())
            }
            (None, WritePermit::Granted) => return Some((state, clients)),
            (None, WritePermit::StandingBy(why)) => {
                tracing::debug!("standing by: {why}");
                self.reconciler.stand_by(true);
                Health::Ready
            }
            (None, WritePermit::Withheld(why)) => {
                tracing::warn!("the controller writes nothing: {why}");
                self.reconciler.stand_by(false);
                Health::NotReady(why)
            }
        };
        self.ready.send_replace(health);
        None
    }

    async fn round(&mut self, (state, clients): Self::Input) -> Option<Instant> {
        self.reconciler.round(&state, clients).await;
        self.ready.send_replace(Health::Ready);
        self.reconciler.next_retry()
    }
}

/// Waits until the readiness of the reference registers changes; forever if there are none.
async fn registers_changed(interlock: Option<&mut InterlockState>) {
    let is_changed = match interlock {
        Some(state) => tokio::select! {
            changed = state.readiness.changed() => changed.is_ok(),
            changed = state.buckets.changed() => changed.is_ok(),
        },
        None => false,
    };
    // Otherwise the task that looks at them is gone, and soon the controller is, too.
    if !is_changed {
        std::future::pending::<()>().await;
    }
}
