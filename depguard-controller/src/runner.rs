//! Rounds about rules, for as long as the controller runs.

use depguard_kcp::Health;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::gate::Permit;
use crate::observe::is_leaving;
use crate::reconcile::Reconciler;
use crate::rounds::{settled_unless, while_granted};

/// Everything about rules.
pub(crate) struct Rules {
    pub(crate) reconciler: Reconciler,
    /// Whether the controller can do its work.
    pub(crate) ready: watch::Sender<Health>,
}

impl Rules {
    /// A round whenever something changed, failed things are due, or the time has come. Never before everything that
    /// decides what is installed has been loaded, nor while it can't be followed: another controller that sees a newer
    /// rule may have installed what this one would take away. Nor while another one is to write, or nobody: a round that
    /// is under way then is broken off.
    pub(crate) async fn run(mut self) {
        loop {
            let basis = &mut self.reconciler.basis;
            let state = basis.rules.borrow_and_update().clone();
            let clients = basis.clients.borrow_and_update().clone();
            let permit = basis.permit.borrow_and_update().clone();
            self.reconciler.basis.metrics.leads(permit == Permit::Granted);
            match (state.unseen(), permit) {
                (Some(why), _) => _ = self.ready.send_replace(Health::NotReady(why.to_owned())),
                (None, Permit::Granted) => {
                    let permit = self.reconciler.basis.permit.clone();
                    match while_granted(permit, self.reconciler.round(&state, clients)).await {
                        Some(()) => _ = self.ready.send_replace(Health::Ready),
                        None => tracing::warn!("not to write any more: what was under way is broken off"),
                    }
                }
                (None, Permit::StandingBy(why)) => {
                    tracing::debug!("standing by: {why}");
                    self.reconciler.probing.rest();
                    self.ready.send_replace(Health::Ready);
                }
                (None, Permit::Withheld(why)) => {
                    tracing::warn!("nothing is written: {why}");
                    self.reconciler.probing.rest();
                    self.ready.send_replace(Health::NotReady(why));
                }
            }
            drop(state);
            if !self.wait().await {
                return;
            }
        }
    }

    /// Waits for a reason for another round. `false`: there can't be one any more.
    async fn wait(&mut self) -> bool {
        let due = self.reconciler.next_retry();
        let basis = &mut self.reconciler.basis;
        let resync = Instant::now() + basis.resync;
        tokio::select! {
            changed = settled_unless(&mut basis.rules, |state| is_leaving(basis.export_name.as_str(), state)) => changed,
            changed = basis.clients.changed() => changed.is_ok(),
            changed = basis.permit.changed() => changed.is_ok(),
            () = sleep_until(due.map_or(resync, |retry| retry.min(resync))) => true,
            () = self.reconciler.probing.news() => true,
        }
    }
}
