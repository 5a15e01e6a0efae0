use serde_json::{Value, json};

use super::*;

fn identity() -> Identity {
    Identity::new("dev", "workspaces", "team", "reader")
}

fn desired(token: Value) -> DesiredObjects {
    DesiredObjects::new(&serde_json::from_value(token).unwrap(), &identity()).unwrap()
}

/// Formats each object as `Kind [namespace/]name`, with `~` for the identity, and with a binding's role for its hash.
fn lines(token: Value) -> Vec<String> {
    let line = |object: Object| {
        let namespace = object.namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let name = match object.content["roleRef"]["name"].as_str() {
            Some(role) => format!("~ -> {} {role}", object.content["roleRef"]["kind"].as_str().unwrap()),
            None => object.name.replace(identity().as_str(), "~"),
        };
        format!("{} {namespace}{name}", object.kind.name())
    };
    desired(token).objects.into_iter().map(line).collect()
}

#[test]
fn a_request_without_permissions_has_an_account_and_nothing_else() {
    assert_eq!(lines(json!({})), ["ServiceAccount cluster-access/~"]);
    assert_eq!(desired(json!({})).namespaces, BTreeSet::from(["cluster-access".to_owned()]));
}

#[test]
fn each_permission_has_a_role_and_its_binding() {
    let token = json!({"permissions": [
        {"namespace": "apps", "rules": []},
        {"rules": []},
        {"name": "mine", "namespace": "other", "rules": []},
        {"name": "mine", "rules": []},
    ]});
    let objects = [
        "ServiceAccount cluster-access/~",
        "ClusterRole ~-1",
        "ClusterRole mine",
        "Role apps/~-0",
        "Role other/mine",
        "ClusterRoleBinding ~ -> ClusterRole access-1d-1",
        "ClusterRoleBinding ~ -> ClusterRole mine",
        "RoleBinding apps/~ -> Role access-1d-0",
        "RoleBinding other/~ -> Role mine",
    ];
    let objects = objects.map(|line| line.replace("access-1d", identity().as_str()));
    assert_eq!(lines(token), objects);
}

#[test]
fn one_role_has_one_entry() {
    let by = |first: Value, second: Value| {
        let token = json!({"permissions": [first, second]});
        DesiredObjects::new(&serde_json::from_value(token).unwrap(), &identity()).map_err(|refusal| refusal.to_string())
    };
    let role = |name: &str, namespace: &str| json!({"name": name, "namespace": namespace, "rules": []});
    let made_up = format!("{}-1", identity().as_str());
    assert!(by(role("a", ""), role("a", "apps")).is_ok());
    assert!(by(role("", "apps"), role("", "apps")).is_ok());
    for (name, second) in [("a", "a"), (made_up.as_str(), "")] {
        let twice = by(role(name, "apps"), role(second, "apps")).unwrap_err();
        assert!(twice.starts_with(&format!("`spec.token.permissions[1]` asks for the role `{name}` again")), "{twice}");
    }
}

#[test]
fn each_reference_has_a_binding_and_a_role_is_bound_once() {
    let token = json!({
        "permissions": [{"name": "mine", "namespace": "apps", "rules": []}],
        "roleRefs": [
            {"kind": "ClusterRole", "name": "view"},
            {"kind": "Role", "name": "mine", "namespace": "apps"},
            {"kind": "Role", "name": "mine", "namespace": "other"},
            {"kind": "ClusterRole", "name": "view"},
        ],
    });
    let objects = [
        "ServiceAccount cluster-access/~",
        "Role apps/mine",
        "ClusterRoleBinding ~ -> ClusterRole view",
        "RoleBinding apps/~ -> Role mine",
        "RoleBinding other/~ -> Role mine",
    ];
    assert_eq!(lines(token), objects);
}

#[test]
fn only_namespaces_of_permissions_are_made_and_only_where_that_is_wanted() {
    let token = json!({
        "permissions": [
            {"namespace": "apps", "rules": []},
            {"namespace": "theirs", "disableAutomaticNamespaceCreation": true, "rules": []},
        ],
        "roleRefs": [{"kind": "Role", "name": "r", "namespace": "referred"}],
    });
    let namespaces = ["apps", "cluster-access"].map(str::to_owned);
    assert_eq!(desired(token).namespaces, BTreeSet::from(namespaces));
}

#[test]
fn rules_are_handed_on_as_they_are() {
    let token = json!({"permissions": [{"rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/version"], "verbs": ["get"]},
    ]}]});
    let role = desired(token).objects.into_iter().find(|object| object.kind == Kind::ClusterRole).unwrap();
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"nonResourceURLs": ["/version"], "verbs": ["get"]},
    ]);
    assert_eq!(role.content, json!({"rules": rules}));
}

#[test]
fn a_binding_binds_the_account_to_its_role() {
    let token = json!({"roleRefs": [{"kind": "Role", "name": "r", "namespace": "apps"}]});
    let binding = desired(token).objects.pop().unwrap();
    let content = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "cluster-access", "name": identity().as_str()}],
    });
    assert_eq!(binding.content, content);
}

#[test]
fn no_two_requests_share_an_identity() {
    let mut seen = BTreeSet::new();
    for parts in [
        ["dev", "workspaces", "team", "reader"],
        ["live", "workspaces", "team", "reader"],
        ["dev", "kind", "team", "reader"],
        ["dev", "workspaces", "teamr", "eader"],
        ["dev", "workspaces", "team", "writer"],
    ] {
        let [environment, provider, namespace, name] = parts;
        let identity = Identity::new(environment, provider, namespace, name);
        assert!(identity.as_str().len() <= 63, "a label's value: {identity:?}");
        assert!(seen.insert(identity.as_str().to_owned()), "{parts:?}");
    }
}
