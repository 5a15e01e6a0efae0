//! Status of a request.

use std::time::Duration;

use crate::Error;
use crate::api::{
    AccessRequestStatus, Aspect, DENIED, GRANTED, LocalRef, PENDING,
    Status::{False, True, Unknown},
};

use super::refusal::Refusal;

/// Steps towards granting a request, one after the other. Each has a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Request,
    Cluster,
    Permissions,
    Kubeconfig,
}

impl Step {
    const ALL: [Self; 4] = [Self::Request, Self::Cluster, Self::Permissions, Self::Kubeconfig];

    fn condition(self) -> &'static str {
        match self {
            Self::Request => "RequestValid",
            Self::Cluster => "ClusterReady",
            Self::Permissions => "PermissionsGranted",
            Self::Kubeconfig => "KubeconfigReady",
        }
    }

    /// Returns the reason and message of a step that is done. The last step never comes here, because it has a message
    /// of its own.
    fn done(self) -> (&'static str, &'static str) {
        match self {
            Self::Request => ("Valid", "the request asks for access by token, which this provider gives"),
            Self::Cluster => ("Ready", "the cluster has a workspace"),
            Self::Permissions | Self::Kubeconfig => {
                ("Bound", "the ServiceAccount has the requested rights, and no others")
            }
        }
    }
}

/// Reason why a request is not granted.
#[derive(Debug)]
pub(super) enum Halt {
    /// The request will never be granted as it is.
    Denied(Refusal),
    /// Something that others create is still missing.
    Waits { reason: &'static str, message: String },
    /// The request's cluster does not exist any more.
    Gone { message: String },
    /// The answer could not be found out.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Self {
        Self::Denied(refusal)
    }
}

/// Result of a granted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    /// Name of the Secret.
    pub(super) secret: String,
    /// Message about its kubeconfig.
    pub(super) message: String,
    /// Time until the kubeconfig must be renewed.
    pub(super) look_again_in: Duration,
}

/// Returns the status of a request that came to `step`, which is the last one if the request is granted.
pub(super) fn status(
    before: Option<&AccessRequestStatus>,
    generation: i64,
    step: Step,
    came_to: &Result<Grant, Halt>,
) -> AccessRequestStatus {
    let mut status = before.cloned().unwrap_or_default();
    let was_granted = status.common.phase == GRANTED && status.common.observed_generation == generation;
    status.common.observed_generation = generation;
    let mut say = |step: Step, is, reason, message: &str| {
        status.common.say(generation, Aspect { kind: step.condition(), status: is, reason, message });
    };
    for done in Step::ALL.into_iter().filter(|done| *done < step) {
        let (reason, message) = done.done();
        say(done, True, reason, message);
    }
    let phase = match came_to {
        Ok(grant) => {
            say(step, True, "Issued", &grant.message);
            GRANTED
        }
        Err(Halt::Denied(refusal)) => {
            say(step, False, refusal.reason(), &refusal.to_string());
            DENIED
        }
        Err(Halt::Waits { reason, message }) => {
            say(step, False, reason, message);
            PENDING
        }
        Err(Halt::Gone { message }) => {
            say(step, False, "InvalidReference", message);
            PENDING
        }
        // A failure proves nothing, so a granted request stays granted.
        Err(Halt::Failed(error)) => {
            say(step, Unknown, "InteractionProblem", &error.in_full());
            if was_granted { GRANTED } else { PENDING }
        }
    };
    if phase != GRANTED {
        for later in Step::ALL.into_iter().filter(|later| *later > step) {
            say(later, Unknown, "NotReached", &format!("{} comes first", step.condition()));
        }
    }
    status.common.phase = phase.to_owned();
    match came_to {
        Ok(grant) => status.secret_ref = Some(LocalRef { name: grant.secret.clone() }),
        Err(Halt::Denied(_) | Halt::Gone { .. }) => status.secret_ref = None,
        Err(Halt::Waits { .. } | Halt::Failed(_)) => {}
    }
    status
}

#[cfg(test)]
mod tests;
