//! Upkeep of the registers, for as long as the controller runs.

use std::time::Duration;

use depguard_core::interlock::{Buckets, Register, RegisterName};
use depguard_kcp::{ApiError, Endpoint, send_if_new};
use futures::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::interlock::inspection::{Inspector, Report, Write};
use crate::interlock::readiness::{InterlockState, RegisterReadiness};
use crate::leader::write_permit::WritePermit;
use crate::runtime::apply::own_endpoint;
use crate::runtime::metrics::RegisterFigures;
use crate::runtime::round::{ReconcileContext, in_time};

/// Maximum number of registers that are read at once.
const MAX_CONCURRENT_READS: usize = 8;
/// Time limit for the reads of one round.
const READS: Duration = Duration::from_secs(45);
/// Minimum and maximum pause between two rounds.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Task that makes, opens and cleans registers.
pub(crate) struct RegisterUpkeep {
    context: ReconcileContext,
    endpoint: Endpoint,
    buckets: Buckets,
    /// Time for which marks are kept: longer than the lifetime of any request.
    wait: Duration,
    inspector: Inspector,
    /// Beginning of the inspector's clock.
    began: Instant,
    readiness: watch::Sender<RegisterReadiness>,
    /// Problem that was last logged.
    said: Option<String>,
}

impl RegisterUpkeep {
    /// Makes the task, and the state that conditions use. Marks are kept for `wait`; `believed` is the longest time for
    /// which a webhook goes by rules of which it hears nothing.
    pub(crate) fn new(
        context: ReconcileContext,
        buckets: Buckets,
        wait: Duration,
        believed: Duration,
    ) -> (Self, InterlockState) {
        let (readiness, seen) = watch::channel(RegisterReadiness::not_looked());
        let upkeep = Self {
            endpoint: own_endpoint(&context.connection),
            context,
            buckets,
            wait,
            inspector: Inspector::new(wait),
            began: Instant::now(),
            readiness,
            said: None,
        };
        let settling = wait.saturating_mul(2).saturating_add(believed);
        (upkeep, InterlockState { buckets, settling, readiness: seen })
    }

    /// Looks at the registers again and again, and forgets all that it saw once the permit to write is gone.
    pub(crate) async fn run(mut self) {
        let pause = (self.wait / 9).clamp(PAUSES.0, PAUSES.1);
        loop {
            let is_broken_off = match self.context.permit.latest() {
                WritePermit::Granted => {
                    let permit = self.context.permit.clone();
                    permit.while_granted(self.round()).await.is_none()
                }
                WritePermit::StandingBy(_) | WritePermit::Withheld(_) => true,
            };
            if is_broken_off {
                self.forget();
            }
            tokio::select! {
                changed = self.context.permit.changed() => if !changed { return },
                () = sleep(pause) => {}
            }
        }
    }

    /// Forgets the ages of all marks, and that the registers were open.
    fn forget(&mut self) {
        self.inspector = Inspector::new(self.wait);
        self.context.metrics.registers(RegisterFigures::default());
        send_if_new(&self.readiness, RegisterReadiness::not_looked());
    }

    /// Reads each register, writes those that need it, and tells if all are open.
    async fn round(&mut self) {
        let mut writes = Vec::new();
        let reads = self.buckets.registers().map(|name| {
            let endpoint = &self.endpoint;
            async move { (name, look(endpoint, name).await) }
        });
        let mut reads = Box::pin(stream::iter(reads).buffer_unordered(MAX_CONCURRENT_READS).take_until(sleep(READS)));
        let mut inspection = self.inspector.begin();
        while let Some((name, found)) = reads.next().await {
            // The time is taken after the read: else a mark that was written meanwhile would seem older than it is.
            writes.extend(inspection.take(name, found, self.began.elapsed()));
        }
        drop(reads);
        let report = inspection.end(self.buckets, self.began.elapsed());
        self.context.metrics.registers(report.figures);
        self.report(report);
        let removed = self.write(writes).await;
        self.context.metrics.marks_removed(removed);
    }

    fn report(&mut self, Report { problem, is_unbroken, figures: _ }: Report) {
        if self.said != problem {
            match &problem {
                Some(why) => tracing::warn!("references are not interlocked: {why}"),
                None => tracing::info!("all reference registers are open"),
            }
            self.said.clone_from(&problem);
        }
        let known = self.readiness.borrow().clone();
        let now = match (problem, known) {
            (Some(why), _) => RegisterReadiness::NotOpen { why },
            (None, RegisterReadiness::Open { since }) if is_unbroken => RegisterReadiness::Open { since },
            (None, _) => RegisterReadiness::Open { since: Instant::now() },
        };
        send_if_new(&self.readiness, now);
    }

    /// Writes the registers, each by the version that was read, and returns the number of marks that were taken away. A
    /// failure concerns one register, and the next round tries again.
    async fn write(&self, writes: Vec<Write>) -> u64 {
        let writes = writes.into_iter().map(|write| async move {
            let (Write::Create(register) | Write::Clean(register, _)) = &write;
            let (name, object) = (register.name(), register.to_value());
            let written = match &write {
                Write::Create(_) => self.endpoint.post_json(&RegisterName::collection(), &object).await,
                Write::Clean(..) => self.endpoint.put_json(&name.path(), &object).await,
            };
            let removed = if let Write::Clean(_, removed) = write { removed } else { 0 };
            (name, removed, written)
        });
        let (mut writes, mut total) = (in_time(writes), 0_u64);
        while let Some((name, removed, written)) = writes.next().await {
            match written {
                Ok(_) => total = total.saturating_add(removed),
                Err(error) if error.is_conflict() => {
                    tracing::debug!("ReferenceRegister {name} changed meanwhile; the next round looks again");
                }
                Err(error) => {
                    tracing::warn!("could not write ReferenceRegister {name}, trying again: {}", told(&error));
                }
            }
        }
        total
    }
}

/// Reads a register; `None` if it doesn't exist.
async fn look(endpoint: &Endpoint, name: RegisterName) -> Result<Option<Register>, String> {
    match endpoint.get_json(&name.path()).await {
        Ok(found) => Register::parse(found.to_string().as_bytes()).map(Some).map_err(|error| {
            format!("can't be read ({error}): delete it, and depguard creates it again, closed for a while")
        }),
        Err(error) if error.is_missing(&name.to_string()) => Ok(None),
        Err(error) => Err(format!("can't be read: {}", told(&error))),
    }
}

/// Returns the error, and the file that mends it.
fn told(error: &ApiError) -> String {
    let advice = match error.status() {
        Some(404) => "; apply interlock-crd.yaml, as `depguard-controller manifests --reference-registers` prints it",
        Some(403) => "; apply the rights that `depguard-controller manifests --reference-registers` prints",
        _ => "",
    };
    format!("{error}{advice}")
}
