//! Upkeep of the registers, for as long as the controller runs.

use std::collections::BTreeMap;
use std::time::Duration;

use depguard_core::interlock::{Buckets, Generation, Register, RegisterKey, RegisterName};
use depguard_core::{ControlPlane, api};
use depguard_kcp::{ApiError, Endpoint, RegisterKeySecret, latest, send_if_new};
use futures::StreamExt;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::interlock::inspection::{Inspector, Report, Unread, Write};
use crate::interlock::readiness::{InterlockState, RegisterReadiness};
use crate::leader::write_permit::WritePermit;
use crate::model::condition::stored_conditions;
use crate::model::names::{INTERLOCKED, REFERENCES_CONFIGURATION};
use crate::runtime::apply::{self, own_endpoint};
use crate::runtime::metrics::RegisterFigures;
use crate::runtime::round::{MAX_SILENCE, ReconcileContext, in_time};

/// Maximum length of a page of several registers, in bytes.
const MAX_PAGE: usize = 2 << 20;
/// Time limit for the list of one round.
const LIST: Duration = Duration::from_secs(45);
/// Minimum and maximum pause between two rounds.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

#[derive(Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

/// Task that makes, opens and cleans registers.
pub(crate) struct RegisterUpkeep {
    context: ReconcileContext,
    endpoint: Endpoint,
    secret: RegisterKeySecret,
    buckets: watch::Sender<Buckets>,
    key: Option<RegisterKey>,
    /// Generation in which registers may be made.
    begun: watch::Receiver<Option<Generation>>,
    /// Time for which marks are kept: longer than the lifetime of any request.
    wait: Duration,
    inspector: Inspector,
    /// Beginning of the inspector's clock.
    began: Instant,
    readiness: watch::Sender<RegisterReadiness>,
    /// End of the last round.
    looked: Instant,
    /// Problem that was last logged.
    said: Option<String>,
}

impl RegisterUpkeep {
    /// Makes the task, and the state that conditions use. Marks are kept for `wait`; `believed` is the longest time for
    /// which a webhook goes by rules of which it hears nothing. `has_locks` tells if locks may refuse deletions.
    pub(crate) fn new(
        context: ReconcileContext,
        buckets: Buckets,
        namespace: &str,
        wait: Duration,
        believed: Duration,
        has_locks: bool,
    ) -> (Self, InterlockState) {
        let (readiness, seen) = watch::channel(RegisterReadiness::not_looked());
        let ((buckets, keyed), (begin, begun)) = (watch::channel(buckets), watch::channel(None));
        let upkeep = Self {
            endpoint: own_endpoint(&context.connection),
            secret: RegisterKeySecret::new(own_endpoint(&context.connection), namespace),
            context,
            buckets,
            key: None,
            begun,
            wait,
            inspector: Inspector::new(wait),
            began: Instant::now(),
            readiness,
            looked: Instant::now(),
            said: None,
        };
        let settling = wait.saturating_mul(2).saturating_add(believed);
        (upkeep, InterlockState { buckets: keyed, begun: begin, settling, has_locks, readiness: seen })
    }

