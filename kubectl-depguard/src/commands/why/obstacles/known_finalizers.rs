//! Well-known finalizers: who removes each, and when.

/// Finalizers: blocks of lines, each with a finalizer's name, the controller that removes it, the state for which the
/// controller waits, and the user's next step; or with `*.`, a domain, and the controller of the domain's finalizers.
const KNOWN: &str = include_str!("known_finalizers.txt");

/// Finalizer whose controller is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownFinalizer {
    /// Controller that removes the finalizer.
    pub(super) remover: &'static str,
    /// State for which the controller waits: the end of the sentence "removes it once …".
    pub(super) condition: &'static str,
    /// Next step of the user.
    pub(super) next_step: &'static str,
}

fn blocks() -> impl Iterator<Item = Vec<&'static str>> {
    KNOWN.split("\n\n").map(|block| block.lines().collect())
}

/// Returns the finalizer of this name.
pub(super) fn find(finalizer: &str) -> Option<KnownFinalizer> {
    // Argo CD writes the cascade behind the name: `resources-finalizer.argocd.argoproj.io/background`.
    let whole = |name: &str| finalizer == name || finalizer.strip_prefix(name).is_some_and(|rest| is_argo(name, rest));
    let domain = domain(finalizer);
    let within = |outer: &str| domain.strip_suffix(outer).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    // Names stand before domains, and a domain includes its subdomains.
    blocks().find_map(|block| match block[..] {
        [name, remover, condition, next_step] if whole(name) => Some(KnownFinalizer { remover, condition, next_step }),
        [name, remover] if name.strip_prefix("*.").is_some_and(within) => Some(KnownFinalizer {
            remover,
            condition: "its work for the object is done",
            next_step: "check that this controller runs, and read its log for this object",
        }),
        _ => None,
    })
}

/// Returns the domain of a finalizer: the part before the slash.
pub(super) fn domain(finalizer: &str) -> &str {
    finalizer.split('/').next().unwrap_or(finalizer)
}

fn is_argo(name: &str, rest: &str) -> bool {
    name.ends_with(".argocd.argoproj.io") && rest.starts_with('/')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_finalizer_is_known_by_its_name_or_its_domain() {
        for (finalizer, remover) in [
            ("kubernetes.io/pvc-protection", Some("kube-controller-manager (PVC protection controller)")),
            ("resources-finalizer.argocd.argoproj.io/background", Some("the Argo CD application controller")),
            ("machine.cluster.x-k8s.io", Some("Cluster API or one of its providers")),
            ("awsmachine.infrastructure.cluster.x-k8s.io", Some("Cluster API or one of its providers")),
            ("external-attacher/ebs-csi-aws-com", Some("the external-attacher of a CSI driver")),
            ("kubernetes.io/pvc-protection/more", None),
            ("notcluster.x-k8s.io", None),
            ("evilfluxcd.io", None),
            ("example.com/disk", None),
            ("kubernetes.io/unheard-of", None),
        ] {
            assert_eq!(find(finalizer).map(|known| known.remover), remover, "{finalizer}");
        }
    }

    #[test]
    fn each_name_stands_once() {
        let names: Vec<_> = blocks().map(|block| block[0]).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        let is_whole = |block: &Vec<&str>| if block[0].starts_with("*.") { block.len() == 2 } else { block.len() == 4 };
        assert!(names.len() == 57 && blocks().all(|block| is_whole(&block)), "{:#?}", blocks().collect::<Vec<_>>());
    }
}
