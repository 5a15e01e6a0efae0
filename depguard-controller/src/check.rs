//! What was found of a configuration that is installed: whether it is in force, and for which rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::api::FailurePolicy;
use depguard_core::{LoadedRule, RuleKey};

use crate::findings::Finding;
use crate::plan::Place;

// The reasons of the condition `Enforced` that come from what was found.
pub(crate) const CERTIFICATE_INVALID: &str = "CertificateInvalid";
pub(crate) const CONFIGURATION_CHANGED: &str = "ConfigurationChanged";
pub(crate) const DISPATCH_UNKNOWN: &str = "DispatchUnknown";
pub(crate) const NOT_ASKED: &str = "NotAsked";
pub(crate) const NOT_DISPATCHED: &str = "NotDispatched";
pub(crate) const NOT_LOADED: &str = "NotLoaded";
pub(crate) const RIGHT_MISSING: &str = "RightMissing";
pub(crate) const WEBHOOK_UNREACHABLE: &str = "WebhookUnreachable";

/// Of several that are wrong, the one to begin with comes first.
pub(crate) const ORDER: [&str; 6] =
    [CONFIGURATION_CHANGED, CERTIFICATE_INVALID, WEBHOOK_UNREACHABLE, NOT_LOADED, NOT_DISPATCHED, RIGHT_MISSING];

/// What was found, place by place.
pub(crate) type Checks = BTreeMap<Place, Arc<Check>>;

/// The rules that a webhook decides by.
pub(crate) type Loaded = BTreeMap<RuleKey, LoadedRule>;

/// What was found at a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// The number of what was looked at.
    pub(crate) of: u64,
    /// What is wrong with the configuration, or why that isn't known: then nothing more was asked.
    pub(crate) problem: Option<Finding>,
    /// What the webhook of each policy has loaded, or why that isn't known.
    pub(crate) loaded: BTreeMap<FailurePolicy, Result<Loaded, Finding>>,
    /// What is wrong with the way from the API server to the webhook, or why that isn't known.
    pub(crate) dispatch: Option<Finding>,
}

impl Check {
    /// What keeps a rule from being in force here. `None`: nothing.
    pub(crate) fn of_rule(&self, rule: &RuleKey, policy: FailurePolicy, generation: i64) -> Option<Finding> {
        if self.problem.is_some() {
            return self.problem.clone();
        }
        let loaded = match self.loaded.get(&policy) {
            None => return Some(Finding::unknown(NOT_ASKED, "the webhook was not asked yet")),
            Some(Err(why)) => return Some(why.clone()),
            Some(Ok(loaded)) => loaded.get(rule),
        };
        let why = match loaded {
            Some(LoadedRule { generation: loaded, lacks, .. }) if *loaded == generation => {
                let lacks = lacks.as_ref().map(|why| Finding::no(RIGHT_MISSING, why));
                return self.dispatch.clone().or(lacks);
            }
            Some(LoadedRule { generation: other, .. }) => {
                format!("the webhook still decides by generation {other} of the rule, not by {generation}")
            }
            None => "the webhook has not loaded the rule".to_owned(),
        };
        Some(Finding::no(NOT_LOADED, why))
    }

    /// Whether a moment may put right what is wrong: a webhook loads rules, and an API server configurations.
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

    fn reason(check: &Check, rule: &str, policy: FailurePolicy, generation: i64) -> Option<&'static str> {
        check.of_rule(&key(rule), policy, generation).map(|finding| finding.reason)
    }

    #[test]
    fn a_rule_is_in_force_where_it_is_loaded_and_the_webhook_is_asked() {
        let fail = FailurePolicy::Fail;
        let mut check = Check {
            loaded: BTreeMap::from([(fail, Ok(Loaded::from([(key("a"), LoadedRule::new(2))])))]),
            ..Check::default()
        };
        assert_eq!(reason(&check, "a", fail, 2), None);
        assert_eq!(reason(&check, "a", fail, 3), Some(NOT_LOADED));
        assert_eq!(reason(&check, "b", fail, 2), Some(NOT_LOADED));
        assert_eq!(reason(&check, "a", FailurePolicy::Ignore, 2), Some(NOT_ASKED));
        let lacking = LoadedRule::new(2).lacking("it may not list as");
        let lacking = Check { loaded: [(fail, Ok(Loaded::from([(key("a"), lacking)])))].into(), ..Check::default() };
        assert_eq!(reason(&lacking, "a", fail, 2), Some(RIGHT_MISSING));
        assert_eq!(reason(&lacking, "a", fail, 3), Some(NOT_LOADED));
        // What is nearer to the rule is said first, the configuration before all.
        check.dispatch = Some(Finding::no(NOT_DISPATCHED, ""));
        assert_eq!(reason(&check, "a", fail, 2), Some(NOT_DISPATCHED));
        assert_eq!(reason(&check, "b", fail, 2), Some(NOT_LOADED));
        check.loaded.insert(FailurePolicy::Ignore, Err(Finding::no(WEBHOOK_UNREACHABLE, "")));
        assert_eq!(reason(&check, "a", FailurePolicy::Ignore, 2), Some(WEBHOOK_UNREACHABLE));
        check.problem = Some(Finding::no(CONFIGURATION_CHANGED, ""));
        assert_eq!(reason(&check, "a", fail, 2), Some(CONFIGURATION_CHANGED));
    }

    #[test]
    fn only_what_is_on_its_way_is_waited_for() {
        let of = |loaded| Check { loaded: BTreeMap::from([(FailurePolicy::Fail, loaded)]), ..Check::default() };
        assert!(of(Ok(Loaded::new())).may_settle());
        assert!(of(Err(Finding::no(NOT_LOADED, ""))).may_settle());
        assert!(!of(Err(Finding::no(WEBHOOK_UNREACHABLE, ""))).may_settle());
        assert!(Check { dispatch: Some(Finding::no(NOT_DISPATCHED, "")), ..Check::default() }.may_settle());
        assert!(!Check { problem: Some(Finding::no(CONFIGURATION_CHANGED, "")), ..Check::default() }.may_settle());
    }
}
