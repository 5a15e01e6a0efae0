//! By which of depguard's two APIExports a place is reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::{Home, LogicalCluster};
use depguard_kcp::{Connection, Endpoint, MirrorState};

use crate::bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::install::{endpoint, home};
use crate::manifests::LOCK_EXPORT;
use crate::observe;
use crate::plan::Place;

/// The workspaces that have bound depguard's exports: the one of locks, then the one of rules.
pub(super) struct Access {
    home: Home,
    bound: [(Bindings, BTreeMap<LogicalCluster, Arc<str>>); 2],
}

/// How a place is reached.
pub(super) enum Way {
    Open(Result<Endpoint, String>),
    /// It is about to be closed: what is installed must go first.
    Unbinding(Result<Endpoint, String>),
    /// It was bound, and the claim without which nothing can be installed was not accepted.
    NotAccepted,
    /// It has bound neither.
    Unbound,
}

impl Access {
    /// As what is mirrored for locks and for rules shows it.
    pub(super) fn read(home: Home, export_name: &str, locks: &MirrorState, rules: &MirrorState) -> Self {
        let of = |export, state| (observe::bindings(export, state), observe::origins(export, state));
        Self { home, bound: [of(LOCK_EXPORT, locks), of(export_name, rules)] }
    }

    pub(super) fn to(&self, connection: &Connection, place: &Place) -> Way {
        let Some(cluster) = place else { return Way::Open(Ok(home(connection))) };
        if self.home == Home::Kubernetes {
            return Way::Unbound;
        }
        let mut unbinding = None;
        let mut is_bound = false;
        for (bindings, origins) in &self.bound {
            let (Some(binding), Some(origin)) = (bindings.of(cluster), origins.get(cluster)) else { continue };
            is_bound = true;
            if binding.claim(CONFIGURATIONS) == Claim::NotAccepted {
                continue;
            }
            let endpoint = || endpoint(connection, origin, Some(cluster));
            if !binding.terminating {
                return Way::Open(endpoint());
            }
            unbinding.get_or_insert_with(endpoint);
        }
        match unbinding {
            Some(endpoint) => Way::Unbinding(endpoint),
            None if is_bound => Way::NotAccepted,
            None => Way::Unbound,
        }
    }
}
