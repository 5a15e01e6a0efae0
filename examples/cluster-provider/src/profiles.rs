//! ClusterProfiles from this provider's configurations.

use std::sync::Arc;
use std::time::Duration;

use kube_client::Api;
use kube_client::core::params::{DeleteParams, ListParams, PostParams};
use kube_runtime::controller::Action;
use kube_runtime::reflector::ObjectRef;
use kube_runtime::{Controller, watcher};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::api::{
    Aspect, ClusterProfile, ClusterProfileSpec, LocalRef, MANAGED_BY, Status, WorkspaceProviderConfig,
    WorkspaceProviderConfigStatus,
};
use crate::platform::Platform;
use crate::{Error, Result, reconcile};

/// Pause before the refused deletion of a profile is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// Maximum length of a profile's name, which is also the value of a label on AccessRequests.
const MAX_NAME: usize = 63;

/// Condition: each profile of the configuration exists with the configured content.
const OFFERED: &str = "ProfilesOffered";
/// Condition: no profile exists that the configuration does not name.
const REMOVED: &str = "OthersRemoved";

/// Reconciles WorkspaceProviderConfigs until it is told to stop.
pub async fn run(platform: Arc<Platform>, stop: CancellationToken) {
    let own = watcher::Config::default().labels(&format!("{MANAGED_BY}={}", platform.provider()));
    let controller = Controller::new(platform.all(), watcher::Config::default()).watches(
        platform.all(),
        own,
        |profile: ClusterProfile| Some(ObjectRef::new(&profile.spec.provider_config_ref.name)),
    );
    reconcile::run(controller, one, platform, stop).await;
}

/// Returns the name of a configuration's profile. No other provider and no other environment can have the same name.
pub fn name_of(platform: &Platform, profile: &str) -> String {
    format!("{}.{}.{profile}", platform.environment(), platform.provider())
}

async fn one(config: Arc<WorkspaceProviderConfig>, platform: Arc<Platform>) -> Result<Action> {
    if config.spec.provider != platform.provider() || Platform::is_ignored(&*config) {
        return Ok(Action::await_change());
    }
    if platform.take_up(&config).await? || (!config.is_terminating() && platform.hold(&config).await?) {
        return Ok(Action::await_change());
    }
    let mut status = config.status.clone().unwrap_or_default();
    let said = match config.is_terminating() {
        true => Vec::new(),
        false => config.spec.profiles.iter().map(|profile| offer(&platform, &config, &profile.name)).collect(),
    };
    let offered = futures::future::join_all(said).await;
    let (there, failures): (Vec<_>, Vec<_>) = offered.into_iter().partition(Result::is_ok);
    status.profiles = there.into_iter().flatten().collect();
    let failures: Vec<_> = failures.into_iter().filter_map(Result::err).map(|error| error.in_full()).collect();
    say(&mut status, &config, OFFERED, "AsConfigured", "CannotOffer", &failures);

    let desired: Vec<_> = match config.is_terminating() {
        true => Vec::new(),
        false => config.spec.profiles.iter().map(|profile| name_of(&platform, &profile.name)).collect(),
    };
    let kept = withdraw_others(&platform, &config, &desired).await?;
    say(&mut status, &config, REMOVED, "NoneLeft", "StillUsed", &kept);
    if config.is_terminating() && kept.is_empty() {
        platform.release(&config).await?;
        return Ok(Action::await_change());
    }
    status.common.conclude(config.generation(), config.is_terminating());
    platform.report(&config, &status).await?;
    Ok(if failures.is_empty() && kept.is_empty() { Action::await_change() } else { Action::requeue(AGAIN) })
}

/// Creates one profile as the configuration says, and returns its name.
async fn offer(platform: &Platform, config: &WorkspaceProviderConfig, profile: &str) -> Result<String> {
    let name = name_of(platform, profile);
    if name.len() > MAX_NAME || config.name().len() > MAX_NAME {
        return Err(Error::Refused(format!(
            "`{name}` or `{}` has more than {MAX_NAME} characters, so it can't be a label's value: choose a shorter \
             name",
            config.name()
        )));
    }
    let versions = config.spec.profiles.iter().find(|other| other.name == profile).map(|found| found.versions.clone());
    let spec = ClusterProfileSpec {
        provider_ref: LocalRef { name: platform.provider().to_owned() },
        provider_config_ref: LocalRef { name: config.name().to_owned() },
        supported_versions: versions.unwrap_or_default(),
    };
    let Some(found) = platform.find::<crate::api::ClusterProfiles>("", &name).await? else {
        let mut new = ClusterProfile::new(&name, spec);
        new.metadata.labels = Some(platform.labels());
        let profiles: Api<ClusterProfile> = platform.all();
        let made = profiles.create(&PostParams::default(), &new).await;
        return made.map(|_| name).map_err(Error::api(format!("make {}", new.shown())));
    };
    if !is_of(platform, config, &found) {
        return Err(Error::Refused(format!(
            "{} belongs to another configuration or another provider: give the profile another name",
            found.shown()
        )));
    }
    if found.spec != spec {
        platform.patch(&found, json!({"spec": spec})).await?;
    }
    Ok(name)
}

/// Deletes the profiles that the configuration no longer names. The [guard](crate::guard) refuses to delete those in
/// use, and they stay. Returns the refusals' messages.
async fn withdraw_others(
    platform: &Platform,
    config: &WorkspaceProviderConfig,
    desired: &[String],
) -> Result<Vec<String>> {
    let profiles: Api<ClusterProfile> = platform.all();
    let own = ListParams::default().labels(&format!("{MANAGED_BY}={}", platform.provider()));
    let found = profiles.list(&own).await.map_err(Error::api("list ClusterProfiles"))?;
    let mut kept = Vec::new();
    let others = |profile: &&ClusterProfile| {
        is_of(platform, config, profile) && !desired.iter().any(|name| name == profile.name())
    };
    for profile in found.items.iter().filter(others) {
        match profiles.delete(profile.name(), &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube_client::Error::Api(status)) if status.code == 404 => {}
            Err(error) => kept.push(Error::api(format!("delete {}", profile.shown()))(error).in_full()),
        }
    }
    Ok(kept)
}

/// Returns true if this provider made the profile from this configuration.
fn is_of(platform: &Platform, config: &WorkspaceProviderConfig, profile: &ClusterProfile) -> bool {
    profile.label(MANAGED_BY) == Some(platform.provider())
        && profile.spec.provider_ref.name == platform.provider()
        && profile.spec.provider_config_ref.name == config.name()
}

fn say(
    status: &mut WorkspaceProviderConfigStatus,
    config: &WorkspaceProviderConfig,
    kind: &str,
    good: &str,
    bad: &str,
    failures: &[String],
) {
    let message = failures.join("; ");
    let (is, reason) = if failures.is_empty() { (Status::True, good) } else { (Status::False, bad) };
    status.common.say(config.generation(), Aspect { kind, status: is, reason, message: &message });
}
