//! Question to the API server: a dry run of the deletion, which shows the effect of rules that the caller may not read.

use depguard_kcp::{ApiError, Cause, Endpoint, Status};
use serde_json::json;

use super::target::Target;
use super::text;
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
    /// Something else refuses the deletion.
    Refused { by: Admission, message: String },
    /// The answer is unknown: the reason, and the missing right if there is one.
    Unknown { why: String, missing: Option<String> },
}

/// Part of the admission that refuses a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    Webhook(String),
    Policy(String),
    /// Webhook that the API server can't call, and whose failure policy says to refuse then.
    Unreachable(String),
    /// API server itself, as for the namespace `default`.
    ApiServer,
}

/// End of the names of depguard's webhooks.
const OURS: &str = ".dependencies.opendefense.cloud";
/// Beginning of a refusal because of a lock, by depguard or by the older tool.
const LOCKED: &str = "denied the request: Object is locked";
/// Beginning of a refusal to delete a GroupOwner that still owns objects.
const GROUP_OWNER: &str = "denied the request: cannot delete groupowners/";
/// Reason of a cause that names a blocker.
const STILL_REFERENCED: &str = "StillReferenced";

/// Sends a dry run of the deletion of the target; `right` is the right that it needs, and `may_delete` tells if the
/// caller has it.
pub(crate) async fn ask(
    endpoint: &Endpoint,
    target: &Target,
    right: &str,
    may_delete: Option<bool>,
) -> Result<DryRunAnswer, Failure> {
    // If a request has a body, API servers follow the body and not the query. `kubectl delete` asks for the background.
    let mut options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"], "propagationPolicy": "Background",
    });
    if let (Some(uid), Some(options)) = (text(&target.object, "/metadata/uid"), options.as_object_mut()) {
        options.insert("preconditions".to_owned(), json!({"uid": uid}));
    }
    match endpoint.delete_with(&format!("{}?dryRun=All", target.path()), &options).await {
        Ok(_) => Ok(DryRunAnswer::Yes),
        Err(ApiError::Refused { status, .. }) if status.code == 404 => {
            Err(Failure::new("the object was deleted in the meantime").hint("there is nothing left to do"))
        }
        Err(ApiError::Refused { status, .. }) if status.code == 409 && status.message.contains("UID") => {
            Err(Failure::new("the object was deleted and created again in the meantime").hint("run it again"))
        }
        Err(ApiError::Refused { status, .. }) => Ok(DryRunAnswer::from_status(status, right, may_delete)),
        Err(why) => Ok(DryRunAnswer::Unknown { why: why.to_string(), missing: None }),
    }
}

impl DryRunAnswer {
    fn from_status(status: Status, right: &str, may_delete: Option<bool>) -> Self {
        let Status { code, message, causes, .. } = status;
        let causes: Vec<_> = causes.into_iter().filter(|cause| cause.reason == STILL_REFERENCED).collect();
        if !causes.is_empty() {
            return Self::Blocked { causes, message };
        }
        if message.contains(LOCKED) {
            return Self::Locked(message);
        }
        match Admission::from_message(&message) {
            // The webhook could not find out either.
            Some(Admission::Webhook(name)) if name.ends_with(OURS) && !message.contains(GROUP_OWNER) => {
                Self::Unknown { why: message, missing: None }
            }
            Some(by) => Self::Refused { by, message },
            // The caller has the right, so that something else forbids it.
            None if code == 403 && may_delete == Some(true) => Self::Refused { by: Admission::ApiServer, message },
            None => {
                let missing = matches!(code, 401 | 403).then(|| right.to_owned());
                Self::Unknown { why: format!("HTTP {code}: {message}"), missing }
            }
        }
    }
}

impl Admission {
    /// Reads who refuses, from the message of an API server.
    fn from_message(message: &str) -> Option<Self> {
        let quoted = |before: &str, quote: char, after: &str| {
            let (_, rest) = message.split_once(before)?;
            let (name, rest) = rest.split_once(quote)?;
            rest.contains(after).then(|| name.to_owned())
        };
        if let Some(name) = quoted("admission webhook \"", '"', " denied the request") {
            return Some(Self::Webhook(name));
        }
        if let Some(name) = quoted("ValidatingAdmissionPolicy '", '\'', " denied request") {
            return Some(Self::Policy(name));
        }
        quoted("failed calling webhook \"", '"', "").map(Self::Unreachable)
    }

