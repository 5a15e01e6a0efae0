//! Features beside rules, which both binaries must be told alike.

use std::collections::BTreeSet;

use depguard_core::ControlPlane;
use depguard_core::interlock::Buckets;
use depguard_core::model::GroupResource;

/// Features beside rules that are switched on. Without flags, none is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Features {
    /// ObjectLocks and ClusterObjectLocks: `--enable locks`.
    pub locks: bool,
    /// GlobalOwners and GroupOwners: `--enable owners`. Plain Kubernetes only.
    pub owners: bool,
    /// Events about refusals, beside the refused objects: `--enable denial-events`. Plain Kubernetes only.
    pub denial_events: bool,
    /// The kinds that `kotas.tech/v1` Locks guard: `--compat-lock-kinds`. Plain Kubernetes only.
    pub compat_lock_kinds: BTreeSet<GroupResource>,
    /// The reference registers by which creations of references and deletions of their targets are interlocked:
    /// `--reference-registers`. `None`: they are checked, and not interlocked.
    pub registers: Option<Buckets>,
}

/// Feature that can be switched on by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Feature {
    /// Locks: only the holder of a lock changes or deletes the locked objects
    Locks,
    /// GlobalOwners: one owner of many objects, which are removed in order; plain Kubernetes only
    Owners,
    /// Events beside objects whose deletion, or whose reference, a rule refuses; plain Kubernetes only
    DenialEvents,
}

/// Error: this control plane has no such feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{flag} needs a plain Kubernetes cluster: leave it out with --control-plane kcp")]
pub struct NotInKcp {
    /// The flag.
    flag: &'static str,
}

impl Features {
    /// Makes the features that the flags name.
    pub fn new(
        enabled: impl IntoIterator<Item = Feature>,
        compat_lock_kinds: impl IntoIterator<Item = GroupResource>,
    ) -> Self {
        let mut features = Self { compat_lock_kinds: compat_lock_kinds.into_iter().collect(), ..Self::default() };
        for feature in enabled {
            match feature {
                Feature::Locks => features.locks = true,
                Feature::Owners => features.owners = true,
                Feature::DenialEvents => features.denial_events = true,
            }
        }
        features
    }

    /// Checks that the control plane has all these features.
    pub fn check(&self, control_plane: ControlPlane) -> Result<(), NotInKcp> {
        match control_plane {
            ControlPlane::Kubernetes => Ok(()),
            ControlPlane::Kcp if self.owners => Err(NotInKcp { flag: "--enable owners" }),
            ControlPlane::Kcp if self.denial_events => Err(NotInKcp { flag: "--enable denial-events" }),
            ControlPlane::Kcp if !self.compat_lock_kinds.is_empty() => Err(NotInKcp { flag: "--compat-lock-kinds" }),
            ControlPlane::Kcp => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kcp_does_not_have_is_refused_there() {
        let pods = || "pods".parse::<GroupResource>().unwrap();
        for (features, flag) in [
            (Features::new([Feature::Owners], []), Some("--enable owners")),
            (Features::new([Feature::DenialEvents], []), Some("--enable denial-events")),
            (Features::new([Feature::Locks], [pods()]), Some("--compat-lock-kinds")),
            (Features::new([Feature::Locks], []), None),
            (Features::default(), None),
        ] {
            assert_eq!(features.check(ControlPlane::Kubernetes), Ok(()));
            assert_eq!(features.check(ControlPlane::Kcp).map_err(|error| error.flag).err(), flag);
        }
    }
}
