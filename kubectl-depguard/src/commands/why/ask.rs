//! Asks the API server itself, by a dry run of the deletion: who may not read the rules learns so what they say.

use depguard_kcp::{ApiError, Cause, Endpoint, Status};

use crate::outcome::Failure;

/// What the API server said to a deletion that deletes nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It would go on.
    Yes,
    /// depguard refuses it, for these.
    Blocked { causes: Vec<Cause>, message: String },
    /// A lock forbids it.
    Locked(String),
    /// It is refused, and not for a blocker that depguard names: another webhook, or a policy.
    Refused(String),
    /// It can't be told: why, and what to do.
    Untold { why: String, missing: Option<String> },
}

/// What depguard's webhooks' names end in.
const OURS: &str = ".dependencies.opendefense.cloud\" denied the request";
/// What a refusal for a lock begins with, of depguard's and of the older tool's.
pub(super) const LOCKED: &str = "denied the request: Object is locked";
/// What an API server writes of any webhook and policy that refuses.
const DENIED: &str = "denied the request";
/// The reason of a cause that names a blocker.
const STILL_REFERENCED: &str = "StillReferenced";

/// Asks for the deletion of the object at this path; `right` is what it needs.
pub(crate) async fn ask(endpoint: &Endpoint, path: &str, right: &str) -> Result<Said, Failure> {
    match endpoint.delete_dry_run(path).await {
        Ok(_) => Ok(Said::Yes),
        Err(ApiError::Refused { status, .. }) if status.code == 404 => {
            Err(Failure::new("it was deleted in the meantime").hint("there is nothing left to do"))
        }
        Err(ApiError::Refused { status, .. }) => Ok(Said::of(status, right)),
        Err(why) => Ok(Said::Untold { why: why.to_string(), missing: None }),
    }
}

impl Said {
    fn of(status: Status, right: &str) -> Self {
        let Status { code, message, causes, .. } = status;
        let causes: Vec<_> = causes.into_iter().filter(|cause| cause.reason == STILL_REFERENCED).collect();
        if !causes.is_empty() {
            return Self::Blocked { causes, message };
        }
        if message.contains(LOCKED) {
            return Self::Locked(message);
        }
        if message.contains(OURS) {
            // It could not find out either.
            return Self::Untold { why: message, missing: None };
        }
        if message.contains(DENIED) {
            return Self::Refused(message);
        }
        let missing = matches!(code, 401 | 403).then(|| right.to_owned());
        Self::Untold { why: format!("HTTP {code}: {message}"), missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: u16, message: &str, causes: &[&str]) -> Said {
        let cause = |reason: &&str| Cause { reason: (*reason).to_owned(), ..Cause::default() };
        let causes = causes.iter().map(cause).collect();
        let status = Status { code, reason: String::new(), message: message.to_owned(), name: String::new(), causes };
        Said::of(status, "delete vpcs")
    }

    #[test]
    fn who_refuses_is_told_apart() {
        let ours = "admission webhook \"dependency-controller.dependencies.opendefense.cloud\" denied the request: x";
        assert!(matches!(said(403, ours, &["StillReferenced"]), Said::Blocked { causes, .. } if causes.len() == 1));
        assert!(matches!(said(403, ours, &["Other"]), Said::Untold { missing: None, .. }));
        let locked =
            "admission webhook \"locks.dependencies.opendefense.cloud\" denied the request: Object is locked: x";
        assert_eq!(said(403, locked, &[]), Said::Locked(locked.to_owned()));
        let undecided =
            "admission webhook \"locks.dependencies.opendefense.cloud\" denied the request: could not find out";
        assert!(matches!(said(403, undecided, &[]), Said::Untold { missing: None, .. }));
        let other = "admission webhook \"policy.example.com\" denied the request: no";
        assert_eq!(said(400, other, &[]), Said::Refused(other.to_owned()));
        let rbac = "vpcs \"a\" is forbidden: User \"bob\" cannot delete resource";
        assert!(matches!(said(403, rbac, &[]), Said::Untold { missing: Some(right), .. } if right == "delete vpcs"));
        assert!(matches!(said(500, "failed calling webhook", &[]), Said::Untold { missing: None, .. }));
    }
}
