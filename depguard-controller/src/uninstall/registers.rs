//! Removal of reference registers. Without a webhook configuration no webhook writes marks, and nobody needs them.

use std::collections::BTreeMap;

use depguard_core::api;
use depguard_core::interlock::{PLURAL, RegisterName};
use depguard_kcp::{ApiError, Endpoint, Preconditions};
use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::uninstall::removal::Uninstalled;

/// Maximum number of registers that are deleted at once.
const MAX_CONCURRENT_DELETIONS: usize = 8;

/// Deletes all registers, of whatever number of registers there was, until `end`. Notes the ones that are left: they
/// refuse nothing.
///
/// An account without the right to list registers did not make any.
pub(super) async fn delete_all(endpoint: &Endpoint, end: Instant, done: &mut Uninstalled) {
    let collection = RegisterName::collection();
    let mut found = Vec::new();
    let named = |object: &Value| {
        let field = |pointer| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Some((field("/metadata/name")?, field("/metadata/uid")?))
    };
    match endpoint.list_metadata_pages(&collection, |page| found.extend(page.iter().filter_map(named))).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() || error.status() == Some(403) => return,
        Err(error) => return note(done, &format!("depguard could not list ReferenceRegisters ({error})")),
    }
    let all = found.len();
    let deletions = found.iter().map(|(name, uid)| delete(endpoint, &collection, name, uid));
    let deletions = stream::iter(deletions).buffer_unordered(MAX_CONCURRENT_DELETIONS).take_until(sleep_until(end));
    let mut failures = BTreeMap::new();
    let mut deletions = std::pin::pin!(deletions);
    while let Some((name, deleted)) = deletions.next().await {
        match deleted {
            Ok(()) => done.registers = done.registers.saturating_add(1),
            Err(error) => _ = failures.insert(name, error),
        }
    }
    match failures.first_key_value() {
        Some((name, error)) => note(done, &format!("ReferenceRegisters are left, such as {name} ({error})")),
        None if done.registers < all => note(done, "ReferenceRegisters are left, for which there was no time"),
        None => {}
    }
}

/// Deletes one register, and no later one of the same name.
async fn delete<'n>(
    endpoint: &Endpoint,
    collection: &str,
    name: &'n str,
    uid: &str,
) -> (&'n str, Result<(), ApiError>) {
    let only = Preconditions { uid: Some(uid), resource_version: None };
    match endpoint.delete(&format!("{collection}/{name}"), only).await {
        Err(error) if !error.is_not_found() => (name, Err(error)),
        _ => (name, Ok(())),
    }
}

fn note(done: &mut Uninstalled, what: &str) {
    done.notes.insert(format!("{what}; they refuse nothing: run `kubectl delete crd {PLURAL}.{}`", api::GROUP));
}
