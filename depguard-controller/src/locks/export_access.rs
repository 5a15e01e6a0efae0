//! Access to a place through one of depguard's two APIExports.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::{Connection, Endpoint, Snapshot};

use crate::model::api_bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::model::install_place::InstallPlace;
use crate::model::names::LOCK_EXPORT;
use crate::rules::snapshot;
use crate::runtime::apply::{endpoint, own_endpoint};

/// Workspaces that have bound depguard's exports: first the export of locks, then that of rules.
pub(super) struct Access {
    control_plane: ControlPlane,
    bound: [(Bindings, BTreeMap<LogicalCluster, Arc<str>>); 2],
}

/// Access to a place, or the reason why there is none.
pub(super) enum PlaceAccess {
    Open(Result<Endpoint, String>),
    /// The place is about to close: what is installed there must go first.
    Unbinding(Result<Endpoint, String>),
    /// The place has bound an export, but not accepted the claim that every installation needs.
    NotAccepted,
    /// The place has bound neither export.
    Unbound,
}

impl Access {
    /// Reads the bindings from the reflectors of locks and of rules.
    pub(super) fn read(control_plane: ControlPlane, export_name: &str, locks: &Snapshot, rules: &Snapshot) -> Self {
        let bound = [snapshot::bound(LOCK_EXPORT, locks), snapshot::bound(export_name, rules)];
        Self { control_plane, bound }
    }

    pub(super) fn to(&self, connection: &Connection, place: &InstallPlace) -> PlaceAccess {
        let Some(cluster) = place else { return PlaceAccess::Open(Ok(own_endpoint(connection))) };
        if self.control_plane == ControlPlane::Kubernetes {
            return PlaceAccess::Unbound;
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
                return PlaceAccess::Open(endpoint());
            }
            unbinding.get_or_insert_with(endpoint);
        }
        match unbinding {
            Some(endpoint) => PlaceAccess::Unbinding(endpoint),
            None if is_bound => PlaceAccess::NotAccepted,
            None => PlaceAccess::Unbound,
        }
    }
}
