//! Rights from RBAC objects, as `k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac` reads them.

use std::sync::Arc;

use serde_json::Value;

use crate::options::Kind;
use crate::protocol::identity::User;
use crate::protocol::json::{array, text};
use crate::protocol::routes::Objects;
use crate::store::{Key, Range};
use crate::world::{ONLY, SHARD, World};

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Right that a request needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish<'a> {
    Objects {
        verb: &'a str,
        objects: &'a Objects,
    },
    /// Path outside the resources. `verb` is the HTTP method, or kcp's `access`.
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

/// Returns true if the bindings in the logical cluster `of` allow the request. ClusterRoles are looked up there, and
/// then in `or`.
pub(crate) fn allows(world: &World, of: &str, or: &str, users: &[User], wish: Wish<'_>) -> bool {
    let policies = Policies { world, of, or };
    policies.cluster_wide(users, wish) || policies.namespaced(users, wish)
}

/// Returns the rules that bindings in the logical cluster `of` give, cluster-wide and in a namespace.
pub(crate) fn rules(world: &World, of: &str, or: &str, users: &[User], namespace: &str) -> Vec<Value> {
    let policies = Policies { world, of, or };
    let everywhere = policies.bound("clusterrolebindings", "", users);
    let here = if namespace.is_empty() { Vec::new() } else { policies.bound("rolebindings", namespace, users) };
    everywhere.iter().chain(&here).flat_map(|role| array(role, "/rules")).cloned().collect()
}

/// Returns the role of that name in a logical cluster, or for the whole shard.
pub(crate) fn role(world: &World, cluster: &str, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
    Policies { world, of: cluster, or: if world.kind == Kind::Kcp { SHARD } else { ONLY } }
        .role(plural, namespace, name)
}

struct Policies<'a> {
    world: &'a World,
    of: &'a str,
    or: &'a str,
}

impl Policies<'_> {
    fn cluster_wide(&self, users: &[User], wish: Wish<'_>) -> bool {
        self.bound("clusterrolebindings", "", users).iter().any(|role| role_allows(role, wish))
    }

    fn namespaced(&self, users: &[User], wish: Wish<'_>) -> bool {
        let Wish::Objects { objects, .. } = wish else { return false };
        let Some(namespace) = objects.scope() else { return false };
        self.bound("rolebindings", namespace, users).iter().any(|role| role_allows(role, wish))
    }

    /// Returns the roles that are bound to one of the users.
    fn bound(&self, bindings: &str, namespace: &str, users: &[User]) -> Vec<Arc<Value>> {
        let range = Range { group: GROUP, resource: bindings, cluster: Some(self.of), namespace: Some(namespace) };
        let bindings = self.world.store.list(range).0.into_iter();
        bindings
            .filter(|binding| binds(&binding.object, users))
            .filter_map(|binding| {
                let name = text(&binding.object, "/roleRef/name").unwrap_or_default();
                match text(&binding.object, "/roleRef/kind") {
                    Some("ClusterRole") => self.role("clusterroles", "", name),
                    _ => self.role("roles", namespace, name),
                }
            })
            .collect()
    }

    fn role(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let find = |cluster| self.world.store.get(&Key::new(GROUP, plural, cluster, namespace, name));
        find(self.of).or_else(|| find(self.or)).map(|role| role.object)
    }
}

fn role_allows(role: &Value, wish: Wish<'_>) -> bool {
    array(role, "/rules").iter().any(|rule| rule_allows(rule, wish))
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
    let has = |field: &str, requested: &str| array(rule, field).iter().any(|value| value == "*" || value == requested);
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
