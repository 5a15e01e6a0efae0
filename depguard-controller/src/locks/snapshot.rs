//! Locks and their tables, read from the snapshot of the watched objects.

use std::borrow::Cow;
use std::collections::BTreeMap;

use depguard_core::locks::{LockKind, LockTable, TABLE_KIND, TABLE_PLURAL};
use depguard_core::{ControlPlane, LogicalCluster, api};
use depguard_kcp::{Features, ObjectText, Snapshot, Watched};

use crate::locks::plan::{LockKey, LockSnapshot};
use crate::model::install_place::InstallPlace;
use crate::model::names::{COMPAT_LOCKS_CONFIGURATION, LOCK_KINDS_CONFIGURATION, LOCKS_CONFIGURATION};
use crate::rules::snapshot;

/// Returns the resources to watch for the features that are switched on. In kcp they are watched through the APIExport
/// of locks.
pub(super) fn watched(control_plane: ControlPlane, features: &Features) -> Vec<Watched> {
    let of_ours = |plural, kind| Watched {
        group: api::GROUP,
        version: api::VERSION,
        plural,
        kind,
        required: true,
        names: None,
        fields: None,
    };
    let mut watched = Vec::new();
    if features.locks {
        watched.extend(LockKind::ALL.map(|kind| of_ours(kind.plural(), kind.kind())));
        watched.push(of_ours(TABLE_PLURAL, TABLE_KIND));
        watched.push(snapshot::configuration(LOCKS_CONFIGURATION));
        match control_plane {
            ControlPlane::Kcp => watched.push(Watched::BINDINGS),
            ControlPlane::Kubernetes => watched.push(snapshot::configuration(LOCK_KINDS_CONFIGURATION)),
        }
    }
    if !features.compat_lock_kinds.is_empty() {
        watched.push(snapshot::configuration(COMPAT_LOCKS_CONFIGURATION));
    }
    watched
}

/// Returns the locks.
pub(super) fn locks(state: &Snapshot) -> Vec<LockSnapshot<'_>> {
    let mut seen = Vec::new();
    for kind in LockKind::ALL {
        let objects = state.resource(kind.plural()).into_iter().flat_map(|resource| &resource.objects);
        seen.extend(objects.map(|((cluster, name), found)| {
            let key = LockKey { cluster: cluster.clone(), kind, name: name.clone() };
            LockSnapshot::read(key, Cow::Borrowed(&*found.text), &found.origin)
        }));
    }
    seen
}

/// Lock table, and where it was read.
pub(super) struct SeenTable<'v> {
    pub(super) cluster: Option<LogicalCluster>,
    pub(super) origin: &'v str,
    pub(super) table: LockTable,
}

/// Returns the tables that can be read.
pub(super) fn tables(state: &Snapshot) -> Vec<SeenTable<'_>> {
    let objects = state.resource(TABLE_PLURAL).into_iter().flat_map(|resource| &resource.objects);
    let tables = objects.filter_map(|((cluster, _), found)| {
        let table = LockTable::from_value(&found.text.read()).ok()?;
        Some(SeenTable { cluster: cluster.clone(), origin: &found.origin, table })
    });
    tables.collect()
}

/// Returns the watched configurations of this name, by place.
pub(super) fn configurations<'v>(states: &[&'v Snapshot], name: &str) -> BTreeMap<InstallPlace, &'v ObjectText> {
    let all = states.iter().flat_map(|state| state.resources());
    let all = all.filter(|resource| resource.watched.names == Some(name));
    let all = all.flat_map(|resource| &resource.objects);
    all.map(|((cluster, _), found)| (cluster.clone(), &*found.text)).collect()
}
