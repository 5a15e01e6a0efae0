//! Refuses users who grant rights that they lack: the check of roles and bindings in
//! `k8s.io/kubernetes/pkg/registry/rbac`.

use serde_json::{Value, json};

use crate::auth::authorize;
use crate::auth::rbac::{self, GROUP, Wish};
use crate::protocol::json::{array, map_at, text};
use crate::protocol::routes::Objects;
use crate::protocol::status::{ApiError, ApiResult};
use crate::request::act::Act;

/// Refuses a role, or a binding to one, with rights that the user lacks and may not grant.
pub(crate) fn check(act: &Act<'_>, name: &str, old: Option<&Value>, new: &Value) -> ApiResult<()> {
    if act.resource.group != GROUP || !act.world.rbac || act.user.is_unbound() {
        return Ok(());
    }
    if old.is_some_and(|old| without_collectors_fields(old) == without_collectors_fields(new)) {
        return Ok(());
    }
    let plural = act.resource.plural.as_str();
    if plural.ends_with("bindings") {
        let (of, namespace) = match text(new, "/roleRef/kind") {
            Some("ClusterRole") => ("clusterroles", ""),
            _ => ("roles", act.namespace),
        };
        let role = text(new, "/roleRef/name").unwrap_or_default();
        if may(act, "bind", of, role) {
            return Ok(());
        }
        let found = rbac::role(act.world, act.cluster, of, namespace, role);
        let found = found.ok_or_else(|| ApiError::not_found(GROUP, plural, role))?;
        return confirm(act, name, array(&found, "/rules"));
    }
    if may(act, "escalate", plural, name) {
        return Ok(());
    }
    confirm(act, name, array(new, "/rules"))?;
    let sums_up = |role: &Value| !array(role, "/aggregationRule/clusterRoleSelectors").is_empty();
    let everything = [
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        json!({"nonResourceURLs": ["*"], "verbs": ["*"]}),
    ];
    if (sums_up(new) || old.is_some_and(sums_up)) && confirm(act, name, &everything).is_err() {
        return Err(act.forbidden(name, "must have cluster-admin privileges to use the aggregationRule"));
    }
    Ok(())
}

fn may(act: &Act<'_>, verb: &str, plural: &str, name: &str) -> bool {
    let objects = Objects {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        namespace: Some(act.namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        name: Some(name.to_owned()),
        subresource: None,
    };
    authorize::may(act.world, act.user, act.cluster, Wish::Objects { verb, objects: &objects })
}

fn confirm(act: &Act<'_>, name: &str, requested: &[Value]) -> ApiResult<()> {
    let held = authorize::rules(act.world, act.user, act.cluster, act.namespace);
    let mut missing: Vec<String> =
        requested.iter().filter(|requested| !is_covered(requested, &held)).map(ToString::to_string).collect();
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort();
    let (user, groups) = (&act.user.name, &act.user.groups);
    let missing = missing.join("\n");
    let why = format!(
        "user \"{user}\" (groups={groups:?}) is attempting to grant RBAC permissions not currently held:\n{missing}"
    );
    Err(act.forbidden(name, &why))
}

/// Returns true if every single right of a rule is part of one of the held rules.
fn is_covered(requested: &Value, held: &[Value]) -> bool {
    let verbs = texts(requested, "/verbs");
    let names = texts(requested, "/resourceNames");
    let one_has = |has: &dyn Fn(&Value) -> bool| held.iter().any(has);
    let of_verb = |rule: &Value, verb: &str| is_among(&texts(rule, "/verbs"), verb);
    let objects = verbs.iter().all(|verb| {
        texts(requested, "/apiGroups").iter().all(|group| {
            texts(requested, "/resources").iter().all(|resource| {
                let named = |rule: &Value, name: Option<&str>| {
                    let only = texts(rule, "/resourceNames");
                    only.is_empty() || name.is_some_and(|name| only.contains(&name))
                };
                let has = |rule: &Value, name| {
                    of_verb(rule, verb)
                        && is_among(&texts(rule, "/apiGroups"), group)
                        && is_resource_among(&texts(rule, "/resources"), resource)
                        && named(rule, name)
                };
                match names.as_slice() {
                    [] => one_has(&|rule| has(rule, None)),
                    names => names.iter().all(|name| one_has(&|rule| has(rule, Some(*name)))),
                }
            })
        })
    });
    let paths = texts(requested, "/nonResourceURLs").iter().all(|path| {
        let is_path = |pattern: &str| match pattern.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => path == &pattern,
        };
        let has = |rule: &Value, verb| of_verb(rule, verb) && texts(rule, "/nonResourceURLs").into_iter().any(is_path);
        verbs.iter().all(|verb| one_has(&|rule| has(rule, verb)))
    });
    objects && paths
}

fn is_among(all: &[&str], requested: &str) -> bool {
    all.iter().any(|one| *one == "*" || *one == requested)
}

fn is_resource_among(all: &[&str], requested: &str) -> bool {
    let of_any = requested.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    is_among(all, requested) || of_any.is_some_and(|of_any| all.contains(&of_any.as_str()))
}

fn texts<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    array(value, pointer).iter().filter_map(Value::as_str).collect()
}

/// Removes the fields that the garbage collector changes. A change of these fields must not need the role's rights.
fn without_collectors_fields(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = map_at(&mut object, &["metadata"]);
    for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
        metadata.remove(field);
    }
    object
}
