//! What RBAC objects allow, as `k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac` reads them.

use serde_json::Value;

use crate::identity::User;
use crate::json::{array, text};
use crate::routes::Objects;
use crate::store::Key;
use crate::world::World;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// What somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish<'a> {
    Objects {
        verb: &'a str,
        objects: &'a Objects,
    },
    /// `verb` is the HTTP method, or kcp's `access`.
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

/// Whether the bindings in the logical cluster `of` allow it. ClusterRoles are looked up there, and then in `or`.
pub(crate) fn allows(world: &World, of: &str, or: &str, users: &[User], wish: Wish<'_>) -> bool {
    let policies = Policies { world, of, or };
    policies.cluster_wide(users, wish) || policies.namespaced(users, wish)
}

struct Policies<'a> {
    world: &'a World,
    of: &'a str,
    or: &'a str,
}

impl Policies<'_> {
    fn cluster_wide(&self, users: &[User], wish: Wish<'_>) -> bool {
        let bindings = self.world.store.in_cluster(GROUP, "clusterrolebindings", self.of);
        let mut bindings = bindings.iter().filter(|binding| binds(&binding.object, users));
        bindings.any(|binding| self.role_allows(&binding.object, "", wish))
    }

    fn namespaced(&self, users: &[User], wish: Wish<'_>) -> bool {
        let Wish::Objects { objects, .. } = wish else { return false };
        let Some(namespace) = objects.scope() else { return false };
        let bindings = self.world.store.in_cluster(GROUP, "rolebindings", self.of);
        let mut bindings = bindings.iter().filter(|binding| binding.key.namespace == namespace);
        bindings.any(|binding| binds(&binding.object, users) && self.role_allows(&binding.object, namespace, wish))
    }

    fn role_allows(&self, binding: &Value, namespace: &str, wish: Wish<'_>) -> bool {
        let name = text(binding, "/roleRef/name").unwrap_or_default();
        let (plural, namespace) = match text(binding, "/roleRef/kind") {
            Some("ClusterRole") => ("clusterroles", ""),
            _ => ("roles", namespace),
        };
        let find = |cluster| self.world.store.get(&Key::new(GROUP, plural, cluster, namespace, name));
        let role = find(self.of).or_else(|| find(self.or));
        role.is_some_and(|role| array(&role.object, "/rules").iter().any(|rule| rule_allows(rule, wish)))
    }
}

fn binds(binding: &Value, users: &[User]) -> bool {
    let is = |subject: &Value, user: &User| {
        let name = text(subject, "/name").unwrap_or_default();
        match text(subject, "/kind") {
            Some("User") => user.name == name,
            Some("Group") => user.groups.iter().any(|group| group == name),
            Some("ServiceAccount") => {
                let namespace = text(subject, "/namespace").unwrap_or_default();
                user.name == format!("system:serviceaccount:{namespace}:{name}")
            }
            _ => false,
        }
    };
    array(binding, "/subjects").iter().any(|subject| users.iter().any(|user| is(subject, user)))
}

fn rule_allows(rule: &Value, wish: Wish<'_>) -> bool {
    let has = |field: &str, wanted: &str| array(rule, field).iter().any(|value| value == "*" || value == wanted);
    match wish {
        Wish::Path { verb, path } => {
            let covers = |pattern: &str| match pattern.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => path == pattern,
            };
            let mut patterns = array(rule, "/nonResourceURLs").iter().filter_map(Value::as_str);
            has("/verbs", verb) && patterns.any(covers)
        }
        Wish::Objects { verb, objects } => {
            let of_any = objects.subresource.as_deref().map(|subresource| format!("*/{subresource}"));
            let resource = has("/resources", &objects.resource()) || of_any.is_some_and(|any| has("/resources", &any));
            let names = array(rule, "/resourceNames");
            let named = names.is_empty() || objects.name.as_deref().is_some_and(|name| names.iter().any(|n| n == name));
            has("/verbs", verb) && has("/apiGroups", &objects.group) && resource && named
        }
    }
}
