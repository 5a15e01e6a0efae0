//! What is left of what was switched on once: configurations by which API servers ask at paths where a webhook without it
//! answers nothing, so that all that they are about is refused.
//!
//! They are not taken away: locks and GlobalOwners may be there yet that rely on them, and a flag is soon forgotten. So it
//! is said at start what to delete.

use std::time::Duration;

use depguard_core::Home;
use depguard_kcp::{Connection, Features};
use tokio::time::sleep;

use crate::configuration;
use crate::install;
use crate::locks;
use crate::owners;

/// The pause before what could not be looked for is looked for again.
const PAUSE: Duration = Duration::from_secs(30);

/// A configuration that is made only while something is switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leftover {
    configuration: &'static str,
    /// What switches it on.
    flag: &'static str,
    /// What relies on it.
    relying: &'static str,
}

/// What there is of them.
#[derive(Debug, Default)]
struct Looked {
    left: Vec<Leftover>,
    /// Those that there is no right to look for.
    hidden: Vec<Leftover>,
    /// Those that could not be looked for.
    failed: Vec<Leftover>,
}

/// Says what is left of what is not switched on, once.
pub(crate) async fn tell(connection: &Connection, home: Home, on: &Features) {
    let mut due = possible(home, on);
    let mut hidden = Vec::new();
    while !due.is_empty() {
        let looked = look(connection, due).await;
        for Leftover { configuration, flag, relying } in looked.left {
            tracing::warn!(
                "ValidatingWebhookConfiguration {configuration} is left from `{flag}`, which is not given: all that it is \
                 about is refused; give the flag again, or, once there are no {relying} any more, run `kubectl delete \
                 validatingwebhookconfiguration {configuration}`{}",
                elsewhere(home)
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
            "there is no right to look for what may be left from {}: if that was ever given here, run `kubectl delete \
             --ignore-not-found validatingwebhookconfiguration {}`{}",
            words(|hidden| hidden.flag, ", "),
            words(|hidden| hidden.configuration, " "),
            elsewhere(home)
        );
    }
}

/// What may be left.
fn possible(home: Home, on: &Features) -> Vec<Leftover> {
    let locks = |configuration| Leftover { configuration, flag: "--enable locks", relying: "ObjectLocks" };
    let compat = Leftover {
        configuration: locks::COMPAT_CONFIGURATION,
        flag: "--compat-lock-kinds",
        relying: "Locks of kotas.tech",
    };
    let owners = Leftover { configuration: owners::guard::NAME, flag: "--enable owners", relying: "GlobalOwners" };
    let is_kubernetes = home == Home::Kubernetes;
    let all = [
        (!on.locks, locks(locks::KINDS_CONFIGURATION)),
        (!on.locks && is_kubernetes, locks(locks::CONFIGURATION)),
        (on.compat_lock_kinds.is_empty() && is_kubernetes, compat),
        (!on.owners && is_kubernetes, owners),
    ];
    all.into_iter().filter_map(|(is_possible, leftover)| is_possible.then_some(leftover)).collect()
}

/// In home kcp those about what is locked lie in others' workspaces.
fn elsewhere(home: Home) -> &'static str {
    match home {
        Home::Kubernetes => "",
        Home::Kcp => {
            " in depguard's workspace, and the same with `depguard-locks` in each that has bound depguard or its locks"
        }
    }
}

async fn look(connection: &Connection, due: Vec<Leftover>) -> Looked {
    let endpoint = install::home(connection);
    let mut looked = Looked::default();
    for leftover in due {
        match install::read(&endpoint, leftover.configuration).await {
            Ok(Some(found)) if configuration::is_ours(&found) => looked.left.push(leftover),
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
            locks,
            owners,
            compat_lock_kinds: compat.iter().map(|kind| kind.parse().unwrap()).collect(),
        };
        let all = ["depguard-lock-kinds", "depguard-locks", "depguard-compat-locks", "depguard-owners"];
        for (on, expected) in [
            (on(false, &[], false), &all[..]),
            (on(true, &[], false), &all[2..]),
            (on(true, &["pods"], false), &all[3..]),
            (on(true, &["pods"], true), &[]),
        ] {
            assert_eq!(names(&possible(Home::Kubernetes, &on)), expected);
        }
        assert_eq!(names(&possible(Home::Kcp, &on(false, &[], false))), all[..1]);
        assert!(possible(Home::Kcp, &on(true, &[], false)).is_empty());
    }

    #[tokio::test]
    async fn what_is_depguard_s_is_found_and_what_cannot_be_seen_is_named() {
        let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, testbed.kubeconfig("", "admin")).unwrap();
        let (kubeconfig, home) = (Some(kubeconfig), Home::Kubernetes);
        let options = ConnectOptions::new(home).kubeconfig(kubeconfig);
        let connection = Connection::open(&options).await.unwrap();
        let collection = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let mut foreign = configuration::of_webhooks(locks::KINDS_CONFIGURATION, &[]);
        foreign["metadata"]["labels"] = json!({});
        for object in [foreign, configuration::of_webhooks(owners::guard::NAME, &[])] {
            connection.home().post_json(collection, &object).await.unwrap();
        }
        let fails = |fault, name| testbed.faults().inject(fault, When::always().path(name));
        fails(Fault::Forbidden, "/depguard-locks");
        let failing = fails(Fault::InternalError, "/depguard-compat-locks");
        let looked = look(&connection, possible(home, &Features::default())).await;
        assert_eq!(names(&looked.left), ["depguard-owners"]);
        assert_eq!(names(&looked.hidden), ["depguard-locks"]);
        assert_eq!(names(&looked.failed), ["depguard-compat-locks"]);
        testbed.faults().clear(failing);
        assert!(look(&connection, looked.failed).await.failed.is_empty());
    }
}
