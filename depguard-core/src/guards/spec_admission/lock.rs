//! Findings about a lock, by the kinds that it names.

use super::findings::Findings;
use super::kind_read::{KindRead, read_of, reads};
use crate::guards::locks::Lock;
use crate::model::control_plane::ControlPlane;
use crate::protocol::unreviewed::Unreviewed;
use crate::schema::KindState;

/// Returns the kinds to read: in kcp none. A lock is about its kinds in all versions.
pub(super) fn kinds(lock: &Lock, control_plane: ControlPlane) -> Vec<KindRead> {
    match control_plane {
        ControlPlane::Kubernetes => reads(lock.targets().iter().map(|target| (target.kind.clone(), None))),
        ControlPlane::Kcp => Vec::new(),
    }
}

pub(super) fn findings(lock: &Lock, kinds: &[KindRead]) -> Findings {
    let mut found = Findings::default();
    for (index, target) in lock.targets().iter().enumerate() {
        let (kind, field) = (&target.kind, format!("spec.targets[{index}]"));
        let unreviewed = Unreviewed::from_kind(kind).map(|why| format!("{kind} can't be locked: they {why}"));
        let error = match read_of(kinds, kind, None).and_then(KindRead::state) {
            _ if unreviewed.is_some() => unreviewed,
            Some(KindState::Facts(facts)) => target.wrong_scope(lock.kind(), facts.namespaced),
            Some(KindState::NotServed | KindState::NotInstalled) => {
                found.warnings.push(format!(
                    "{field}: the API server does not serve {kind}: correct the group and the resource (the plural, in \
                     lower case), or install the kind"
                ));
                None
            }
            Some(KindState::Unknown(_)) | None => None,
        };
        found.errors.extend(error.map(|error| (format!("{field}: {error}"), Some(field))));
    }
    found
}
