//! AccessRequests: rights in a Cluster's workspace, and the kubeconfig for them.
//!
//! A request is granted by a ServiceAccount in the workspace with the requested roles and bindings, and by a Secret
//! beside the request with a kubeconfig for its token. All of them are deleted with the request. The operator's own
//! controllers do the rest: labels, `clusterRef`, `ttl`, and the phase `Pending`, at first and after each change.

mod credentials;
mod desired_objects;
mod objects;
mod refusal;
mod secret;
mod status;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube_runtime::controller::Action;
use kube_runtime::reflector::{ObjectRef, Store};
use kube_runtime::watcher::Config;
use kube_runtime::{Controller, controller};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::api::{
    AccessRequest, AccessRequests, Cluster, ClusterProfiles, Clusters, DENIED, FINALIZER, GRANTED, PENDING, PROFILE,
    PROVIDER,
};
use crate::platform::Platform;
use crate::workspaces::{Workspace, Workspaces};
use crate::{Result, reconcile};

use credentials::{Door, Token};
use desired_objects::{DesiredObjects, Identity};
use objects::Objects;
use secret::{Slot, new_token};
use status::{Grant, Halt, Step, status};

/// Lifetime of a token, unless the server shortens it.
pub const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Interval of looking at granted requests again, because nothing reports changes in a workspace or a deleted Secret.
const RESYNC: Duration = Duration::from_secs(5 * 60);
/// Pause before looking again for something that others create.
const SOON: Duration = Duration::from_secs(10);
/// Maximum of requests that are reconciled at a time.
const MAX_CONCURRENT_RECONCILES: u16 = 4;

/// Reconciles AccessRequests until it is told to stop.
pub async fn run(platform: Arc<Platform>, workspaces: Arc<Workspaces>, lifetime: Duration, stop: CancellationToken) {
    let ours = Config::default().labels(&format!("{PROVIDER}={},{PROFILE}", platform.provider()));
    let controller = Controller::new(platform.all::<AccessRequests>(), ours);
    let requests = controller.store();
    let controller = controller
        .watches(platform.all::<Clusters>(), Config::default(), move |cluster| requests_of(&requests, &cluster))
        .with_config(controller::Config::default().concurrency(MAX_CONCURRENT_RECONCILES));
    let access = Arc::new(Access { platform, workspaces, lifetime });
    reconcile::run(controller, async |request, access| access.look_at(&request).await, access, stop).await;
}

fn requests_of(requests: &Store<AccessRequest>, cluster: &Cluster) -> Vec<ObjectRef<AccessRequest>> {
    let is_of = |request: &AccessRequest| {
        let reference = request.spec.cluster_ref.as_ref();
        reference.is_some_and(|to| to.name == cluster.name() && to.namespace == cluster.namespace())
    };
    requests.state().iter().filter(|request| is_of(request)).map(|request| ObjectRef::from_obj(&**request)).collect()
}

struct Access {
    platform: Arc<Platform>,
    workspaces: Arc<Workspaces>,
    lifetime: Duration,
}

impl Access {
    async fn look_at(&self, request: &AccessRequest) -> Result<Action> {
        if !Platform::is_asked(request) {
            return self.look(request).await;
        }
        // The cache may be old: a request that was answered already must not get a second token.
        match self.platform.find::<AccessRequests>(request.namespace(), request.name()).await? {
            Some(request) => self.look(&request).await,
            None => Ok(Action::await_change()),
        }
    }

    async fn look(&self, request: &AccessRequest) -> Result<Action> {
        if !is_responsible(request, self.platform.provider()) || Platform::is_ignored(request) {
            return Ok(Action::await_change());
        }
        if holds(request) && (request.is_terminating() || phase(request) == DENIED) {
            return self.end(request).await;
        }
        self.answer(request).await
    }

    /// Revokes the access, and releases the request or leaves it as it is.
    async fn end(&self, request: &AccessRequest) -> Result<Action> {
        match self.revoke(request).await {
            Ok(()) => {
                self.platform.release(request).await?;
                info!("{}: access is withdrawn", request.shown());
                Ok(Action::await_change())
            }
            // A deletion that hangs should say why. A denial stays what it was.
            Err(error) if request.is_terminating() => {
                self.report(request, Step::Cluster, Err(Halt::Failed(error))).await
            }
            Err(error) => Err(error),
        }
    }

    /// Grants a request, or reports why not.
    async fn answer(&self, request: &AccessRequest) -> Result<Action> {
        let asked = refusal::token(&request.spec).and_then(|asked| DesiredObjects::new(asked, &self.identity(request)));
        if asked.is_ok() && !holds(request) {
            self.platform.hold(request).await?;
            return Ok(Action::await_change());
        }
        let mut step = Step::Request;
        let came_to = match asked {
            Ok(desired) => self.grant(request, &desired, &mut step).await,
            Err(refusal) => Err(refusal.into()),
        };
        if holds(request) && matches!(came_to, Err(Halt::Denied(_) | Halt::Gone { .. })) {
            self.revoke(request).await?;
        }
        self.report(request, step, came_to).await
    }

    /// Reports the outcome of a request, and returns the time of the next look.
    async fn report(&self, request: &AccessRequest, step: Step, came_to: Result<Grant, Halt>) -> Result<Action> {
        let after = status(request.status.as_ref(), request.generation(), step, &came_to);
        if after.common.phase != phase(request) {
            info!("{}: {}", request.shown(), after.common.phase);
        }
        self.platform.report(request, &after).await?;
        if matches!(came_to, Ok(_) | Err(Halt::Denied(_))) {
            self.take_up(request).await?;
        }
        match came_to {
            Ok(grant) => Ok(Action::requeue(grant.look_again_in.min(RESYNC))),
            Err(Halt::Denied(_)) => Ok(Action::await_change()),
            Err(Halt::Waits { .. } | Halt::Gone { .. }) => Ok(Action::requeue(SOON)),
            Err(Halt::Failed(error)) => Err(error),
        }
    }

