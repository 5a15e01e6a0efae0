//! Rounds about locks, for as long as the controller runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_kcp::{Features, Reflector, ReflectorOptions, Snapshot, latest};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::leader::write_permit::WritePermit;
use crate::locks::reconciler::{LockRounds, Memory, RoundResult};
use crate::locks::{export, snapshot};
use crate::model::vital_kind::VitalKind;
use crate::runtime::backoff::Retries;
use crate::runtime::client_config::Clients;
use crate::runtime::round::{Change, Changes, ReconcileContext, Rounds};

/// All work about locks.
pub(crate) struct Locks {
    work: LockRounds,
    /// Kept because its watches end with it.
    _reflector: Reflector,
    states: watch::Receiver<Arc<Snapshot>>,
    /// Time at which a failed round is repeated.
    retries: Retries<()>,
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
            work: LockRounds {
                memory: Memory::new(clean_after, context.deference),
                context: ReconcileContext { rules, ..context },
                features,
                vital,
            },
            states: reflector.subscribe(),
            _reflector: reflector,
            retries: Retries::new(),
            said: None,
        }
    }
}

impl Changes for Locks {
    async fn changed(&mut self) -> Change {
        tokio::select! {
            changed = self.states.changed() => changed.into(),
            changed = self.work.context.rules.changed() => changed.into(),
        }
    }
}

impl Rounds for Locks {
    type Input = (Arc<Snapshot>, Arc<Snapshot>, Clients);

    /// Asks for no round before everything is loaded.
    fn prepare(&mut self, permit: WritePermit) -> Option<Self::Input> {
        let context = &mut self.work.context;
        let (state, rules) = (latest(&mut self.states), latest(&mut context.rules));
        let clients = latest(&mut context.clients);
        if let Some(why) = state.unseen().or(rules.unseen()) {
            if self.said.as_deref() != Some(why) {
                tracing::info!("locks are not processed yet: {why}");
                self.said = Some(why.to_owned());
            }
            return None;
        }
        (permit == WritePermit::Granted).then(|| {
            self.said = None;
            (state, rules, clients)
        })
    }

    async fn round(&mut self, (state, rules, clients): Self::Input) -> Option<Instant> {
        let RoundResult { failed, again } = self.work.round(&state, &rules, &clients).await;
        let now = Instant::now();
        match failed {
            true => self.retries.failed((), 0, now),
            false => self.retries.done(&()),
        }
        self.retries.next().into_iter().chain(again.map(|again| now + again)).min()
    }
}
