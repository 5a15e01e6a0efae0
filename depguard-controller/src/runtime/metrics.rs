//! Metrics of the controller, for a monitoring system.
//!
//! Labels are words of closed sets: a condition's status and reason are the controller's own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use depguard_kcp::{Gauges, Reload, Reloads, Series};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::model::condition::Figures;
use crate::model::install_outcome::Outcome;
use crate::model::names::{OWNING, RELEASING, REMOVING};

type Counts = Family<[(&'static str, &'static str); 1], Counter>;

/// Buckets from a round without any work to one that takes as long as it may.
const DURATIONS: [f64; 10] = [0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 120.0];

/// Phases of a GlobalOwner.
const PHASES: [&str; 3] = [OWNING, REMOVING, RELEASING];

/// States of a register, and kinds of its marks, in the order of [`RegisterFigures`].
const REGISTER_STATES: [&str; 4] = ["open", "closed", "missing", "unreadable"];
const MARKS: [&str; 3] = ["flag", "intent", "shared"];

/// Figures of all registers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RegisterFigures {
    pub(crate) open: usize,
    pub(crate) closed: usize,
    pub(crate) missing: usize,
    pub(crate) unreadable: usize,
    /// Numbers of flags, of intents and of shared marks.
    pub(crate) marks: [usize; MARKS.len()],
    /// Longest time for which a mark, or a closed register, was seen unchanged.
    pub(crate) oldest: Option<Duration>,
    /// Upper bound of the size of each register, in bytes, by its name.
    pub(crate) sizes: BTreeMap<String, usize>,
}

/// Metrics of one controller. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    marks_removed: Counter,
    rounds: Histogram,
    installs: Counts,
    statuses: Counts,
    reloads: Reloads,
    known: Arc<Mutex<Known>>,
}

/// Facts that the last round knew.
#[derive(Debug, Default)]
struct Known {
    ended: Option<SystemTime>,
    leads: bool,
    ca_expiry: Option<i64>,
    conditions: BTreeMap<[String; 3], usize>,
    /// Number of references without a target, by the name of the rule.
    dangling: BTreeMap<String, i64>,
    /// Number of locks that are programmed, and number of those that are not.
    locks: [usize; 2],
    /// Number of GlobalOwners by phase, in the order of [`PHASES`].
    owners: [usize; PHASES.len()],
    registers: RegisterFigures,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            rounds: Histogram::new(DURATIONS),
            installs: Family::default(),
            statuses: Family::default(),
            reloads: Reloads::default(),
            marks_removed: Counter::default(),
            known: Arc::default(),
        };
        // A monitoring system sees an increase only if it has seen the series before.
        let installs = ["installed", "removed", "unchanged", "foreign", "claim-not-accepted", "pending", "failed"];
        for outcome in installs {
            metrics.installs.get_or_create(&[("outcome", outcome)]).inc_by(0);
        }
        for outcome in ["written", "outdated", "failed"] {
            metrics.statuses.get_or_create(&[("outcome", outcome)]).inc_by(0);
        }
        metrics
    }
}

