//! What refers to what: the rules that depguard ships for openMCP.

use depguard_core::{Home, RuleSet};
use serde_json::Value;

use crate::{Error, Result};

const OPENMCP: &str = include_str!("../../../../config/rules/openmcp.yaml");

/// The rules; beside them the file has a role for depguard's own webhook, which is not this one.
pub(super) fn built_in() -> Result<RuleSet> {
    let broken = |why: String| Error::Refused(format!("the rules built into this program can't be used: {why}"));
    let objects = serde_saphyr::from_multiple::<Value>(OPENMCP).map_err(|error| broken(error.to_string()))?;
    let rules = objects.iter().filter(|object| object["kind"] == "DependencyRule");
    RuleSet::try_load(Home::Kubernetes, rules).map_err(|error| broken(error.to_string()))
}