    /// Removes the annotation by which somebody asked for this look, but only when the request is answered. If it were
    /// removed before a failure, the next look would find the old token good and no annotation for a new one.
    async fn take_up(&self, request: &AccessRequest) -> Result<()> {
        if !Platform::is_asked(request) {
            return Ok(());
        }
        // The status was written, so the request that was read before is out of date.
        if let Some(now) = self.platform.find::<AccessRequests>(request.namespace(), request.name()).await? {
            self.platform.take_up(&now).await?;
        }
        Ok(())
    }

    async fn grant(&self, request: &AccessRequest, desired: &DesiredObjects, step: &mut Step) -> Result<Grant, Halt> {
        *step = Step::Cluster;
        let (cluster, workspace) = self.workspace(request).await?;
        *step = Step::Permissions;
        let identity = self.identity(request);
        let client = self.workspaces.client(&workspace)?;
        let account_uid = Objects::new(client.clone(), &self.platform, &identity).bring(desired).await?;
        *step = Step::Kubeconfig;
        let door = Door {
            cluster: format!("{}/{}", cluster.namespace(), cluster.name()),
            server: workspace.url,
            ca: self.workspaces.ca_pem(),
            account_uid,
        };
        let slot = Slot::new(request, &self.platform);
        let found = slot.find().await?;
        let stored = found.as_ref().and_then(|secret| Token::stored(secret, &door));
        // A request for another look gets a new token, however good the old one is.
        let anew = Platform::is_asked(request);
        let token = match stored.filter(|token| !anew && !token.renewed_in(Timestamp::now()).is_zero()) {
            Some(token) => token,
            None => {
                let token = new_token(client, &identity, self.lifetime).await?;
                slot.fill(found.as_ref(), &token, &door).await?;
                info!("{}: {}", request.shown(), token.shown());
                token
            }
        };
        let look_again_in = token.renewed_in(Timestamp::now());
        Ok(Grant { message: token.shown(), secret: slot.name, look_again_in })
    }

    /// Returns the Cluster of a request, and its workspace.
    async fn workspace(&self, request: &AccessRequest) -> Result<(Cluster, Workspace), Halt> {
        let invalid = |message| Halt::Waits { reason: "InvalidReference", message };
        let Some(reference) = &request.spec.cluster_ref else {
            let message = "`spec.clusterRef` is not set: the operator sets it from `spec.requestRef` once that \
                     ClusterRequest is granted";
            return Err(Halt::Waits { reason: "WaitingForClusterRequest", message: message.to_owned() });
        };
        let Some(cluster) = self.platform.find::<Clusters>(&reference.namespace, &reference.name).await? else {
            let message = format!(
                "Cluster `{}/{}` does not exist: create it, or delete this request",
                reference.namespace, reference.name
            );
            return Err(Halt::Gone { message });
        };
        let profile = cluster.spec.profile.as_str();
        if request.label(PROFILE) != Some(profile) {
            let message =
                format!("{} has the profile `{profile}`, but the label {PROFILE} names another one", cluster.shown());
            return Err(invalid(message));
        }
        let found = self.platform.find::<ClusterProfiles>("", profile).await?;
        if found.is_none_or(|found| found.spec.provider_ref.name != self.platform.provider()) {
            return Err(invalid(format!("the profile `{profile}` of {} belongs to another provider", cluster.shown())));
        }
        match self.workspaces.find(&cluster).await? {
            Some(workspace) => Ok((cluster, workspace)),
            None => {
                let message = format!("{} has no usable workspace yet", cluster.shown());
                Err(Halt::Waits { reason: "ClusterNotReady", message })
            }
        }
    }

    /// Deletes everything that was made for a request. Its account goes first, and its tokens with it.
    async fn revoke(&self, request: &AccessRequest) -> Result<()> {
        let identity = self.identity(request);
        if let Some(cluster) = &request.spec.cluster_ref {
            // The Cluster does not decide, because it may be gone already while its workspace still exists.
            for workspace in self.workspaces.of(cluster).await? {
                let client = self.workspaces.client(&workspace)?;
                Objects::new(client, &self.platform, &identity).clear().await?;
            }
        }
        Slot::new(request, &self.platform).empty().await
    }

    fn identity(&self, request: &AccessRequest) -> Identity {
        let (platform, request) = (&self.platform, request);
        Identity::new(platform.environment(), platform.provider(), request.namespace(), request.name())
    }
}

/// Returns true if this provider must act, as the contract says. The operator prepares a request, and takes it up again
/// after each change. The provider answers pending requests and maintains granted ones. The operator has not prepared a
/// request without a phase yet; if another party made it pending, the operator would never prepare it. A request with
/// this provider's finalizer is always this provider's to end.
fn is_responsible(request: &AccessRequest, provider: &str) -> bool {
    if request.label(PROVIDER) != Some(provider) || request.label(PROFILE).is_none() {
        return false;
    }
    let observed = request.status.as_ref().map(|status| status.common.observed_generation);
    match phase(request) {
        _ if request.is_terminating() => holds(request),
        PENDING => true,
        GRANTED => observed == Some(request.generation()),
        DENIED => holds(request),
        _ => false,
    }
}

fn holds(request: &AccessRequest) -> bool {
    request.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

fn phase(request: &AccessRequest) -> &str {
    request.status.as_ref().map_or("", |status| &status.common.phase)
}

#[cfg(test)]
mod tests;
