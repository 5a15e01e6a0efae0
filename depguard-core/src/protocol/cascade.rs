//! Cascade of a deletion: the outcome for the dependents that the deleted object owns.

use serde::Deserialize;

use crate::scan::text::Text;

/// Outcome for the objects that name the deleted object as their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cascade {
    /// The garbage collector deletes them once their owner is gone.
    Background,
    /// The garbage collector deletes them before their owner.
    Foreground,
    /// The garbage collector takes the owner out of their ownerReferences, and they stay.
    Orphan,
}

/// The DeleteOptions about owned objects.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeleteOptions<'a> {
    #[serde(borrow)]
    propagation_policy: Option<Text<'a>>,
    orphan_dependents: Option<bool>,
}

/// Finalizers by which an API server marks a deletion in the foreground, and a deletion that orphans.
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";

impl DeleteOptions<'_> {
    /// Returns the requested cascade; `None` if the options leave it open.
    pub(crate) fn cascade(&self) -> Option<Cascade> {
        let policy = self.propagation_policy.as_ref().map(Text::as_str);
        match (self.orphan_dependents, policy.filter(|policy| !policy.is_empty())) {
            (Some(true), _) | (None, Some("Orphan")) => Some(Cascade::Orphan),
            (Some(false), _) | (None, Some("Background")) => Some(Cascade::Background),
            (None, Some(_)) => Some(Cascade::Foreground),
            (None, None) => None,
        }
    }
}

impl Cascade {
    /// Returns the cascade by an API server's rules: the request comes first, then the first of the two finalizers that
    /// the object already has, and then the default of its kind.
    pub(crate) fn new<'f>(
        requested: Option<Self>,
        mut finalizers: impl Iterator<Item = Text<'f>>,
        group: &str,
        resource: &str,
    ) -> Self {
        let marked = || {
            finalizers.find_map(|finalizer| match finalizer.as_str() {
                FOREGROUND_FINALIZER => Some(Self::Foreground),
                ORPHAN_FINALIZER => Some(Self::Orphan),
                _ => None,
            })
        };
        // These two kinds alone orphan by default, in the only version in which they are still served.
        let of_kind = || match (group, resource) {
            ("batch", "jobs") | ("", "replicationcontrollers") => Self::Orphan,
            _ => Self::Background,
        };
        requested.or_else(marked).unwrap_or_else(of_kind)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn cascade(options: &str, finalizers: &[&str], group: &str, resource: &str) -> Cascade {
        let options: DeleteOptions<'_> = serde_json::from_str(options).unwrap();
        Cascade::new(
            options.cascade(),
            finalizers.iter().copied().map(|text| Text(Cow::Borrowed(text))),
            group,
            resource,
        )
    }

    /// In the order of `shouldOrphanDependents` and `shouldDeleteDependents` of k8s.io/apiserver's store.
    #[test]
    fn options_come_before_finalizers_and_these_before_the_kind() {
        let both = ["orphan", "foregroundDeletion"];
        for (options, finalizers, expected) in [
            (r#"{"orphanDependents":true}"#, &both[1..], Cascade::Orphan),
            (r#"{"orphanDependents":false}"#, &both[..], Cascade::Background),
            (r#"{"propagationPolicy":"Orphan"}"#, &both[1..], Cascade::Orphan),
            (r#"{"propagationPolicy":"Background"}"#, &both[..], Cascade::Background),
            (r#"{"propagationPolicy":"Foreground"}"#, &both[..], Cascade::Foreground),
            ("{}", &both[..], Cascade::Orphan),
            ("{}", &["foregroundDeletion", "orphan"], Cascade::Foreground),
            ("{}", &["example.com/x"], Cascade::Background),
        ] {
            assert_eq!(cascade(options, finalizers, "g", "vms"), expected, "{options} {finalizers:?}");
        }
    }

    #[test]
    fn jobs_and_replication_controllers_orphan_by_default() {
        for (group, resource) in [("batch", "jobs"), ("", "replicationcontrollers")] {
            assert_eq!(cascade("{}", &[], group, resource), Cascade::Orphan);
            assert_eq!(cascade("{}", &["foregroundDeletion"], group, resource), Cascade::Foreground);
            let background = r#"{"propagationPolicy":"Background"}"#;
            assert_eq!(cascade(background, &["orphan"], group, resource), Cascade::Background);
        }
        assert_eq!(cascade("{}", &[], "batch", "cronjobs"), Cascade::Background);
    }
}
