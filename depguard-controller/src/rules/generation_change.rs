//! Change of the generation of reference registers, which the paths in the webhook configurations name.
//!
//! Marks of one generation are not seen in another. So a change takes these steps, each once the one before is done:
//!
//! 1. No rule's status says any more that references are interlocked.
//! 2. All registers are deleted. A review at a former path then finds none, and refuses.
//! 3. The configurations change, and the registers of the new generation are made, closed for as long as a request lives
//!    that was allowed by a former one.
//!
//! A register of another generation shows that a change is due: only depguard writes registers. A configuration with
//! another path shows nothing, because in kcp each tenant may write one.

use std::collections::BTreeSet;
use std::time::Duration;

use depguard_kcp::{ApiError, Endpoint};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use crate::interlock::{InterlockState, StoredRegister};
use crate::model::condition::stored_conditions;
use crate::model::names::INTERLOCKED;
use crate::model::webhook_configuration::{self, names_generation};
use crate::rules::plan::{ConfigurationPlan, Plan, PlanInput};
use crate::runtime::round::MAX_CONCURRENT_WRITES;

/// Pause before a step that failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Change of the generation in the course of rounds.
#[derive(Debug, Default)]
pub(crate) struct GenerationChange {
    /// Time at which a failed step is to be tried again.
    retry: Option<Instant>,
}

impl GenerationChange {
    /// Takes the steps that are due before configurations may change. `Err` holds the reason why they must stay for now.
    pub(crate) async fn prepare(
        &mut self,
        input: &PlanInput<'_>,
        plan: &Plan,
        interlock: Option<&InterlockState>,
        registers: &Endpoint,
    ) -> Result<(), String> {
        self.retry = None;
        let generation = input.clients.generation;
        let has_begun = |state: &InterlockState| *state.begun.borrow() == generation;
        if interlock.is_some_and(has_begun) {
            return Ok(());
        }
        let stored = match interlock {
            Some(_) => StoredRegister::list(registers).await.map_err(|error| self.failed("listed", &error))?,
            None => Vec::new(),
        };
        let is_due = match interlock {
            Some(state) => {
                let own: BTreeSet<_> = state.buckets.borrow().registers().map(|name| name.to_string()).collect();
                stored.iter().any(|register| !own.contains(&register.name))
            }
            // Without registers, all that changes is the paths.
            None => plan.configurations.iter().any(|(key, what)| {
                let existing =
                    input.configurations.get(key).filter(|existing| webhook_configuration::is_ours(existing));
                let is_left = matches!(what, ConfigurationPlan::Do { desired: Some(_), .. });
                is_left && existing.is_some_and(|existing| !names_generation(existing, generation))
            }),
        };
        if is_due && input.rules.iter().any(|(rule, _)| is_interlocked(&rule.read())) {
            return Err("the rules' statuses must say first that references are not interlocked".to_owned());
        }
        let Some(state) = interlock else { return Ok(()) };
        if is_due {
            let deletions = stored.into_iter().map(|register| async move { register.delete(registers).await });
            let deletions = stream::iter(deletions).buffer_unordered(MAX_CONCURRENT_WRITES);
            deletions.try_collect::<()>().await.map_err(|error| self.failed("deleted", &error))?;
        }
        state.begun.send_replace(generation);
        Ok(())
    }

    fn failed(&mut self, done: &str, error: &ApiError) -> String {
        self.retry = Some(Instant::now() + PAUSE);
        format!("the former reference registers could not be {done}: {error}")
    }

    /// Returns the time at which a failed step is to be tried again.
    pub(crate) fn retry(&self) -> Option<Instant> {
        self.retry
    }
}

/// Returns true if the rule's status says that its references are interlocked.
fn is_interlocked(rule: &Value) -> bool {
    stored_conditions(rule).any(|condition| condition["type"] == INTERLOCKED && condition["status"] == "True")
}
