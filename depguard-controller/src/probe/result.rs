//! Result of probing an installed configuration: it is in force or not, rule by rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::api::FailurePolicy;
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
pub(crate) const WEBHOOK_UNREACHABLE: &str = "WebhookUnreachable";

/// Order of reasons: the problem to begin with comes first.
pub(crate) const ORDER: [&str; 6] =
    [CONFIGURATION_CHANGED, CERTIFICATE_INVALID, WEBHOOK_UNREACHABLE, NOT_LOADED, NOT_DISPATCHED, RIGHT_MISSING];

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

/// Rules that are in force, each as the webhook has loaded it, and since when no probe found anything else.
pub(crate) type Steady = BTreeMap<RuleKey, (LoadedRule, Instant)>;

/// Rules that a webhook decides by.
pub(crate) type Loaded = BTreeMap<RuleKey, LoadedRule>;

/// Result of the probe of one configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProbeResult {
    /// Hash of the job whose probe was run.
    pub(crate) job_hash: u64,
    /// Problem with the configuration, or the reason why it is unknown. Nothing more was asked then.
    pub(crate) problem: Option<Finding>,
    /// Rules that the webhook of each policy has loaded, or the reason why they are unknown.
    pub(crate) loaded: BTreeMap<FailurePolicy, Result<Loaded, Finding>>,
    /// Rules that this probe found in force, with the series of probes that found the same.
    pub(crate) steady: Steady,
    /// Problem with the way from the API server to the webhook, or the reason why it is unknown.
    pub(crate) dispatch: Option<Finding>,
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
        let loaded = match self.loaded.get(&expected.policy) {
            None => return Some(Finding::unknown(NOT_ASKED, "depguard has not asked the webhook yet")),
            Some(Err(why)) => return Some(why.clone()),
            Some(Ok(loaded)) => loaded.get(rule),
        };
        let Some(LoadedRule { version, lacks, .. }) = loaded else {
            return Some(Finding::no(NOT_LOADED, "the webhook has not loaded the rule"));
        };
        if version.may_be(&expected.version) {
            let lacks = lacks.as_ref().map(|why| Finding::no(RIGHT_MISSING, why));
            return self.dispatch.clone().or(lacks);
        }
        let (other, generation) = (version.generation, expected.version.generation);
        let why = if other == generation {
            "the webhook still uses a rule of this name that was deleted".to_owned()
        } else {
            format!("the webhook still uses generation {other} of the rule, not {generation}")
        };
        Some(Finding::no(NOT_LOADED, why))
    }

    /// Returns the rule as the webhook has loaded it, if the rule is in force here in this version.
    pub(crate) fn in_force(&self, rule: &RuleKey, expected: &ExpectedRule) -> Option<LoadedRule> {
        let loaded = self.loaded.get(&expected.policy)?.as_ref().ok()?.get(rule)?;
        self.of_rule(rule, expected).is_none().then(|| loaded.clone())
    }

    /// Returns true if a problem may be gone in a moment: a webhook loads rules, and an API server takes up
    /// configurations.
    pub(crate) fn may_settle(&self) -> bool {
        let loads = |loaded: &Result<Loaded, Finding>| match loaded {
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
            loaded: BTreeMap::from([(fail, Ok(Loaded::from([(key("a"), LoadedRule::new(version(2)))])))]),
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
        let lacking =
            ProbeResult { loaded: [(fail, Ok(Loaded::from([(key("a"), lacking)])))].into(), ..ProbeResult::default() };
        assert_eq!(reason(&lacking, "a", fail, 2), Some(RIGHT_MISSING));
        assert_eq!(reason(&lacking, "a", fail, 3), Some(NOT_LOADED));
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
        assert!(of(Ok(Loaded::new())).may_settle());
        assert!(of(Err(Finding::no(NOT_LOADED, ""))).may_settle());
        assert!(!of(Err(Finding::no(WEBHOOK_UNREACHABLE, ""))).may_settle());
        assert!(ProbeResult { dispatch: Some(Finding::no(NOT_DISPATCHED, "")), ..ProbeResult::default() }.may_settle());
        assert!(
            !ProbeResult { problem: Some(Finding::no(CONFIGURATION_CHANGED, "")), ..ProbeResult::default() }
                .may_settle()
        );
    }
}
