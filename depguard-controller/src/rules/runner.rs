//! Rounds about rules, for as long as the controller runs.

use depguard_kcp::{Health, latest};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::interlock::InterlockState;
use crate::leader::write_permit::WritePermit;
use crate::rules::reconciler::Reconciler;
use crate::rules::snapshot::is_leaving;
use crate::runtime::round::settled_unless;

/// All work about rules.
pub(crate) struct RuleRunner {
    pub(crate) reconciler: Reconciler,
    /// Health of the controller: it can do its work, or not.
    pub(crate) ready: watch::Sender<Health>,
}

impl RuleRunner {
    /// Carries out a round whenever something changed, a failure is due again, or the time has come. Carries out none
    /// while a watched resource is missing or not followed: another controller that sees a newer rule may have installed
    /// what this one would take away. Breaks a round off once the permit to write is gone.
    pub(crate) async fn run(mut self) {
        loop {
            let context = &mut self.reconciler.context;
            let state = latest(&mut context.rules);
            let clients = latest(&mut context.clients);
            let permit = context.permit.latest();
            self.reconciler.context.metrics.leads(permit == WritePermit::Granted);
            let mut retry = None;
            match (state.unseen(), permit) {
                (Some(why), _) => _ = self.ready.send_replace(Health::NotReady(why.to_owned())),
                (None, WritePermit::Granted) if self.reconciler.lacks_key() => {
                    let why = "the key of the reference registers is not known yet".to_owned();
                    self.ready.send_replace(Health::NotReady(why));
                }
                (None, WritePermit::Granted) => {
                    let permit = self.reconciler.context.permit.clone();
                    let done = permit.while_granted(self.reconciler.round(&state, clients)).await;
                    retry = self.reconciler.next_retry();
                    match done {
                        Some(()) => _ = self.ready.send_replace(Health::Ready),
                        None => {
                            tracing::warn!("the controller may not write any more; it did not finish a round");
                        }
                    }
                }
                (None, WritePermit::StandingBy(why)) => {
                    tracing::debug!("standing by: {why}");
                    self.reconciler.stand_by(true);
                    self.ready.send_replace(Health::Ready);
                }
                (None, WritePermit::Withheld(why)) => {
                    tracing::warn!("the controller writes nothing: {why}");
                    self.reconciler.stand_by(false);
                    self.ready.send_replace(Health::NotReady(why));
                }
            }
            drop(state);
            if !self.wait(retry).await {
                return;
            }
        }
    }

    /// Waits for a reason for another round. Returns false if there can't be one any more. `retry` is the time at which
    /// a failure of the last round is due. Without a round there is none: nobody would try a failure that is overdue, and
    /// the wait would end at once, again and again.
    async fn wait(&mut self, retry: Option<Instant>) -> bool {
        let context = &mut self.reconciler.context;
        let resync = Instant::now() + context.resync;
        tokio::select! {
            changed = settled_unless(&mut context.rules, |state| is_leaving(context.export_name.as_str(), state)) => changed,
            changed = context.clients.changed() => changed.is_ok(),
            changed = context.permit.changed() => changed,
            () = sleep_until(retry.map_or(resync, |retry| retry.min(resync))) => true,
            () = self.reconciler.probe_handle.changed() => true,
            changed = self.reconciler.counts.changed() => changed.is_ok(),
            () = registers_changed(self.reconciler.interlock.as_mut()) => true,
        }
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