impl Metrics {
    /// Adds all metrics to a registry; `ready` returns true if the controller can do its work.
    pub(crate) fn register(&self, registry: &mut Registry, ready: impl Fn() -> bool + Send + Sync + 'static) {
        let help = "Duration of a round, with its writes";
        registry.register("depguard_controller_round_duration_seconds", help, self.rounds.clone());
        let help = "Webhook configurations checked or written, by outcome";
        registry.register("depguard_controller_installs", help, self.installs.clone());
        let help = "Writes of rules' statuses, by outcome";
        registry.register("depguard_controller_status_writes", help, self.statuses.clone());
        self.reloads.register(registry);

        let help = "1 if everything that decides about configurations is loaded and current, else 0";
        registry.gauge("depguard_controller_ready", help, move || Some(f64::from(u8::from(ready()))));
        let help = "1 if this controller does the work, 0 if it waits for another one to end";
        self.gauge(registry, "depguard_controller_leader", help, |known| Some(f64::from(u8::from(known.leads))));
        let help = "End of the last round, in seconds since 1970";
        self.gauge(registry, "depguard_controller_last_round_timestamp_seconds", help, |known| {
            Some(known.ended?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs_f64())
        });
        let help = "End of the CA bundle's last certificate, in seconds since 1970";
        self.gauge(registry, "depguard_controller_ca_expiry_timestamp_seconds", help, |known| {
            known.ca_expiry.map(|expiry| expiry as f64)
        });
        self.numbers(
            registry,
            "depguard_controller_locks",
            "Locks, by their condition Programmed",
            "programmed",
            |known| ["True", "False"].into_iter().zip(known.locks).collect(),
        );
        let help = "GlobalOwners, by phase";
        self.numbers(registry, "depguard_controller_owners", help, "phase", |known| {
            PHASES.into_iter().zip(known.owners).collect()
        });
        let help = "Reference registers, by state";
        self.numbers(registry, "depguard_controller_registers", help, "state", |known| {
            let RegisterFigures { open, closed, missing, unreadable, marks: _, oldest: _, sizes: _ } = &known.registers;
            REGISTER_STATES.into_iter().zip([*open, *closed, *missing, *unreadable]).collect()
        });
        let help = "Marks in the reference registers, by kind";
        self.numbers(registry, "depguard_controller_register_marks", help, "kind", |known| {
            MARKS.into_iter().zip(known.registers.marks).collect()
        });
        let help = "Longest time for which a mark, or a closed register, was seen unchanged";
        self.gauge(registry, "depguard_controller_register_oldest_mark_seconds", help, |known| {
            Some(known.registers.oldest.unwrap_or_default().as_secs_f64())
        });
        let known = Arc::clone(&self.known);
        let help = "Size of each reference register, in bytes; at 524288 it is full";
        registry.gauges("depguard_controller_register_bytes", help, move || {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            // Without registers, a series shows that there are none.
            let none = known.registers.sizes.is_empty().then(|| ([("register", String::new())], 0.0));
            let series = known.registers.sizes.iter();
            let series = series.map(|(name, size)| ([("register", name.clone())], *size as f64));
            series.chain(none).collect::<Vec<Series<1, String>>>()
        });
        let help = "Marks taken out of the reference registers because no request can need them any more";
        registry.register("depguard_controller_register_marks_removed", help, self.marks_removed.clone());
        let known = Arc::clone(&self.known);
        let help = "Rules, by condition";
        registry.gauges("depguard_controller_rules", help, move || {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            let series = known.conditions.iter().map(|([condition, status, reason], rules)| {
                let labels = [("condition", condition), ("status", status), ("reason", reason)];
                (labels.map(|(label, value)| (label, value.clone())), *rules as f64)
            });
            series.collect::<Vec<Series<3, String>>>()
        });
        let known = Arc::clone(&self.known);
        let help = "References to targets that do not exist, by rule";
        registry.gauges("depguard_controller_dangling_references", help, move || {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            let series = known.dangling.iter().map(|(rule, count)| ([("rule", rule.clone())], *count as f64));
            series.collect::<Vec<Series<1, String>>>()
        });
    }

    fn gauge(
        &self,
        registry: &mut Registry,
        name: &'static str,
        help: &'static str,
        look: impl Fn(&Known) -> Option<f64> + Send + Sync + 'static,
    ) {
        let known = Arc::clone(&self.known);
        registry.gauge(name, help, move || look(&known.lock().unwrap_or_else(PoisonError::into_inner)));
    }

