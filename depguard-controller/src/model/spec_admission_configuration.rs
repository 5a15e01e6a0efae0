//! Webhook configuration about rules, locks and owners that are about to be stored.

use depguard_core::locks::LockKind;
use depguard_core::{api, owners};
use serde_json::Value;

use crate::model::names::SPEC_ADMISSION_CONFIGURATION;
use crate::model::webhook_configuration::{changed, entry, of_webhooks, webhook};

/// Path for reviews of specs.
pub(crate) const PATH: &str = "/rule";

/// Seconds that an author waits for an answer before the object is stored without one.
const PATIENCE: u8 = 5;

/// Returns the configuration; `client` says how the webhook is reached. Specs are written before a webhook runs, and while
/// none does: nothing is refused then, and the statuses say the same later. It names locks and owners even where they are
/// not installed, since their definitions may come later.
pub(crate) fn desired(client: &Value) -> Value {
    let kinds = [(api::GROUP, api::PLURAL), (owners::GROUP, owners::GLOBAL_OWNERS)];
    let kinds = kinds.into_iter().chain(LockKind::ALL.map(|kind| (api::GROUP, kind.plural())));
    let rules: Vec<_> =
        kinds.map(|(group, resource)| entry(&["CREATE", "UPDATE"], group, "*", resource, "*")).collect();
    let webhook = webhook("rules.dependencies.opendefense.cloud", "Ignore", &rules, client);
    let fields = [("sideEffects", "None".into()), ("timeoutSeconds", PATIENCE.into())];
    of_webhooks(SPEC_ADMISSION_CONFIGURATION, &[changed(webhook, fields)])
}
