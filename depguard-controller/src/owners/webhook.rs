//! Webhook configuration that guards owners: it prevents each deletion of a GlobalOwner or a GroupOwner that would take
//! all objects at once.

use depguard_core::owners::{EMPTY, GLOBAL_OWNERS, GROUP, GROUP_OWNERS, RELEASED, VERSION};
use depguard_kcp::Endpoint;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::model::install_outcome::Outcome;
use crate::model::webhook_configuration;
use crate::runtime::apply::install;
use crate::runtime::client_config::Clients;
use crate::runtime::deference::Deference;
use crate::runtime::metrics::Metrics;

/// Name of the configuration.
pub(crate) const NAME: &str = "depguard-owners";
const WEBHOOK: &str = "owners.dependencies.opendefense.cloud";
/// Path at which API servers ask the webhook.
const PATH: &str = "/owner";

/// Returns the desired configuration.
pub(crate) fn desired(clients: &Clients) -> Value {
    let rule = json!({
        "operations": ["DELETE"],
        "apiGroups": [GROUP],
        "apiVersions": ["*"],
        "resources": [GLOBAL_OWNERS, GROUP_OWNERS],
        "scope": "Cluster",
    });
    let mut webhook = webhook_configuration::webhook(WEBHOOK, "Fail", &[rule], &clients.beside(&None, PATH));
    if let Some(fields) = webhook.as_object_mut() {
        // The webhook notes on a GlobalOwner that its objects are to stay.
        fields.insert("sideEffects".to_owned(), json!("NoneOnDryRun"));
    }
    webhook_configuration::of_webhooks(NAME, &[webhook])
}

/// Installs the configuration, and returns true if it had to be written. Without it nothing may be adopted: a deletion
/// could take all owned objects at once.
pub(super) async fn set_up(
    endpoint: &Endpoint,
    clients: &Clients,
    deference: &mut Deference<()>,
    metrics: &Metrics,
) -> Result<bool, String> {
    let overruled = deference.is_over(&(), Instant::now());
    let done = install(endpoint, NAME, Some(&desired(clients)), overruled).await;
    deference.note((), &done.outcome, Instant::now());
    metrics.installed(&done.outcome, true, done.changed);
    match done.outcome {
        Outcome::Installed | Outcome::Newer { in_force: true } => Ok(done.changed),
        Outcome::Newer { in_force: false } => Err(format!(
            "a newer version of depguard wrote ValidatingWebhookConfiguration {NAME}, and it lacks something: this \
             version soon replaces it"
        )),
        Outcome::Foreign => {
            Err(format!("ValidatingWebhookConfiguration {NAME} is not depguard's: delete or rename it"))
        }
        Outcome::Pending(why) | Outcome::Failed(why) => {
            Err(format!("could not write ValidatingWebhookConfiguration {NAME}: {why}"))
        }
        Outcome::ClaimNotAccepted => Err(format!("the controller may not write ValidatingWebhookConfiguration {NAME}")),
    }
}

/// Returns the reason why the configuration must stay, if something may be owned. Without it the garbage collector
/// takes all owned objects at once when a GroupOwner is deleted, or a GlobalOwner in the foreground.
pub(crate) async fn needed(endpoint: &Endpoint) -> Option<String> {
    let groups = match endpoint.list_json(&format!("/apis/{GROUP}/{VERSION}/{GROUP_OWNERS}")).await {
        Ok(groups) => groups.items,
        Err(error) if error.is_not_found() => return None,
        Err(error) => {
            return Some(format!(
                "could not find out whether GroupOwners own objects ({error}): run the uninstall again, or, if \
                 `kubectl get groupowners` shows none, delete the configuration by hand"
            ));
        }
    };
    let phase = |group: &Value| group.pointer("/status/phase").and_then(Value::as_str).map(str::to_owned);
    let mut owning = groups.iter().filter(|group| !matches!(phase(group).as_deref(), Some(EMPTY | RELEASED)));
    let name = owning.next()?.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let more = match owning.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "without this configuration the garbage collector may delete all objects of GroupOwners ({name}{more}) at \
         once: delete the GlobalOwners first, or release their objects with --cascade=orphan, and run the uninstall \
         again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_of_both_kinds_are_asked_about_and_refused_where_nobody_answers() {
        let target = "depguard-system/depguard-webhook".parse().unwrap();
        let clients =
            Clients { target, ca_bundle: None, key: None, own_namespace: None, generation: None, generation_key: None };
        let webhook = &desired(&clients)["webhooks"][0];
        assert_eq!(webhook["failurePolicy"], "Fail");
        assert_eq!(webhook["clientConfig"]["service"]["path"], "/owner");
        assert_eq!(webhook["rules"][0]["operations"], json!(["DELETE"]));
        assert_eq!(webhook["rules"][0]["resources"], json!(["globalowners", "groupowners"]));
    }
}
