//! What is said of a request.

use std::time::Duration;

use crate::Error;
use crate::api::{
    AccessRequestStatus, Aspect, DENIED, GRANTED, LocalRef, PENDING,
    Status::{False, True, Unknown},
};

use super::refusal::Refusal;

/// What has to be so for a request to be granted, one after the other: a condition each.
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

    /// What is said of a step that is behind: never of the last, which speaks for itself.
    fn done(self) -> (&'static str, &'static str) {
        match self {
            Self::Request => ("Valid", "it asks for access by a token, which this provider gives"),
            Self::Cluster => ("Ready", "the cluster has a workspace"),
            Self::Permissions | Self::Kubeconfig => {
                ("Bound", "the ServiceAccount has the rights that are asked for, and no others")
            }
        }
    }
}

/// Why a request is not granted.
#[derive(Debug)]
pub(super) enum Halt {
    /// It never will be, as it is.
    Denied(Refusal),
    /// Something is not there yet that others bring.
    Waits { reason: &'static str, message: String },
    /// Its cluster is no more.
    Gone { message: String },
    /// It could not be found out.
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

/// What a request has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    /// The Secret's name.
    pub(super) secret: String,
    /// What is said of its kubeconfig.
    pub(super) message: String,
    /// When that is to be renewed.
    pub(super) look_again_in: Duration,
}

/// What a request's status becomes that came to `step`, the last where it is granted.
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
        // Nothing is known to be otherwise: what was granted stays so.
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
