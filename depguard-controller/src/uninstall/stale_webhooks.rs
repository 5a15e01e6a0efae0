//! Stale configurations of features that are not switched on any more. By these configurations API servers ask at paths
//! at which the webhook no longer answers, so everything that they cover is refused.
//!
//! They are not removed: locks and GlobalOwners that rely on them may still exist, and a flag is soon forgotten. So at
//! its start the controller logs what to delete.

use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_kcp::{Connection, Features};
use tokio::time::sleep;

use crate::model::names::{COMPAT_LOCKS_CONFIGURATION, LOCK_KINDS_CONFIGURATION, LOCKS_CONFIGURATION};
use crate::model::webhook_configuration;
use crate::owners;
use crate::runtime::apply;

/// Pause before a failed search is repeated.
const PAUSE: Duration = Duration::from_secs(30);

/// Configuration that is made only while a feature is switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leftover {
    configuration: &'static str,
    /// Flag that switches the feature on.
    flag: &'static str,
    /// Objects that rely on the configuration.
    relying: &'static str,
}

/// Result of a search for these configurations.
#[derive(Debug, Default)]
struct SearchResult {
    left: Vec<Leftover>,
    /// Configurations for which there is no right to look.
    hidden: Vec<Leftover>,
    /// Configurations that could not be looked for.
    failed: Vec<Leftover>,
}

/// Logs, once, the configurations that are left of features that are not switched on.
pub(crate) async fn tell(connection: &Connection, control_plane: ControlPlane, on: &Features) {
    let mut due = possible(control_plane, on);
    let mut hidden = Vec::new();
    while !due.is_empty() {
        let looked = look(connection, due).await;
        for Leftover { configuration, flag, relying } in looked.left {
            tracing::warn!(
                "ValidatingWebhookConfiguration {configuration} is left from `{flag}`, which is not set, so API \
                 servers refuse every request that it covers: set the flag again, or, when no {relying} are left, run \
                 `kubectl delete validatingwebhookconfiguration {configuration}`{}",
                elsewhere(control_plane)
            );
        }
        hidden.extend(looked.hidden);
        due = looked.failed;
        if !due.is_empty() {
            sleep(PAUSE).await;
        }
    }
    if !hidden.is_empty() {
        let words = |word: fn(&Leftover) -> &'static str, between| {
            let mut words: Vec<_> = hidden.iter().map(word).collect();
            words.dedup();
            words.join(between)
        };
        tracing::info!(
            "the controller has no right to look for configurations that are left from {}: if these flags were ever set here, \
             run `kubectl delete --ignore-not-found validatingwebhookconfiguration {}`{}",
            words(|hidden| hidden.flag, ", "),
            words(|hidden| hidden.configuration, " "),
            elsewhere(control_plane)
        );
    }
}

/// Returns the configurations that may be left.
fn possible(control_plane: ControlPlane, on: &Features) -> Vec<Leftover> {
    let locks = |configuration| Leftover { configuration, flag: "--enable locks", relying: "ObjectLocks" };
    let compat = Leftover {
        configuration: COMPAT_LOCKS_CONFIGURATION,
        flag: "--compat-lock-kinds",
        relying: "Locks of kotas.tech",
    };
    let owners = Leftover { configuration: owners::webhook::NAME, flag: "--enable owners", relying: "GlobalOwners" };
    let is_kubernetes = control_plane == ControlPlane::Kubernetes;
    let all = [
        (!on.locks, locks(LOCK_KINDS_CONFIGURATION)),
        (!on.locks && is_kubernetes, locks(LOCKS_CONFIGURATION)),
        (on.compat_lock_kinds.is_empty() && is_kubernetes, compat),
        (!on.owners && is_kubernetes, owners),
    ];
    all.into_iter().filter_map(|(is_possible, leftover)| is_possible.then_some(leftover)).collect()
}

/// Returns a hint at further places: in kcp the configurations about locked objects are in other workspaces.
fn elsewhere(control_plane: ControlPlane) -> &'static str {
    match control_plane {
        ControlPlane::Kubernetes => "",
        ControlPlane::Kcp => {
            " in depguard's workspace, and the same with `depguard-locks` in each that has bound depguard or its locks"
        }
    }
}

async fn look(connection: &Connection, due: Vec<Leftover>) -> SearchResult {
    let endpoint = apply::own_endpoint(connection);
    let mut looked = SearchResult::default();
    for leftover in due {
        match apply::read(&endpoint, leftover.configuration).await {
            Ok(Some(found)) if webhook_configuration::is_ours(&found) => looked.left.push(leftover),
            Ok(_) => {}
            Err(error) if error.status() == Some(403) => looked.hidden.push(leftover),
            Err(error) => {
                tracing::debug!("could not look for {}, trying again: {error}", leftover.configuration);
                looked.failed.push(leftover);
            }
        }
    }
    looked
}

#[cfg(test)]
mod tests {
    use depguard_kcp::ConnectOptions;
    use depguard_testbed::{Fault, Options, Testbed, When};
    use serde_json::json;

    use super::*;

    fn names(leftovers: &[Leftover]) -> Vec<&str> {
        leftovers.iter().map(|leftover| leftover.configuration).collect()
    }

    #[test]
    fn what_is_switched_on_is_no_leftover() {
        let on = |locks, compat: &[&str], owners| Features {
            denial_events: false,
            locks,
            owners,
            compat_lock_kinds: compat.iter().map(|kind| kind.parse().unwrap()).collect(),
            registers: None,
        };
        let all = ["depguard-lock-kinds", "depguard-locks", "depguard-compat-locks", "depguard-owners"];
        for (on, expected) in [
            (on(false, &[], false), &all[..]),
            (on(true, &[], false), &all[2..]),
            (on(true, &["pods"], false), &all[3..]),
            (on(true, &["pods"], true), &[]),
        ] {
            assert_eq!(names(&possible(ControlPlane::Kubernetes, &on)), expected);
        }
        assert_eq!(names(&possible(ControlPlane::Kcp, &on(false, &[], false))), all[..1]);
        assert!(possible(ControlPlane::Kcp, &on(true, &[], false)).is_empty());
    }

    #[tokio::test]
    async fn what_is_depguard_s_is_found_and_what_cannot_be_seen_is_named() {
        let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, testbed.kubeconfig("", "admin")).unwrap();
        let (kubeconfig, control_plane) = (Some(kubeconfig), ControlPlane::Kubernetes);
        let options = ConnectOptions::new(control_plane).kubeconfig(kubeconfig);
        let connection = Connection::open(&options).await.unwrap();
        let collection = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let mut foreign = webhook_configuration::of_webhooks(LOCK_KINDS_CONFIGURATION, &[]);
        foreign["metadata"]["labels"] = json!({});
        for object in [foreign, webhook_configuration::of_webhooks(owners::webhook::NAME, &[])] {
            connection.own_endpoint().post_json(collection, &object).await.unwrap();
        }
        let fails = |fault, name| testbed.faults().inject(fault, When::always().path(name));
        fails(Fault::Forbidden, "/depguard-locks");
        let failing = fails(Fault::InternalError, "/depguard-compat-locks");
        let looked = look(&connection, possible(control_plane, &Features::default())).await;
        assert_eq!(names(&looked.left), ["depguard-owners"]);
        assert_eq!(names(&looked.hidden), ["depguard-locks"]);
        assert_eq!(names(&looked.failed), ["depguard-compat-locks"]);
        testbed.faults().clear(failing);
        assert!(look(&connection, looked.failed).await.failed.is_empty());
    }
}
