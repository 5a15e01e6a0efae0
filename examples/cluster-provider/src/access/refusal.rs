//! Reasons for which a request is denied.

use crate::api::{AccessRequestSpec, ObjectRef, RoleRef, TokenConfig};

/// Maximum of roles and bindings of one request: each of them costs requests to its cluster, again and again.
const MAX_ROLES: usize = 256;

/// Reason for which a request is denied for good, as long as it stays the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The request has both ways of access.
    #[error("`spec.token` and `spec.oidc` are both set: keep only one of them")]
    TwoWays,
    /// The request has no way of access.
    #[error("neither `spec.token` nor `spec.oidc` is set: ask for access with `spec.token`")]
    NoWay,
    /// The request wants access by OIDC.
    #[error("this provider gives no access by OIDC: ask for it with `spec.token` instead of `spec.oidc`")]
    Oidc,
    /// A name is not valid for a role or a namespace.
    #[error("`{field}` is `{value}`, which is not a valid name of a {what}: {hint}")]
    Name {
        /// Path of the field.
        field: String,
        /// Value of the field.
        value: String,
        /// Kind of the named object.
        what: &'static str,
        /// Rule for valid names.
        hint: &'static str,
    },
    /// A reference names a role of an unknown kind.
    #[error("`{field}.kind` is `{kind}`: it can be `Role` or `ClusterRole`")]
    Kind {
        /// Path of the reference.
        field: String,
        /// Kind in the reference.
        kind: String,
    },
    /// A reference names a Role without a namespace, or a ClusterRole with one.
    #[error("`{field}` names a {kind} {wrong}")]
    Scope {
        /// Path of the reference.
        field: String,
        /// Kind of the role: `Role` or `ClusterRole`.
        kind: &'static str,
        /// Error, and its remedy.
        wrong: &'static str,
    },
    /// The request has the same role twice, each time with rules of its own.
    #[error("`{field}` asks for the role `{name}` again: put the rules of both into one entry")]
    Twice {
        /// Path of the second permission.
        field: String,
        /// Name of the role.
        name: String,
    },
    /// The request has too many roles.
    #[error("the request asks for {count} roles and bindings, more than {MAX_ROLES}: combine rules in fewer roles")]
    TooMany {
        /// Number of roles and bindings.
        count: usize,
    },
    /// Another party made a role of this name.
    #[error(
        "the {kind} `{name}` exists in the cluster and was not made for this request: choose another name in \
         `spec.token.permissions`, or bind it as it is by `spec.token.roleRefs`"
    )]
    Taken {
        /// Kind of the role or binding.
        kind: &'static str,
        /// Name of the role or binding, after its namespace if it has one.
        name: String,
    },
    /// The cluster's API server calls an object invalid.
    #[error("the cluster rejects the {kind} `{name}`: {message}")]
    Rejected {
        /// Kind of the role or binding.
        kind: &'static str,
        /// Name of the role or binding, after its namespace if it has one.
        name: String,
        /// Message of the server.
        message: String,
    },
}

impl Refusal {
    /// Returns the condition's reason.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Oidc => "OIDCNotSupported",
            Self::Taken { .. } => "RoleExists",
            Self::Rejected { .. } => "RejectedByCluster",
            _ => "InvalidRequest",
        }
    }
}

/// Returns the requested access, if it is by token and no name in it leads a URL astray. The cluster's API server
/// judges the rest.
pub(super) fn token(spec: &AccessRequestSpec) -> Result<&TokenConfig, Refusal> {
    let token = match (&spec.token, &spec.oidc) {
        (Some(token), None) => token,
        (Some(_), Some(_)) => return Err(Refusal::TwoWays),
        (None, None) => return Err(Refusal::NoWay),
        (None, Some(_)) => return Err(Refusal::Oidc),
    };
    if let Some(ObjectRef { name, namespace }) = &spec.cluster_ref {
        check_cluster_name(name)?;
        check_namespace(namespace, "spec.clusterRef")?;
    }
    let count = token.permissions.len().saturating_add(token.role_refs.len());
    if count > MAX_ROLES {
        return Err(Refusal::TooMany { count });
    }
    for (index, permission) in token.permissions.iter().enumerate() {
        let field = format!("spec.token.permissions[{index}]");
        check_role_name(&permission.name, &field)?;
        check_namespace(&permission.namespace, &field)?;
    }
    for (index, reference) in token.role_refs.iter().enumerate() {
        check_reference(reference, format!("spec.token.roleRefs[{index}]"))?;
    }
    Ok(token)
}

fn check_reference(reference: &RoleRef, field: String) -> Result<(), Refusal> {
    match (reference.kind.as_str(), reference.namespace.is_empty()) {
        ("ClusterRole", true) => Ok(()),
        ("Role", false) => check_namespace(&reference.namespace, &field),
        ("Role", true) => Err(Refusal::Scope { field, kind: "Role", wrong: "without a namespace: set its namespace" }),
        ("ClusterRole", false) => Err(Refusal::Scope {
            field,
            kind: "ClusterRole",
            wrong: "with a namespace, which ClusterRoles don't have: leave it out",
        }),
        (kind, _) => Err(Refusal::Kind { field, kind: kind.to_owned() }),
    }
}