    /// Registers a gauge with one label. All values of the label are always there.
    fn numbers(
        &self,
        registry: &mut Registry,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        look: impl Fn(&Known) -> Vec<(&'static str, usize)> + Send + Sync + 'static,
    ) {
        let known = Arc::clone(&self.known);
        registry.gauges(name, help, move || {
            let numbers = look(&known.lock().unwrap_or_else(PoisonError::into_inner));
            let series = numbers.into_iter().map(|(value, number)| ([(label, value.to_owned())], number as f64));
            series.collect::<Vec<Series<1, String>>>()
        });
    }

    fn know(&self, learn: impl FnOnce(&mut Known)) {
        learn(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes whether this controller does the work.
    pub(crate) fn leads(&self, leads: bool) {
        self.know(|known| {
            known.leads = leads;
            if !leads {
                // The numbers are out of date: another controller knows the present ones.
                known.conditions.clear();
                known.dangling.clear();
                known.locks = Default::default();
                known.owners = Default::default();
                known.registers = Default::default();
            }
        });
    }

    /// Notes that a round has ended, and its duration.
    pub(crate) fn ended(&self, took: Duration) {
        self.rounds.observe(took.as_secs_f64());
        self.know(|known| known.ended = Some(SystemTime::now()));
    }

    /// Notes the conditions and the counts of all rules; each item is a rule's name, and the figures of its status.
    pub(crate) fn rules<'s>(&self, rules: impl IntoIterator<Item = (&'s str, &'s Figures)>) {
        let (mut conditions, mut dangling) = (BTreeMap::new(), BTreeMap::new());
        for (name, figures) in rules {
            for condition in figures.conditions.iter() {
                match conditions.get_mut(condition) {
                    Some(number) => *number += 1,
                    None => drop(conditions.insert(condition.clone(), 1)),
                }
            }
            dangling.extend(figures.dangling.map(|number| (name.to_owned(), number)));
        }
        self.know(|known| (known.conditions, known.dangling) = (conditions, dangling));
    }

    /// Notes the numbers of locks that are programmed and that are not.
    pub(crate) fn locks(&self, programmed: usize, others: usize) {
        self.know(|known| known.locks = [programmed, others]);
    }

    /// Notes the phases of the GlobalOwners.
    pub(crate) fn owners<'p>(&self, phases: impl IntoIterator<Item = &'p str>) {
        let mut owners = [0; PHASES.len()];
        for phase in phases {
            let count = PHASES.iter().zip(&mut owners).find(|(known, _)| **known == phase);
            count.into_iter().for_each(|(_, count)| *count += 1);
        }
        self.know(|known| known.owners = owners);
    }

    /// Notes the figures of the reference registers.
    pub(crate) fn registers(&self, registers: RegisterFigures) {
        self.know(|known| known.registers = registers);
    }

    /// Counts marks that were taken out of the reference registers.
    pub(crate) fn marks_removed(&self, number: u64) {
        self.marks_removed.inc_by(number);
    }

    /// Counts an attempt to install: the configuration is `desired` or not, and was `changed` or not.
    pub(crate) fn installed(&self, outcome: &Outcome, desired: bool, changed: bool) {
        let outcome = match outcome {
            Outcome::Installed if !changed => "unchanged",
            Outcome::Installed if desired => "installed",
            Outcome::Installed => "removed",
            Outcome::Foreign => "foreign",
            Outcome::ClaimNotAccepted => "claim-not-accepted",
            Outcome::Newer { .. } => "newer",
            Outcome::Pending(_) => "pending",
            Outcome::Failed(_) => "failed",
        };
        self.installs.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Counts an attempt to write a status: it was written, was out of date by then, or could not be written.
    pub(crate) fn status(&self, outcome: &'static str) {
        self.statuses.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Notes the time at which the CA bundle in force expires.
    pub(crate) fn ca_expiry(&self, expiry: Option<i64>) {
        self.know(|known| known.ca_expiry = expiry);
    }

    /// Returns the reload metrics of a file that is read again when it changes; `file` is a word of a closed set.
    pub(crate) fn reload(&self, file: &'static str) -> Reload {
        self.reloads.of(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    /// Returns the lines of a registry that begin like this.
    fn series(registry: &Registry, beginning: &str) -> Vec<String> {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text.lines().filter(|line| line.starts_with(beginning)).map(str::to_owned).collect()
    }

    #[test]
    fn locks_and_owners_are_counted_for_as_long_as_it_leads() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry, || true);
        let shown = || {
            let lines = ["locks", "owners"].map(|name| series(&registry, &format!("depguard_controller_{name}{{")));
            lines.concat().iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        metrics.leads(true);
        metrics.locks(3, 1);
        metrics.owners(["Owning", "Releasing", "Owning", "of a later version"]);
        assert_eq!(shown(), ["3.0", "1.0", "2.0", "0.0", "1.0"]);
        metrics.leads(false);
        assert_eq!(shown(), ["0.0"; 5]);
    }

    #[test]
    fn rules_are_told_by_their_conditions_for_as_long_as_it_leads() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry, || true);
        let shown = || series(&registry, "depguard_controller_rules{");
        let rule = |status: &str, reason: &str| {
            let conditions = Arc::new(vec![["Enforced", status, reason].map(str::to_owned)]);
            Figures { conditions, dangling: None }
        };
        let note = |rules: &[Figures]| metrics.rules(rules.iter().map(|figures| ("a", figures)));
        metrics.leads(true);
        note(&[rule("True", "Enforced"), rule("False", "NotProgrammed"), rule("True", "Enforced")]);
        let expected = [
            r#"depguard_controller_rules{condition="Enforced",status="False",reason="NotProgrammed"} 1.0"#,
            r#"depguard_controller_rules{condition="Enforced",status="True",reason="Enforced"} 2.0"#,
        ];
        assert_eq!(shown(), expected);
        note(&[rule("True", "Enforced")]);
        assert_eq!(shown(), [expected[1].replace("2.0", "1.0")]);
        metrics.leads(false);
        assert!(shown().is_empty());
    }

    #[test]
    fn references_without_a_target_are_told_by_rule_and_an_unknown_number_is_not_0() {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry, || true);
        let shown = || series(&registry, "depguard_controller_dangling_references{");
        let rule = |name, dangling| (name, Figures { conditions: Arc::default(), dangling });
        metrics.leads(true);
        let rules = [rule("a", Some(0)), rule("b", None), rule("c", Some(7))];
        metrics.rules(rules.iter().map(|(name, figures)| (*name, figures)));
        let expected = [
            r#"depguard_controller_dangling_references{rule="a"} 0.0"#,
            r#"depguard_controller_dangling_references{rule="c"} 7.0"#,
        ];
        assert_eq!(shown(), expected);
        metrics.leads(false);
        assert!(shown().is_empty());
    }
}
