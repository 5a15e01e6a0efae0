//! What is switched on beside rules: what both binaries must be told alike.

use std::collections::BTreeSet;

use depguard_core::{GroupResource, Home};

/// What is switched on beside rules. Without flags nothing is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Features {
    /// ObjectLocks and ClusterObjectLocks: `--enable locks`.
    pub locks: bool,
    /// GlobalOwners and GroupOwners: `--enable owners`. Home kubernetes only.
    pub owners: bool,
    /// The kinds that `kotas.tech/v1` Locks guard: `--compat-lock-kinds`. Home kubernetes only.
    pub compat_lock_kinds: BTreeSet<GroupResource>,
}

/// What can be switched on by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Feature {
    /// Locks: nobody changes or deletes a locked object
    Locks,
    /// Global owners: many objects under one owner, removed in order; home kubernetes only
    Owners,
}

/// What is switched on does not exist where depguard runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{flag} needs a plain Kubernetes cluster: leave it out with --home kcp")]
pub struct NotInKcp {
    /// The flag.
    flag: &'static str,
}

impl Features {
    /// What the flags say.
    pub fn new(
        enabled: impl IntoIterator<Item = Feature>,
        compat_lock_kinds: impl IntoIterator<Item = GroupResource>,
    ) -> Self {
        let mut features = Self { compat_lock_kinds: compat_lock_kinds.into_iter().collect(), ..Self::default() };
        for feature in enabled {
            match feature {
                Feature::Locks => features.locks = true,
                Feature::Owners => features.owners = true,
            }
        }
        features
    }

    /// Whether all of it exists where depguard runs.
    pub fn check(&self, home: Home) -> Result<(), NotInKcp> {
        match home {
            Home::Kubernetes => Ok(()),
            Home::Kcp if self.owners => Err(NotInKcp { flag: "--enable owners" }),
            Home::Kcp if !self.compat_lock_kinds.is_empty() => Err(NotInKcp { flag: "--compat-lock-kinds" }),
            Home::Kcp => Ok(()),
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
            (Features::new([Feature::Locks], [pods()]), Some("--compat-lock-kinds")),
            (Features::new([Feature::Locks], []), None),
            (Features::default(), None),
        ] {
            assert_eq!(features.check(Home::Kubernetes), Ok(()));
            assert_eq!(features.check(Home::Kcp).map_err(|error| error.flag).err(), flag);
        }
    }
}
