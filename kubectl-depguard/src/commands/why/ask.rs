//! Question to the API server: a dry run of the deletion, which shows the effect of rules that the caller may not read.

use depguard_kcp::{ApiError, Cause, Endpoint, Status};

use crate::io::exit::Failure;

/// Answer of the API server to a dry run of a deletion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DryRunAnswer {
    /// The deletion would go on.
    Yes,
    /// depguard refuses the deletion because of these blockers.
    Blocked { causes: Vec<Cause>, message: String },
    /// A lock forbids the deletion.
    Locked(String),
    /// Another webhook or a policy refuses the deletion.
    Refused(String),
    /// The answer is unknown: the reason, and the missing right if there is one.
    Unknown { why: String, missing: Option<String> },
}

/// End of the names of depguard's webhooks, in a refusal.
const OURS: &str = ".dependencies.opendefense.cloud\" denied the request";
/// Beginning of a refusal because of a lock, by depguard or by the older tool.
pub(super) const LOCKED: &str = "denied the request: Object is locked";
/// Text of an API server for a refusal by any webhook or policy.
const DENIED: &str = "denied the request";
/// Reason of a cause that names a blocker.
const STILL_REFERENCED: &str = "StillReferenced";

/// Sends a dry run of the deletion of the object at this path; `right` is the right that it needs.
pub(crate) async fn ask(endpoint: &Endpoint, path: &str, right: &str) -> Result<DryRunAnswer, Failure> {
    match endpoint.delete_dry_run(path).await {
        Ok(_) => Ok(DryRunAnswer::Yes),
        Err(ApiError::Refused { status, .. }) if status.code == 404 => {
            Err(Failure::new("the object was deleted in the meantime").hint("there is nothing left to do"))
        }
        Err(ApiError::Refused { status, .. }) => Ok(DryRunAnswer::from_status(status, right)),
        Err(why) => Ok(DryRunAnswer::Unknown { why: why.to_string(), missing: None }),
    }
}

impl DryRunAnswer {
    fn from_status(status: Status, right: &str) -> Self {
        let Status { code, message, causes, .. } = status;
        let causes: Vec<_> = causes.into_iter().filter(|cause| cause.reason == STILL_REFERENCED).collect();
        if !causes.is_empty() {
            return Self::Blocked { causes, message };
        }
        if message.contains(LOCKED) {
            return Self::Locked(message);
        }
        if message.contains(OURS) {
            // The webhook could not find out either.
            return Self::Unknown { why: message, missing: None };
        }
        if message.contains(DENIED) {
            return Self::Refused(message);
        }
        let missing = matches!(code, 401 | 403).then(|| right.to_owned());
        Self::Unknown { why: format!("HTTP {code}: {message}"), missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: u16, message: &str, causes: &[&str]) -> DryRunAnswer {
        let cause = |reason: &&str| Cause { reason: (*reason).to_owned(), ..Cause::default() };
        let causes = causes.iter().map(cause).collect();
        let status = Status { code, reason: String::new(), message: message.to_owned(), name: String::new(), causes };
        DryRunAnswer::from_status(status, "delete vpcs")
    }

    #[test]
    fn who_refuses_is_told_apart() {
        let ours = "admission webhook \"dependency-controller.dependencies.opendefense.cloud\" denied the request: x";
        assert!(
            matches!(said(403, ours, &["StillReferenced"]), DryRunAnswer::Blocked { causes, .. } if causes.len() == 1)
        );
        assert!(matches!(said(403, ours, &["Other"]), DryRunAnswer::Unknown { missing: None, .. }));
        let locked =
            "admission webhook \"locks.dependencies.opendefense.cloud\" denied the request: Object is locked: x";
        assert_eq!(said(403, locked, &[]), DryRunAnswer::Locked(locked.to_owned()));
        let undecided =
            "admission webhook \"locks.dependencies.opendefense.cloud\" denied the request: could not find out";
        assert!(matches!(said(403, undecided, &[]), DryRunAnswer::Unknown { missing: None, .. }));
        let other = "admission webhook \"policy.example.com\" denied the request: no";
        assert_eq!(said(400, other, &[]), DryRunAnswer::Refused(other.to_owned()));
        let rbac = "vpcs \"a\" is forbidden: User \"bob\" cannot delete resource";
        assert!(
            matches!(said(403, rbac, &[]), DryRunAnswer::Unknown { missing: Some(right), .. } if right == "delete vpcs")
        );
        assert!(matches!(said(500, "failed calling webhook", &[]), DryRunAnswer::Unknown { missing: None, .. }));
    }
}
