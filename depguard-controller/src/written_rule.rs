//! A rule as it was written, read once until it is written anew.

use std::sync::Arc;

use depguard_core::api::FailurePolicy;
use depguard_core::{ExportRef, GroupResource, Home, LogicalCluster, Outline, Rule, RuleError, RuleKey};
use depguard_kcp::{Allowance, MirroredObject};
use serde_json::Value;

/// The reason of rules that are too many.
pub(crate) const ALLOWANCE_EXCEEDED: &str = "AllowanceExceeded";

/// What a rule says, as far as it can be read. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct WrittenRule(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    key: RuleKey,
    failure_policy: FailurePolicy,
    rule: Result<Rule, Unusable>,
    targets: Vec<WrittenTarget>,
}

/// Why a rule can't be used, as its conditions say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// A target of a rule.
#[derive(Debug, Clone)]
pub(crate) struct WrittenTarget {
    /// The index in `spec.dependencies`.
    pub(crate) dependency: usize,
    pub(crate) export: Option<ExportRef>,
    pub(crate) kind: GroupResource,
}

impl WrittenRule {
    /// Reads what is mirrored, which may not be all of it.
    pub(crate) fn of_mirrored(home: Home, allowance: Allowance, rule: &MirroredObject) -> Self {
        if rule.shortened { Self::of_too_many(home, allowance, &rule.value) } else { Self::read(home, &rule.value) }
    }

    /// Reads what is left of a rule, or of several, where there are too many.
    pub(crate) fn of_too_many(home: Home, allowance: Allowance, left: &Value) -> Self {
        Self::broken(home, left, &allowance.exceeded(home))
    }

    pub(crate) fn read(home: Home, object: &Value) -> Self {
        match Rule::parse(home, object) {
            Ok(rule) => {
                let targets = rule.edges().iter().map(|edge| WrittenTarget {
                    dependency: edge.index,
                    export: edge.target.export.clone(),
                    kind: edge.target.gvr.group_resource(),
                });
                let (targets, key) = (targets.collect(), rule.key().clone());
                Self(Arc::new(Parts { key, failure_policy: rule.failure_policy(), rule: Ok(rule), targets }))
            }
            Err(error) => Self::broken(home, object, &error),
        }
    }

    /// Where such a rule bears, its failure policy decides, and the webhook is asked only where its targets are installed.
    fn broken(home: Home, object: &Value, error: &RuleError) -> Self {
        let outline =
            Outline::read(home, object).filter(|outline| home == Home::Kubernetes || outline.key.cluster.is_some());
        let (key, targets, failure_policy) = match outline {
            Some(outline) => (outline.key, outline.targets, outline.failure_policy),
            None => (key_of(home, object), Vec::new(), FailurePolicy::Fail),
        };
        let targets = targets.into_iter().enumerate();
        let targets = targets.map(|(dependency, (export, kind))| WrittenTarget { dependency, export, kind }).collect();
        Self(Arc::new(Parts { key, failure_policy, rule: Err(Unusable::new(error)), targets }))
    }

    pub(crate) fn key(&self) -> &RuleKey {
        &self.0.key
    }

    pub(crate) fn failure_policy(&self) -> FailurePolicy {
        self.0.failure_policy
    }

    /// The rule, or why it can't be used.
    pub(crate) fn rule(&self) -> Result<&Rule, &Unusable> {
        self.0.rule.as_ref()
    }

    /// Its targets, also those that could be read from a rule that can't be used.
    pub(crate) fn targets(&self) -> &[WrittenTarget] {
        &self.0.targets
    }
}

impl Unusable {
    fn new(error: &RuleError) -> Self {
        let reason = match error {
            RuleError::Allowance { .. } => ALLOWANCE_EXCEEDED,
            _ => "Invalid",
        };
        Self { reason, message: error.to_string() }
    }
}

/// Which rule an object is whose spec can't be read at all.
fn key_of(home: Home, object: &Value) -> RuleKey {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let cluster = match home {
        Home::Kcp => text("/metadata/annotations/kcp.io~1cluster"),
        Home::Kubernetes => None,
    };
    RuleKey {
        cluster: cluster.and_then(|cluster| LogicalCluster::parse(cluster).ok()),
        name: text("/metadata/name").unwrap_or_default().to_owned(),
    }
}
