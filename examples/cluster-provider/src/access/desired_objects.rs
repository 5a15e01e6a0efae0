//! Objects of a cluster that a request asks for. This module only computes them, and reads or writes none.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::refusal::Refusal;
use crate::api::{Permissions, TokenConfig};

/// Namespace, in each cluster, of the ServiceAccounts of its access requests.
pub(super) const ACCOUNTS: &str = "cluster-access";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Identity of a request for the objects that are made for it. A request that is created again under the same name, as
/// from a backup, has the same identity. Each provider has other identities, so that clusters may be shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity(String);

impl Identity {
    /// Returns the identity of the request `namespace/name` of a provider in an environment.
    pub(super) fn new(environment: &str, provider: &str, namespace: &str, name: &str) -> Self {
        Self(format!("access-{}", hash(&[environment, provider, namespace, name])))
    }

    /// Returns the ServiceAccount's name, which is also the value of the label by which the request's objects are
    /// found.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Kinds of objects that are made for a request, in the order of their creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Account that the token belongs to.
    ServiceAccount,
    /// Rights in the whole cluster.
    ClusterRole,
    /// Rights in one namespace.
    Role,
    /// Grant of a ClusterRole.
    ClusterRoleBinding,
    /// Grant of a role in one namespace.
    RoleBinding,
}

impl Kind {
    /// List of all kinds. The account is also the first to be deleted: its tokens end with it.
    pub(super) const ALL: [Self; 5] =
        [Self::ServiceAccount, Self::ClusterRole, Self::Role, Self::ClusterRoleBinding, Self::RoleBinding];

    /// Returns the kind's name in the API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ServiceAccount => "ServiceAccount",
            Self::ClusterRole => "ClusterRole",
            Self::Role => "Role",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
            Self::RoleBinding => "RoleBinding",
        }
    }

    /// Returns the kind's group.
    pub(super) fn group(self) -> &'static str {
        if self == Self::ServiceAccount { "" } else { RBAC }
    }
}

/// Object that a request asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object {
    /// Kind of the object.
    pub(super) kind: Kind,
    /// Namespace of the object, if it has one.
    pub(super) namespace: Option<String>,
    /// Name of the object.
    pub(super) name: String,
    /// Content of the object beside its metadata.
    pub(super) content: Value,
}

/// Everything that a request asks for in its cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DesiredObjects {
    /// Namespaces to create if they are missing. They stay after the request, because others may use them.
    pub(super) namespaces: BTreeSet<String>,
    /// Other objects, in the order of their creation.
    pub(super) objects: Vec<Object>,
}

impl DesiredObjects {
    /// Returns everything that a request asks for. The names in it must have been checked.
    pub(super) fn new(access: &TokenConfig, identity: &Identity) -> Result<Self, Refusal> {
        let mut desired = Self { namespaces: BTreeSet::from([ACCOUNTS.to_owned()]), objects: Vec::new() };
        desired.add(Kind::ServiceAccount, Some(ACCOUNTS), identity.as_str().to_owned(), json!({}));
        for (index, permission) in access.permissions.iter().enumerate() {
            let Permissions { name, namespace, disable_automatic_namespace_creation: disabled, .. } = permission;
            let name = if name.is_empty() { format!("{}-{index}", identity.as_str()) } else { name.clone() };
            let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
            if let Some(namespace) = namespace.filter(|_| !disabled) {
                desired.namespaces.insert(namespace.to_owned());
            }
            let rules: Vec<PolicyRule> = permission.rules.iter().map(plain).collect();
            let kind = if namespace.is_some() { Kind::Role } else { Kind::ClusterRole };
            if desired.has(kind, namespace, &name) {
                return Err(Refusal::Twice { field: format!("spec.token.permissions[{index}]"), name });
            }
            desired.add(kind, namespace, name.clone(), json!({"rules": rules}));
            desired.bind(identity, namespace, &name);
        }
        for reference in &access.role_refs {
            let namespace = Some(reference.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            desired.bind(identity, namespace, &reference.name);
        }
        desired.objects.sort_by_key(|object| object.kind);
        Ok(desired)
    }

    /// Binds the role of a namespace, or of the whole cluster. A binding's role can't be changed, so the binding's name
    /// is made from it. A role is bound once, however often it is named.
    fn bind(&mut self, identity: &Identity, namespace: Option<&str>, role: &str) {
        let (kind, of) = match namespace {
            Some(_) => (Kind::RoleBinding, "Role"),
            None => (Kind::ClusterRoleBinding, "ClusterRole"),
        };
        let name = format!("{}-{}", identity.as_str(), hash(&[of, role]));
        if self.has(kind, namespace, &name) {
            return;
        }
        let account = json!({"kind": "ServiceAccount", "namespace": ACCOUNTS, "name": identity.as_str()});
        let content = json!({"roleRef": {"apiGroup": RBAC, "kind": of, "name": role}, "subjects": [account]});
        self.add(kind, namespace, name, content);
    }

    /// Returns true if that object is among the desired ones.
    pub(super) fn has(&self, kind: Kind, namespace: Option<&str>, name: &str) -> bool {
        let it = (kind, namespace, name);
        self.objects.iter().any(|object| (object.kind, object.namespace.as_deref(), object.name.as_str()) == it)
    }

    fn add(&mut self, kind: Kind, namespace: Option<&str>, name: String, content: Value) {
        self.objects.push(Object { kind, namespace: namespace.map(str::to_owned), name, content });
    }
}

/// Returns the rule as a server returns it: without empty lists.
fn plain(rule: &PolicyRule) -> PolicyRule {
    let filled = |list: &Option<Vec<String>>| list.clone().filter(|list| !list.is_empty());
    PolicyRule {
        api_groups: filled(&rule.api_groups),
        non_resource_urls: filled(&rule.non_resource_urls),
        resource_names: filled(&rule.resource_names),
        resources: filled(&rule.resources),
        verbs: rule.verbs.clone(),
    }
}

/// Returns 20 hexadecimal digits of a hash of the parts. A byte that no name has separates them.
fn hash(parts: &[&str]) -> String {
    let digest = Sha256::digest(parts.join("\0").as_bytes());
    digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