fn check_role_name(name: &str, field: &str) -> Result<(), Refusal> {
    let is_of = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':' | b'_');
    if name.is_empty() || (name.len() <= 253 && name.bytes().all(is_of) && name != "." && name != "..") {
        return Ok(());
    }
    Err(bad_name(format!("{field}.name"), name, "role", "use at most 253 letters, digits, `-`, `.`, `:` and `_`"))
}

fn check_cluster_name(name: &str) -> Result<(), Refusal> {
    let is_of = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if (1..=253).contains(&name.len()) && name.bytes().all(is_of) && !name.starts_with('.') {
        return Ok(());
    }
    Err(bad_name(
        "spec.clusterRef.name".to_owned(),
        name,
        "Cluster",
        "use at most 253 lower-case letters, digits, `-` and `.`",
    ))
}

fn check_namespace(namespace: &str, field: &str) -> Result<(), Refusal> {
    let is_of = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = |byte: Option<&u8>| byte.is_none_or(|byte| *byte != b'-');
    let bytes = namespace.as_bytes();
    if bytes.len() <= 63 && bytes.iter().all(|byte| is_of(*byte)) && ends(bytes.first()) && ends(bytes.last()) {
        return Ok(());
    }
    Err(bad_name(
        format!("{field}.namespace"),
        namespace,
        "namespace",
        "use at most 63 lower-case letters, digits and `-`, none of these at an end",
    ))
}

/// Returns the refusal of an invalid name, cut to the length that a message shows.
fn bad_name(field: String, value: &str, what: &'static str, hint: &'static str) -> Refusal {
    Refusal::Name { field, value: value.chars().take(60).collect(), what, hint }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn verdict(spec: Value) -> String {
        match token(&serde_json::from_value(spec).unwrap()) {
            Ok(_) => "granted".to_owned(),
            Err(refusal) => format!("{}: {refusal}", refusal.reason()),
        }
    }

    #[test]
    fn exactly_one_way_of_access_is_asked_for_and_it_is_a_token() {
        let oidc = json!({"name": "corp", "issuer": "https://id.example.com", "clientID": "c", "roleBindings": []});
        assert_eq!(verdict(json!({"token": {}})), "granted");
        assert_eq!(
            verdict(json!({"oidc": oidc})),
            "OIDCNotSupported: this provider gives no access by OIDC: ask for it with `spec.token` instead of `spec.oidc`"
        );
        assert_eq!(
            verdict(json!({"token": {}, "oidc": oidc})),
            "InvalidRequest: `spec.token` and `spec.oidc` are both set: keep only one of them"
        );
        assert_eq!(
            verdict(json!({})),
            "InvalidRequest: neither `spec.token` nor `spec.oidc` is set: ask for access with `spec.token`"
        );
    }

    #[test]
    fn a_reference_has_a_namespace_where_its_kind_has_one() {
        let refer = |reference: Value| verdict(json!({"token": {"roleRefs": [reference]}}));
        assert_eq!(refer(json!({"kind": "ClusterRole", "name": "view me"})), "granted");
        assert_eq!(refer(json!({"kind": "Role", "name": "r", "namespace": "apps"})), "granted");
        for (reference, says) in [
            (json!({"kind": "Role", "name": "r"}), "names a Role without a namespace"),
            (json!({"kind": "ClusterRole", "name": "r", "namespace": "apps"}), "names a ClusterRole with a namespace"),
            (json!({"kind": "User", "name": "r"}), "`spec.token.roleRefs[0].kind` is `User`"),
            (
                json!({"kind": "Role", "name": "r", "namespace": "a/b"}),
                "`a/b`, which is not a valid name of a namespace",
            ),
        ] {
            let said = refer(reference);
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn no_name_leads_to_another_place() {
        let permit = |name: &str, namespace: &str| {
            verdict(json!({"token": {"permissions": [{"name": name, "namespace": namespace, "rules": []}]}}))
        };
        let refer = |name: &str, namespace: &str| {
            verdict(json!({"token": {}, "clusterRef": {"name": name, "namespace": namespace}}))
        };
        assert_eq!(refer("my.cluster-1", "team"), "granted");
        for (name, namespace) in [("", "team"), ("..", "team"), ("a/b", "team"), ("a?b", "team"), ("a", "../x")] {
            assert!(refer(name, namespace).starts_with("InvalidRequest: `spec.clusterRef"), "{name} {namespace}");
        }
        let long = "a".repeat(254);
        for (name, namespace) in [("", ""), ("my:role_1.x", "apps"), (&long[1..], &long[..63])] {
            assert_eq!(permit(name, namespace), "granted", "{name} {namespace}");
        }
        for (name, namespace) in [
            ("..", ""),
            ("a/b", ""),
            ("a?dryRun=All", ""),
            ("a%2fb", ""),
            ("a b", ""),
            (long.as_str(), ""),
            ("a", ".."),
            ("a", "Apps"),
            ("a", "-apps"),
            ("a", "apps-"),
            ("a", &long[..64]),
        ] {
            assert!(permit(name, namespace).starts_with("InvalidRequest: "), "{name} {namespace}");
        }
    }

    #[test]
    fn what_a_request_costs_has_a_bound() {
        let many = |count: usize| {
            let references = vec![json!({"kind": "ClusterRole", "name": "view"}); count];
            verdict(json!({"token": {"permissions": [{"rules": []}], "roleRefs": references}}))
        };
        assert_eq!(many(MAX_ROLES - 1), "granted");
        assert!(many(MAX_ROLES).contains("asks for 257 roles and bindings, more than 256"));
    }
}
