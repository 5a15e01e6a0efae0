//! Webhook configuration about rules that are about to be stored.

use depguard_core::api;
use serde_json::Value;

use crate::model::names::RULE_ADMISSION_CONFIGURATION;
use crate::model::webhook_configuration::{changed, entry, of_webhooks, webhook};

/// Path for reviews of rules.
pub(crate) const PATH: &str = "/rule";

/// Seconds that a rule's author waits for an answer before the rule is stored without one.
const PATIENCE: u8 = 5;

/// Returns the configuration; `client` says how the webhook is reached. Rules are written before a webhook runs, and while
/// none does: nothing is refused then, and the rules' statuses say the same later.
pub(crate) fn desired(client: &Value) -> Value {
    let rules = [entry(&["CREATE", "UPDATE"], api::GROUP, "*", api::PLURAL, "*")];
    let webhook = webhook("rules.dependencies.opendefense.cloud", "Ignore", &rules, client);
    let fields = [("sideEffects", "None".into()), ("timeoutSeconds", PATIENCE.into())];
    of_webhooks(RULE_ADMISSION_CONFIGURATION, &[changed(webhook, fields)])
}
