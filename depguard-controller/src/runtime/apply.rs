//! Execution of one step: at a place's API server, against the configuration that is there now.

use std::time::Duration;

use depguard_core::{LogicalCluster, api};
use depguard_kcp::{ApiError, Connection, Endpoint, Preconditions};
use serde_json::{Value, json};

use crate::model::install_outcome::Outcome;
use crate::model::webhook_configuration::{self, Step};

/// Time limit of one request.
pub(crate) const REQUEST: Duration = Duration::from_secs(15);
const FIELD_MANAGER: &str = "depguard-controller";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Makes the configuration of this name as desired, or makes sure that there is none (`None`).
///
/// The existing configuration is read first, as a reflector may be behind. Each write holds only for the state that was
/// read: a configuration that became somebody else's in between is neither changed nor deleted.
///
/// A configuration that a newer version of depguard wrote is changed only with `overruled`.
pub(crate) async fn install(endpoint: &Endpoint, name: &str, desired: Option<&Value>, overruled: bool) -> ApplyResult {
    match try_install(endpoint, name, desired, overruled).await {
        Ok(done) => done,
        Err(error) if error.is_conflict() => ApplyResult::from_outcome(Outcome::Pending(error.to_string())),
        Err(error) => ApplyResult::from_outcome(Outcome::Failed(error.to_string())),
    }
}

/// Returns the endpoint that the kubeconfig names.
pub(crate) fn own_endpoint(connection: &Connection) -> Endpoint {
    connection.own_endpoint().within(REQUEST)
}

/// Returns the endpoint of a place's API server, whose objects were read at `origin`.
pub(crate) fn endpoint(
    connection: &Connection,
    origin: &str,
    place: Option<&LogicalCluster>,
) -> Result<Endpoint, String> {
    let Some(cluster) = place else { return Ok(own_endpoint(connection)) };
    let endpoint = connection.at(origin).map_err(|error| error.to_string())?;
    Ok(endpoint.join(&format!("/clusters/{cluster}")).within(REQUEST))
}

/// Result of an attempt.
pub(crate) struct ApplyResult {
    pub(crate) outcome: Outcome,
    /// True if the configuration had to be changed, and was.
    pub(crate) changed: bool,
}

impl ApplyResult {
    pub(crate) fn from_outcome(outcome: Outcome) -> Self {
        Self { outcome, changed: false }
    }

    fn changed() -> Self {
        Self { outcome: Outcome::Installed, changed: true }
    }
}

/// Replaces the status of a rule. `rule` is the whole object, with the `resourceVersion` for which the status was made.
pub(crate) async fn write_status(endpoint: &Endpoint, rule: &Value) -> Result<(), ApiError> {
    let name = rule.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let path = format!("/apis/{}/{}/{}/{name}/status", api::GROUP, api::VERSION, api::PLURAL);
    endpoint.put_json(&path, rule).await.map(drop)
}

/// Reads the configuration as it is now; `None` if there is none.
pub(crate) async fn read(endpoint: &Endpoint, name: &str) -> Result<Option<Value>, ApiError> {
    match endpoint.get_json(&path(name)).await {
        Ok(existing) => Ok(Some(existing)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn path(name: &str) -> String {
    format!("{CONFIGURATIONS}/{name}")
}

async fn try_install(
    endpoint: &Endpoint,
    name: &str,
    desired: Option<&Value>,
    overruled: bool,
) -> Result<ApplyResult, ApiError> {
    let own = path(name);
    let existing = read(endpoint, name).await?;
    let step = match (webhook_configuration::step(existing.as_ref(), desired), desired) {
        (Step::Defer { in_force }, _) if !overruled => {
            return Ok(ApplyResult::from_outcome(Outcome::Newer { in_force }));
        }
        (Step::Defer { .. }, Some(_)) => Step::Apply,
        (Step::Defer { .. }, None) => Step::Delete,
        (step, _) => step,
    };
    let written = match (step, &existing, desired) {
        (Step::Create, _, Some(desired)) => {
            let collection = format!("{CONFIGURATIONS}?fieldManager={FIELD_MANAGER}");
            endpoint.post_json(&collection, desired).await?
        }
        (Step::Apply, Some(existing), Some(desired)) => apply(endpoint, &own, existing, desired).await?,
        (Step::Delete, Some(existing), _) => {
            delete(endpoint, existing).await?;
            return Ok(ApplyResult::changed());
        }
        (Step::LeaveForeign, ..) => return Ok(ApplyResult::from_outcome(Outcome::Foreign)),
        _ => return Ok(ApplyResult::from_outcome(Outcome::Installed)),
    };
    let Some(desired) = desired else { return Ok(ApplyResult::changed()) };
    if webhook_configuration::is_installed(&written, desired) {
        return Ok(ApplyResult::changed());
    }
    // An apply leaves items that another manager added to a list.
    let replaced = endpoint.put_json(&own, &webhook_configuration::replacement(&written, desired)).await?;
    if webhook_configuration::is_installed(&replaced, desired) {
        return Ok(ApplyResult::changed());
    }
    let why = "the API server stored something else than depguard wrote: check which webhook or policy changes the \
             configuration";
    Ok(ApplyResult::from_outcome(Outcome::Failed(why.to_owned())))
}

async fn apply(endpoint: &Endpoint, own: &str, existing: &Value, desired: &Value) -> Result<Value, ApiError> {
    let mut patch = desired.clone();
    if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion"] {
            let value = existing.pointer(&format!("/metadata/{field}"));
            metadata.insert(field.to_owned(), value.cloned().unwrap_or_else(|| json!("")));
        }
    }
    match endpoint.apply(own, &patch, FIELD_MANAGER, true).await {
        // The workspace may have accepted the reference's claim, which has no `patch`.
        Err(error) if matches!(error.status(), Some(403 | 405 | 415)) => {
            endpoint.put_json(own, &webhook_configuration::replacement(existing, desired)).await
        }
        written => written,
    }
}

/// Deletes the configuration in the state that was read, and in no later state.
pub(crate) async fn delete(endpoint: &Endpoint, existing: &Value) -> Result<(), ApiError> {
    let field = |pointer| existing.pointer(pointer).and_then(Value::as_str);
    let only = Preconditions { uid: field("/metadata/uid"), resource_version: field("/metadata/resourceVersion") };
    match endpoint.delete(&path(field("/metadata/name").unwrap_or_default()), only).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
