//! What is mirrored for locks, and what it shows.

use std::collections::BTreeSet;

use depguard_core::locks::{Lock, LockKind, LockTable, TABLE_KIND, TABLE_PLURAL};
use depguard_core::{Home, LogicalCluster, api};
use depguard_kcp::{Features, MirrorState, Watched};

use super::plan::{LockKey, Seen};
use super::{COMPAT_CONFIGURATION, CONFIGURATION, KINDS_CONFIGURATION};
use crate::observe;
use crate::plan::Place;

/// What must be mirrored for what is switched on. In home kcp through the APIExport of locks.
pub(super) fn watched(home: Home, features: &Features) -> Vec<Watched> {
    let of_ours =
        |plural, kind| Watched { group: api::GROUP, version: api::VERSION, plural, kind, required: true, names: None };
    let mut watched = Vec::new();
    if features.locks {
        watched.extend(LockKind::ALL.map(|kind| of_ours(kind.plural(), kind.kind())));
        watched.push(of_ours(TABLE_PLURAL, TABLE_KIND));
        watched.push(observe::configuration(CONFIGURATION));
        match home {
            Home::Kcp => watched.push(Watched::BINDINGS),
            Home::Kubernetes => watched.push(observe::configuration(KINDS_CONFIGURATION)),
        }
    }
    if !features.compat_lock_kinds.is_empty() {
        watched.push(observe::configuration(COMPAT_CONFIGURATION));
    }
    watched
}

/// The locks.
pub(super) fn locks(state: &MirrorState) -> Vec<Seen<'_>> {
    let mut seen = Vec::new();
    for kind in LockKind::ALL {
        let objects = state.resource(kind.plural()).into_iter().flat_map(|mirrored| &mirrored.objects);
        seen.extend(objects.map(|((cluster, name), found)| Seen {
            key: LockKey { cluster: cluster.clone(), kind, name: name.clone() },
            object: &found.value,
            origin: &found.origin,
            lock: Lock::read(kind, &found.value),
        }));
    }
    seen
}

/// A table, and where it was read.
pub(super) struct SeenTable<'v> {
    pub(super) cluster: Option<LogicalCluster>,
    pub(super) origin: &'v str,
    pub(super) table: LockTable,
}

/// The tables that can be read.
pub(super) fn tables(state: &MirrorState) -> Vec<SeenTable<'_>> {
    let objects = state.resource(TABLE_PLURAL).into_iter().flat_map(|mirrored| &mirrored.objects);
    let tables = objects.filter_map(|((cluster, _), found)| {
        let table = LockTable::from_value(&found.value).ok()?;
        Some(SeenTable { cluster: cluster.clone(), origin: &found.origin, table })
    });
    tables.collect()
}

/// The places where there is a configuration of this name.
pub(super) fn places(state: &MirrorState, name: &str) -> BTreeSet<Place> {
    let all = state.resources().iter().filter(|mirrored| mirrored.watched.names == Some(name));
    all.flat_map(|mirrored| mirrored.objects.keys()).map(|(cluster, _)| cluster.clone()).collect()
}
