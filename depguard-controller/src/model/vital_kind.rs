//! Kinds and subresources that a cluster's own controllers can't do without.
//!
//! A lock has each request about its kind reviewed, and the API server refuses the request while no webhook answers.
//! Without a Pod's binding and status no Pod is started, not even the webhook's own; without tokens nobody is let in.
//! Users who may lock objects of their own namespace must not be able to hold the cluster up, so these kinds are locked
//! only if the operator lists them.

use std::fmt;
use std::str::FromStr;

use depguard_core::locks::LockTarget;
use depguard_core::model::{GroupResource, NameError};

/// Vital kind, such as `events`, `pods/status` or `deployments/status.apps`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VitalKind {
    kind: GroupResource,
    subresource: Option<String>,
}

/// Reason why a text names no vital kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VitalKindError {
    /// The text is no name of a kind.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The kind is not vital.
    #[error("`{0}` need not be listed, as locks may always name it: leave it out")]
    NotVital(String),
}

impl VitalKind {
    /// Returns the vital kind of a lock's target; `None` if the target is not vital.
    pub(crate) fn from_target(target: &LockTarget) -> Option<Self> {
        let vital = Self { kind: target.kind.clone(), subresource: target.subresource.clone() };
        vital.is_vital().then_some(vital)
    }

    fn is_vital(&self) -> bool {
        let kind = (self.kind.group.as_str(), self.kind.resource.as_str());
        let is_kind = matches!(
            kind,
            ("" | "events.k8s.io", "events")
                | ("", "bindings" | "endpoints")
                | ("discovery.k8s.io", "endpointslices")
                | ("coordination.k8s.io", "leases")
        );
        let of = self.subresource.as_deref();
        is_kind || matches!(of, Some("status" | "binding")) || (kind == ("", "serviceaccounts") && of == Some("token"))
    }
}

impl FromStr for VitalKind {
    type Err = VitalKindError;

    fn from_str(text: &str) -> Result<Self, VitalKindError> {
        let (name, group) = text.split_once('.').map_or((text, ""), |(name, group)| (name, group));
        let (resource, subresource) = name.split_once('/').map_or((name, None), |(name, of)| (name, Some(of)));
        let dot = if text.contains('.') { "." } else { "" };
        let kind = format!("{resource}{dot}{group}").parse()?;
        let vital = Self { kind, subresource: subresource.map(str::to_owned) };
        if vital.is_vital() { Ok(vital) } else { Err(VitalKindError::NotVital(text.to_owned())) }
    }
}

impl fmt::Display for VitalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.kind, self.subresource.as_deref()))
    }
}

/// Returns kind and subresource as messages show them: `deployments/status.apps`.
pub(crate) fn shown(kind: &GroupResource, of: Option<&str>) -> String {
    let Some(of) = of else { return kind.to_string() };
    let dot = if kind.group.is_core() { "" } else { "." };
    format!("{}/{of}{dot}{}", kind.resource, kind.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_vital_reads_and_prints_as_it_is_listed_and_nothing_else_is_listed() {
        for text in [
            "events",
            "events.events.k8s.io",
            "endpoints",
            "endpointslices.discovery.k8s.io",
            "bindings",
            "pods/binding",
            "pods/status",
            "deployments/status.apps",
            "serviceaccounts/token",
        ] {
            assert_eq!(text.parse::<VitalKind>().map(|kind| kind.to_string()).as_deref(), Ok(text));
        }
        for text in ["pods", "secrets", "pods/exec", "serviceaccounts", "deployments/scale.apps"] {
            assert_eq!(text.parse::<VitalKind>(), Err(VitalKindError::NotVital(text.to_owned())));
        }
        assert!(matches!("events.".parse::<VitalKind>(), Err(VitalKindError::Name(_))));
    }
}
