//! Result of probing an installed configuration: it is in force or not, rule by rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_core::api::FailurePolicy;
use depguard_core::model::GroupResource;
use depguard_core::probe::LoadedRule;
use depguard_core::rule::{RuleKey, RuleVersion};

use tokio::time::Instant;

use crate::model::condition::Finding;
use crate::model::configuration_key::ConfigurationKey;

// Reasons of the condition `Enforced` that come from a probe.
pub(crate) const CERTIFICATE_INVALID: &str = "CertificateInvalid";
pub(crate) const CONFIGURATION_CHANGED: &str = "ConfigurationChanged";
pub(crate) const DISPATCH_UNKNOWN: &str = "DispatchUnknown";
pub(crate) const NOT_ASKED: &str = "NotAsked";
pub(crate) const NOT_DISPATCHED: &str = "NotDispatched";
pub(crate) const NOT_LOADED: &str = "NotLoaded";
pub(crate) const RIGHT_MISSING: &str = "RightMissing";
pub(crate) const WEBHOOK_UNKNOWN: &str = "WebhookUnknown";
pub(crate) const WEBHOOK_UNREACHABLE: &str = "WebhookUnreachable";

/// Order of reasons: the problem to begin with comes first.
pub(crate) const ORDER: [&str; 7] = [
    CONFIGURATION_CHANGED,
    CERTIFICATE_INVALID,
    WEBHOOK_UNREACHABLE,
    WEBHOOK_UNKNOWN,
    NOT_LOADED,
    NOT_DISPATCHED,
    RIGHT_MISSING,
];

/// Returns true if a problem only means that nobody answered: nothing was found that is wrong.
pub(crate) fn is_silence(problem: &Finding) -> bool {
    [NOT_ASKED, DISPATCH_UNKNOWN, WEBHOOK_UNREACHABLE].contains(&problem.reason)
}

/// Rule that a webhook should decide by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ExpectedRule {
    pub(crate) policy: FailurePolicy,
    pub(crate) version: RuleVersion,
}

/// Rules that a webhook should decide by.
pub(crate) type ExpectedRules = BTreeMap<RuleKey, ExpectedRule>;

/// Results by configuration.
pub(crate) type ProbeResults = BTreeMap<ConfigurationKey, Arc<ProbeResult>>;

/// Rules that are in force, each as the replicas of the webhook have loaded it, and since when no probe found anything
/// else.
pub(crate) type Steady = BTreeMap<RuleKey, (Vec<LoadedRule>, Instant)>;

/// Rules that a webhook decides by.
pub(crate) type Loaded = BTreeMap<RuleKey, LoadedRule>;

/// Result of the probe of one configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProbeResult {
    /// Hash of the job whose probe was run.
    pub(crate) job_hash: u64,
    /// Problem with the configuration, or the reason why it is unknown. Nothing more was asked then.
    pub(crate) problem: Option<Finding>,
    /// True if the API server did not answer what it was asked: the problem says nothing about the configuration.
    pub(crate) is_unanswered: bool,
    /// Rules that each replica of the webhook of each policy has loaded, or the reason why they are unknown.
    pub(crate) loaded: BTreeMap<FailurePolicy, Result<Vec<Loaded>, Finding>>,
    /// Rules that this probe found in force, with the series of probes that found the same.
    pub(crate) steady: Steady,
    /// Problem with the way from the API server to the webhook, or the reason why it is unknown.
    pub(crate) dispatch: Option<Finding>,
    /// Kinds of aggregated API servers about whose deletions the webhook was asked.
    pub(crate) arriving: BTreeSet<GroupResource>,
}

impl ProbeResult {
    /// Returns a result that holds only a problem with the configuration.
    pub(crate) fn of_problem(problem: Finding) -> Self {
        Self { problem: Some(problem), ..Self::default() }
    }

    /// Returns the problem that keeps a rule from being in force here; `None` if there is none.
    pub(crate) fn of_rule(&self, rule: &RuleKey, expected: &ExpectedRule) -> Option<Finding> {
        if self.problem.is_some() {
            return self.problem.clone();
        }
        let replicas = match self.loaded.get(&expected.policy) {
            None => return Some(Finding::unknown(NOT_ASKED, "depguard has not asked the webhook yet")),
            Some(Err(why)) => return Some(why.clone()),
            Some(Ok(replicas)) => replicas,
        };
        let Some(loaded) = replicas.iter().map(|loaded| loaded.get(rule)).collect::<Option<Vec<_>>>() else {
            return Some(Finding::no(NOT_LOADED, "the webhook has not loaded the rule"));
        };
        let Some(other) = loaded.iter().find(|loaded| !loaded.version.may_be(&expected.version)) else {
            let lacks = loaded.iter().find_map(|loaded| loaded.lacks.as_ref());
            return self.dispatch.clone().or(lacks.map(|why| Finding::no(RIGHT_MISSING, why)));
        };
        let (other, generation) = (other.version.generation, expected.version.generation);
        let why = if other == generation {
            "the webhook still uses a rule of this name that was deleted".to_owned()
        } else {
            format!("the webhook still uses generation {other} of the rule, not {generation}")
        };
        Some(Finding::no(NOT_LOADED, why))
    }

