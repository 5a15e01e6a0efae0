//! Removal of reference registers. Without a webhook configuration no webhook writes marks, and nobody needs them.

use std::collections::BTreeMap;

use depguard_core::api;
use depguard_core::interlock::PLURAL;
use depguard_kcp::{Endpoint, RegisterKeySecret};
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep_until};

use crate::interlock::StoredRegister;
use crate::uninstall::removal::Uninstalled;

/// Maximum number of registers that are deleted at once.
const MAX_CONCURRENT_DELETIONS: usize = 8;

/// Deletes all registers, of whatever number of registers there was, until `end`. Notes the ones that are left: they
/// refuse nothing.
///
/// An account without the right to list registers did not make any.
///
/// The Secret with their key goes, too.
pub(super) async fn delete_all(endpoint: &Endpoint, secret: &RegisterKeySecret, end: Instant, done: &mut Uninstalled) {
    match secret.delete().await {
        // An account without the right did not make any.
        Err(error) if error.status() != Some(403) => {
            done.notes.insert(format!("Secret {} is left ({error}); delete it", RegisterKeySecret::NAME));
        }
        Ok(()) | Err(_) => {}
    }
    let found = match StoredRegister::list(endpoint).await {
        Ok(found) => found,
        Err(error) if error.status() == Some(403) => return,
        Err(error) => return note(done, &format!("depguard could not list ReferenceRegisters ({error})")),
    };
    let all = found.len();
    let deletions = found.into_iter().map(|register| async move {
        let deleted = register.delete(endpoint).await;
        (register.name, deleted)
    });
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

fn note(done: &mut Uninstalled, what: &str) {
    done.notes.insert(format!("{what}; they refuse nothing: run `kubectl delete crd {PLURAL}.{}`", api::GROUP));
}
