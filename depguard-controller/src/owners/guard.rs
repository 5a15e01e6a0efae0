//! The webhook configuration by which no GlobalOwner, and no GroupOwner, is deleted in a way that would take its objects
//! at once.

use depguard_core::owners::{EMPTY, GLOBAL_OWNERS, GROUP, GROUP_OWNERS, RELEASED, VERSION};
use depguard_kcp::Endpoint;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clients::Clients;
use crate::configuration;
use crate::deference::Deference;
use crate::install::install;
use crate::metrics::Metrics;
use crate::status::Outcome;

/// Its name.
pub(crate) const NAME: &str = "depguard-owners";
const WEBHOOK: &str = "owners.dependencies.opendefense.cloud";
/// The path at which the webhook is asked.
const PATH: &str = "/owner";

/// What it is to be.
pub(crate) fn desired(clients: &Clients) -> Value {
    let rule = json!({
        "operations": ["DELETE"],
        "apiGroups": [GROUP],
        "apiVersions": ["*"],
        "resources": [GLOBAL_OWNERS, GROUP_OWNERS],
        "scope": "Cluster",
    });
    let mut webhook = configuration::webhook(WEBHOOK, "Fail", &[rule], &clients.beside(&None, PATH));
    if let Some(fields) = webhook.as_object_mut() {
        // It notes on a GlobalOwner that its objects are to stay.
        fields.insert("sideEffects".to_owned(), json!("NoneOnDryRun"));
    }
    configuration::of_webhooks(NAME, &[webhook])
}

/// Sees to it that it is there, and tells whether it had to be written. Without it nothing may be adopted: whatever is
/// owned could be deleted all at once.
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
            "ValidatingWebhookConfiguration {NAME} is a newer version's and lacks something: it is replaced soon"
        )),
        Outcome::Foreign => {
            Err(format!("ValidatingWebhookConfiguration {NAME} is not depguard's: delete it, or give it another name"))
        }
        Outcome::Pending(why) | Outcome::Failed(why) => {
            Err(format!("ValidatingWebhookConfiguration {NAME} could not be written: {why}"))
        }
        Outcome::ClaimNotAccepted => Err(format!("ValidatingWebhookConfiguration {NAME} may not be written")),
    }
}

/// Why it is to stay, where something may be owned: without it the garbage collector takes all of that at once when a
/// GroupOwner is deleted, or a GlobalOwner in the foreground.
pub(crate) async fn needed(endpoint: &Endpoint) -> Option<String> {
    let groups = match endpoint.list_json(&format!("/apis/{GROUP}/{VERSION}/{GROUP_OWNERS}")).await {
        Ok(groups) => groups.items,
        Err(error) if error.is_not_found() => return None,
        Err(error) => {
            return Some(format!(
                "it can't be seen whether GroupOwners own objects ({error}): run it again, or delete it by hand where there \
                 are none (`kubectl get groupowners`)"
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
        "without it the garbage collector may take at once all that GroupOwners own ({name}{more}): delete the \
         GlobalOwners first, or release their objects with --cascade=orphan, and run it again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_of_both_kinds_are_asked_about_and_refused_where_nobody_answers() {
        let target = "depguard-system/depguard-webhook".parse().unwrap();
        let clients = Clients { target, ca_bundle: None, key: None, own_namespace: None };
        let webhook = &desired(&clients)["webhooks"][0];
        assert_eq!(webhook["failurePolicy"], "Fail");
        assert_eq!(webhook["clientConfig"]["service"]["path"], "/owner");
        assert_eq!(webhook["rules"][0]["operations"], json!(["DELETE"]));
        assert_eq!(webhook["rules"][0]["resources"], json!(["globalowners", "groupowners"]));
    }
}