    /// Returns the rule as the replicas of the webhook have loaded it, each way once.
    pub(crate) fn loaded(&self, rule: &RuleKey, policy: FailurePolicy) -> Vec<LoadedRule> {
        let replicas = self.loaded.get(&policy).and_then(|loaded| loaded.as_ref().ok());
        let mut ways: Vec<LoadedRule> = Vec::new();
        for loaded in replicas.into_iter().flatten().filter_map(|loaded| loaded.get(rule)) {
            if !ways.contains(loaded) {
                ways.push(loaded.clone());
            }
        }
        ways
    }

    /// Returns true if the probe was not run yet, or has to be run again because the API server did not answer.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.is_unanswered || (self.problem.is_none() && self.loaded.is_empty())
    }

    /// Returns true if a problem may be gone in a moment: a webhook loads rules, and an API server takes up
    /// configurations.
    pub(crate) fn may_settle(&self) -> bool {
        let loads = |loaded: &Result<Vec<Loaded>, Finding>| match loaded {
            Ok(_) => true,
            Err(why) => why.reason == NOT_LOADED,
        };
        self.dispatch.is_some() || self.loaded.values().any(loads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> RuleKey {
        RuleKey { cluster: None, name: name.to_owned() }
    }

    fn version(generation: i64) -> RuleVersion {
        RuleVersion { uid: Some("1".to_owned()), generation }
    }

    fn finding(result: &ProbeResult, rule: &str, policy: FailurePolicy, version: RuleVersion) -> Option<Finding> {
        result.of_rule(&key(rule), &ExpectedRule { policy, version })
    }

    fn reason(result: &ProbeResult, rule: &str, policy: FailurePolicy, generation: i64) -> Option<&'static str> {
        finding(result, rule, policy, version(generation)).map(|finding| finding.reason)
    }

    #[test]
    fn a_rule_is_in_force_where_it_is_loaded_and_the_webhook_is_asked() {
        let fail = FailurePolicy::Fail;
        let mut result = ProbeResult {
            loaded: BTreeMap::from([(fail, Ok(vec![Loaded::from([(key("a"), LoadedRule::new(version(2)))])]))]),
            ..ProbeResult::default()
        };
        assert_eq!(reason(&result, "a", fail, 2), None);
        assert_eq!(reason(&result, "a", fail, 3), Some(NOT_LOADED));
        assert_eq!(reason(&result, "b", fail, 2), Some(NOT_LOADED));
        let made_again = RuleVersion { uid: Some("2".to_owned()), generation: 2 };
        let made_again = finding(&result, "a", fail, made_again).unwrap();
        assert_eq!(made_again.reason, NOT_LOADED);
        assert!(made_again.message.contains("was deleted"), "{}", made_again.message);
        assert_eq!(reason(&result, "a", FailurePolicy::Ignore, 2), Some(NOT_ASKED));
        let lacking = LoadedRule::new(version(2)).lacking("it may not list as");
        let lacking = ProbeResult {
            loaded: [(fail, Ok(vec![Loaded::from([(key("a"), lacking)])]))].into(),
            ..ProbeResult::default()
        };
        assert_eq!(reason(&lacking, "a", fail, 2), Some(RIGHT_MISSING));
        assert_eq!(reason(&lacking, "a", fail, 3), Some(NOT_LOADED));
        // One of several replicas is behind.
        let behind = Loaded::from([(key("a"), LoadedRule::new(version(1)))]);
        let mut mixed = result.clone();
        mixed.loaded.insert(fail, Ok(vec![result.loaded[&fail].clone().unwrap().remove(0), behind]));
        assert_eq!(reason(&mixed, "a", fail, 2), Some(NOT_LOADED));
        assert_eq!(mixed.loaded(&key("a"), fail).len(), 2);
        // A problem nearer to the rule comes first, and one with the configuration before all.
        result.dispatch = Some(Finding::no(NOT_DISPATCHED, ""));
        assert_eq!(reason(&result, "a", fail, 2), Some(NOT_DISPATCHED));
        assert_eq!(reason(&result, "b", fail, 2), Some(NOT_LOADED));
        result.loaded.insert(FailurePolicy::Ignore, Err(Finding::no(WEBHOOK_UNREACHABLE, "")));
        assert_eq!(reason(&result, "a", FailurePolicy::Ignore, 2), Some(WEBHOOK_UNREACHABLE));
        result.problem = Some(Finding::no(CONFIGURATION_CHANGED, ""));
        assert_eq!(reason(&result, "a", fail, 2), Some(CONFIGURATION_CHANGED));
    }

    #[test]
    fn only_what_is_on_its_way_is_waited_for() {
        let of =
            |loaded| ProbeResult { loaded: BTreeMap::from([(FailurePolicy::Fail, loaded)]), ..ProbeResult::default() };
        assert!(of(Ok(vec![Loaded::new()])).may_settle());
        assert!(of(Err(Finding::no(NOT_LOADED, ""))).may_settle());
        assert!(!of(Err(Finding::no(WEBHOOK_UNREACHABLE, ""))).may_settle());
        assert!(ProbeResult { dispatch: Some(Finding::no(NOT_DISPATCHED, "")), ..ProbeResult::default() }.may_settle());
        assert!(
            !ProbeResult { problem: Some(Finding::no(CONFIGURATION_CHANGED, "")), ..ProbeResult::default() }
                .may_settle()
        );
    }
}
