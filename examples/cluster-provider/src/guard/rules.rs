//! Rules that depguard ships for openMCP.

use depguard_core::{ControlPlane, RuleSet};
use serde_json::Value;

use crate::{Error, Result};

const OPENMCP: &str = include_str!("../../../../config/rules/openmcp.yaml");

/// Returns the rules. The file also has a role for depguard's own webhook, which is another one.
pub(super) fn built_in() -> Result<RuleSet> {
    let broken = |why: String| Error::Refused(format!("the rules built into this program can't be used: {why}"));
    let objects = serde_saphyr::from_multiple::<Value>(OPENMCP).map_err(|error| broken(error.to_string()))?;
    let rules = objects.iter().filter(|object| object["kind"] == "DependencyRule");
    RuleSet::try_load(ControlPlane::Kubernetes, rules).map_err(|error| broken(error.to_string()))
}
