//! Objects that every cluster has, for commands that read no API server.

use std::collections::HashSet;
use std::sync::LazyLock;

use depguard_core::model::GroupResource;

/// Resource, namespace and name of each object.
static OBJECTS: LazyLock<HashSet<[&str; 3]>> = LazyLock::new(|| {
    let (mut objects, mut place) = (HashSet::new(), ["", ""]);
    for line in include_str!("every_cluster.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if !line.starts_with(' ') {
            place = [words.next().unwrap_or_default(), words.next().unwrap_or_default()];
        }
        let [resource, namespace] = place;
        objects.extend(words.map(|name| [resource, namespace, name]));
    }
    objects
});
/// Place of the objects of a kind without namespaces.
const NO_NAMESPACE: &str = "-";
/// Place of the objects that each namespace has.
const EACH_NAMESPACE: &str = "*";

/// Returns true for an object that every cluster has. Without a namespace, an object in any is meant.
pub(crate) fn has(kind: &GroupResource, namespace: Option<&str>, name: &str) -> bool {
    let resource = kind.to_string();
    let is_there = |place| OBJECTS.contains(&[resource.as_str(), place, name]);
    each_namespace_has(kind, name)
        || match namespace {
            Some(namespace) => is_there(namespace),
            None => OBJECTS.iter().any(|[own, _, object]| *own == resource && *object == name),
        }
        || is_there(NO_NAMESPACE)
}

/// Returns true for an object that is put into each namespace, and put back whoever deletes it.
pub(crate) fn each_namespace_has(kind: &GroupResource, name: &str) -> bool {
    OBJECTS.contains(&[kind.to_string().as_str(), EACH_NAMESPACE, name])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_every_cluster_has_is_known_where_it_is() {
        for (kind, namespace, name, is_there) in [
            ("clusterroles.rbac.authorization.k8s.io", None, "view", true),
            ("clusterroles.rbac.authorization.k8s.io", None, "system:volume-scheduler", true),
            ("clusterroles.rbac.authorization.k8s.io", None, "viewer", false),
            ("clusterroles.example.com", None, "view", false),
            ("roles.rbac.authorization.k8s.io", Some("kube-system"), "extension-apiserver-authentication-reader", true),
            ("roles.rbac.authorization.k8s.io", Some("shop"), "extension-apiserver-authentication-reader", false),
            ("roles.rbac.authorization.k8s.io", None, "extension-apiserver-authentication-reader", true),
            ("serviceaccounts", Some("shop"), "default", true),
            ("serviceaccounts", Some("shop"), "shop", false),
            ("services", Some("default"), "kubernetes", true),
            ("services", Some("shop"), "kubernetes", false),
            ("priorityclasses.scheduling.k8s.io", None, "system-node-critical", true),
        ] {
            assert_eq!(has(&kind.parse().unwrap(), namespace, name), is_there, "{kind} {namespace:?} {name}");
        }
        let each = |kind: &str, name| each_namespace_has(&kind.parse().unwrap(), name);
        assert!(each("configmaps", "kube-root-ca.crt") && !each("services", "kubernetes"));
    }
}