    /// Returns the name of the webhook or policy.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Webhook(name) | Self::Policy(name) | Self::Unreachable(name) => Some(name),
            Self::ApiServer => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use depguard_core::model::{Resource, Version};
    use depguard_core::{ControlPlane, Group, GroupVersionResource};
    use depguard_kcp::{ConnectOptions, Connection};
    use depguard_testbed::{Options, Testbed};
    use serde_json::Value;

    use super::*;
    use crate::cluster::kinds::KindInfo;

    fn said(code: u16, message: &str, causes: &[&str], may_delete: Option<bool>) -> DryRunAnswer {
        let cause = |reason: &&str| Cause { reason: (*reason).to_owned(), ..Cause::default() };
        let causes = causes.iter().map(cause).collect();
        let status = Status { code, reason: String::new(), message: message.to_owned(), name: String::new(), causes };
        DryRunAnswer::from_status(status, "delete vpcs", may_delete)
    }

    #[test]
    fn who_refuses_is_told_apart() {
        let ours = "admission webhook \"dependency-controller.dependencies.opendefense.cloud\" denied the request: x";
        let blocked = said(403, ours, &["StillReferenced"], None);
        assert!(matches!(blocked, DryRunAnswer::Blocked { causes, .. } if causes.len() == 1));
        assert!(matches!(said(403, ours, &["Other"], Some(true)), DryRunAnswer::Unknown { missing: None, .. }));
        let locked =
            "admission webhook \"locks.dependencies.opendefense.cloud\" denied the request: Object is locked: x";
        assert_eq!(said(403, locked, &[], None), DryRunAnswer::Locked(locked.to_owned()));
        let undecided =
            "admission webhook \"locks.dependencies.opendefense.cloud\" denied the request: could not find out";
        assert!(matches!(said(403, undecided, &[], None), DryRunAnswer::Unknown { missing: None, .. }));
        let rbac = "vpcs \"a\" is forbidden: User \"bob\" cannot delete resource";
        let missing = said(403, rbac, &[], None);
        assert!(matches!(missing, DryRunAnswer::Unknown { missing: Some(right), .. } if right == "delete vpcs"));
        assert!(matches!(said(500, "etcdserver: request timed out", &[], None), DryRunAnswer::Unknown { .. }));
    }

    #[test]
    fn others_who_refuse_are_named() {
        for (code, message, by) in [
            (
                403,
                "admission webhook \"owners.dependencies.opendefense.cloud\" denied the request: cannot delete \
                 groupowners/a: the garbage collector would delete all owned objects at once",
                Admission::Webhook("owners.dependencies.opendefense.cloud".to_owned()),
            ),
            (
                400,
                "admission webhook \"policy.example.com\" denied the request: no",
                Admission::Webhook("policy.example.com".to_owned()),
            ),
            (
                422,
                "vpcs \"a\" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'all' denied request: no",
                Admission::Policy("keep".to_owned()),
            ),
            (
                500,
                "Internal error occurred: failed calling webhook \"w.example.com\": Post \"https://x/\": refused",
                Admission::Unreachable("w.example.com".to_owned()),
            ),
            (403, "namespaces \"default\" is forbidden: this namespace may not be deleted", Admission::ApiServer),
        ] {
            let expected = DryRunAnswer::Refused { by, message: message.to_owned() };
            assert_eq!(said(code, message, &[], Some(true)), expected);
        }
        // A webhook that takes no dry runs has not refused.
        let no_dry_run = "admission webhook \"w.example.com\" does not support dry run";
        assert!(matches!(said(400, no_dry_run, &[], Some(true)), DryRunAnswer::Unknown { missing: None, .. }));
    }
    #[tokio::test]
    async fn a_new_object_of_the_same_name_is_not_asked_about() {
        let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, testbed.kubeconfig("", "admin")).unwrap();
        let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(kubeconfig);
        let endpoint = Connection::open(&options).await.unwrap().own_endpoint();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let map = endpoint.post_json("/api/v1/namespaces/default/configmaps", &map).await.unwrap();
        let gvr = GroupVersionResource {
            group: Group::CORE,
            version: Version::parse("v1").unwrap(),
            resource: Resource::parse("configmaps").unwrap(),
        };
        let kind = KindInfo::bare(gvr, "ConfigMap", Some(true));
        let target = |map: &Value| Target::new(&kind, Arc::new(map.clone()));
        assert_eq!(ask(&endpoint, &target(&map), "", None).await.unwrap(), DryRunAnswer::Yes);
        let mut former = map.clone();
        former["metadata"]["uid"] = "former".into();
        let why = ask(&endpoint, &target(&former), "", None).await.unwrap_err();
        assert!(why.message().contains("created again in the meantime"), "{why:?}");
        testbed.stop().await;
    }
}