    /// Looks at the registers again and again, and forgets all that it saw once the permit to write is gone.
    pub(crate) async fn run(mut self) {
        let pause = (self.wait / 9).clamp(PAUSES.0, PAUSES.1);
        loop {
            let is_over = match self.context.permit.latest() {
                WritePermit::Granted => {
                    let permit = self.context.permit.clone();
                    if permit.while_granted(self.keyed_round()).await.is_some() {
                        self.looked = Instant::now();
                    }
                    false
                }
                WritePermit::StandingBy(_) => true,
                WritePermit::Withheld(_) => false,
            };
            // That nobody knows for a short time if depguard is being uninstalled changes no register.
            if is_over || self.looked.elapsed() >= MAX_SILENCE {
                self.forget();
            }
            tokio::select! {
                changed = self.context.permit.changed() => if !changed { return },
                changed = self.begun.changed() => if changed.is_err() { return },
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

    /// Looks at the key, and at the registers of its generation once they may be made.
    async fn keyed_round(&mut self) {
        let found = match self.secret.read().await {
            Ok(Some(stored)) => Ok(stored.key),
            Ok(None) => self.secret.create(self.key).await,
            Err(why) => Err(why),
        };
        match found {
            Ok(key) if self.key != Some(key) => {
                self.key = Some(key);
                self.forget();
                self.buckets.send_modify(|buckets| *buckets = buckets.keyed(key));
            }
            Ok(_) => {}
            Err(why) if self.key.is_none() => return self.tell(Some(why)),
            // The registers go on, and webhooks that are started now refuse.
            Err(why) => tracing::warn!("{why}"),
        }
        let buckets = *self.buckets.borrow();
        if latest(&mut self.begun) == buckets.generation() {
            self.round(buckets).await;
        }
    }

    /// Lists the registers, writes those that need it, and tells if all are open.
    async fn round(&mut self, buckets: Buckets) {
        let mut writes = Vec::new();
        let mut unseen: BTreeMap<_, _> = buckets.registers().map(|name| (name.to_string(), name)).collect();
        let (mut inspection, began) = (self.inspector.begin(), self.began);
        let collection = RegisterName::collection();
        let listing = self.endpoint.list_texts(&collection, MAX_PAGE, |object| {
            let named = serde_json::from_str(object).map(|Named { metadata: Name { name } }| name);
            // A register of another generation is not looked at.
            if let Some(name) = named.ok().and_then(|name| unseen.remove(&name)) {
                // The time is taken after the read: else a mark that was written meanwhile would seem older than it is.
                writes.extend(inspection.take(name, read(object).map(Some), began.elapsed()));
            }
        });
        // The report knows what was not read in time.
        if let Ok(listed) = timeout(LIST, listing).await {
            let found = listed.map(|()| None).map_err(|error| unread(&error));
            for name in unseen.into_values() {
                writes.extend(inspection.take(name, found.clone(), self.began.elapsed()));
            }
        }
        let report = inspection.end(buckets, self.began.elapsed());
        self.context.metrics.registers(report.figures.clone());
        // Rounds about rules wait for the first report, so that no webhook is asked about references before a fresh
        // installation's registers are open. Each later one is made before anything can break this round off.
        let first = if *self.readiness.borrow() == RegisterReadiness::not_looked() {
            Some(report)
        } else {
            self.report(report);
            None
        };
        let (removed, made) = self.write(writes).await;
        self.context.metrics.marks_removed(removed);
        if !made.is_empty() && self.is_unused().await {
            let opened = made.into_iter().map(|register| Write::Clean(register.opened(), 0));
            self.write(opened.collect()).await;
        }
        if let Some(report) = first {
            self.report(report);
        }
    }

    /// Returns true if nobody asks the webhook about creations, and no rule was ever told to be interlocked or to wait for
    /// that: a fresh installation. Registers that were made before this look miss nothing then that matters: whatever the
    /// webhook allowed before is over long before a rule is interlocked. In kcp nobody sees all configurations at once.
    async fn is_unused(&self) -> bool {
        if self.context.control_plane != ControlPlane::Kubernetes {
            return false;
        }
        let is_told = |rule: &Value| stored_conditions(rule).any(|condition| condition["type"] == INTERLOCKED);
        let rules = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
        let mut told = false;
        let looked = async {
            let configuration = apply::read(&self.endpoint, REFERENCES_CONFIGURATION).await?;
            self.endpoint.list_pages(&rules, |page| told |= page.iter().any(is_told)).await?;
            Ok::<_, ApiError>(configuration.is_none())
        };
        looked.await.is_ok_and(|is_absent| is_absent) && !told
    }

    /// Logs a problem that is new.
    fn tell(&mut self, problem: Option<String>) {
        if self.said != problem {
            match &problem {
                Some(why) => tracing::warn!("references are not interlocked: {why}"),
                None => tracing::info!("all reference registers are open"),
            }
            self.said = problem;
        }
    }

    fn report(&mut self, Report { problem, is_unbroken, full, figures: _ }: Report) {
        self.tell(problem.clone());
        let known = self.readiness.borrow().clone();
        let now = match (problem, known) {
            (Some(why), _) => RegisterReadiness::NotOpen { why },
            (None, RegisterReadiness::Open { since, .. }) if is_unbroken => RegisterReadiness::Open { since, full },
            (None, _) => RegisterReadiness::Open { since: Instant::now(), full },
        };
        send_if_new(&self.readiness, now);
    }

    /// Writes the registers, each by the version that was read. Returns the number of marks that were taken away, and the
    /// registers that were made. A failure concerns one register, and the next round tries again.
    async fn write(&self, writes: Vec<Write>) -> (u64, Vec<Register>) {
        let writes = writes.into_iter().map(|write| async move {
            let (Write::Create(register) | Write::Clean(register, _)) = &write;
            let (name, object) = (register.name(), register.to_value());
            let written = match &write {
                Write::Create(_) => self.endpoint.post_json(&RegisterName::collection(), &object).await,
                Write::Clean(..) => self.endpoint.put_json(&name.path(), &object).await,
            };
            (name, write, written)
        });
        let (mut writes, mut total, mut made) = (in_time(writes), 0_u64, Vec::new());
        while let Some((name, write, written)) = writes.next().await {
            match (written, write) {
                (Ok(object), Write::Create(_)) => made.extend(Register::parse(object.to_string().as_bytes())),
                (Ok(_), Write::Clean(_, removed)) => total = total.saturating_add(removed),
                (Err(error), _) if error.is_conflict() => {
                    tracing::debug!("ReferenceRegister {name} changed meanwhile; the next round looks again");
                }
                (Err(error), _) => {
                    tracing::warn!("could not write ReferenceRegister {name}, trying again: {}", told(&error));
                }
            }
        }
        (total, made)
    }
}

/// Reads a register.
fn read(object: &str) -> Result<Register, Unread> {
    Register::parse(object.as_bytes()).map_err(|error| {
        let advice = "delete it, and depguard creates it again, closed for a while";
        Unread::Answer(format!("can't be read ({error}): {advice}"))
    })
}

/// Returns what a failed list says of each register that it did not show.
fn unread(error: &ApiError) -> Unread {
    // A list that has expired, or has come too often, says nothing.
    let is_answer = error.status().is_some_and(|status| (400..500).contains(&status) && ![410, 429].contains(&status));
    let why = format!("can't be read: {}", told(error));
    if is_answer { Unread::Answer(why) } else { Unread::Silence(why) }
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
