//! Kinds of locks: the locks that users write, and the tables that depguard writes.

use depguard_core::api::{self, Condition};
use depguard_core::locks::{LockKind, TABLE_KIND, TABLE_PLURAL, lock_schema, table_schema};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::manifests::definition::{Definition, column, condition_column, if_wide, object_schema};
use crate::manifests::structural::structural;

/// The controller's result for the lock.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "the controller writes the fields one by one")]
struct LockStatus {
    /// The generation that the status speaks of.
    observed_generation: Option<i64>,
    /// Accepted and Programmed.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Option<Vec<Condition>>,
}

/// Returns the definitions of all kinds of locks.
pub(super) fn all() -> [Definition; 3] {
    [lock(LockKind::ObjectLock, "olock"), lock(LockKind::ClusterObjectLock, "colock"), table()]
}

fn lock(of: LockKind, short: &'static str) -> Definition {
    let (scope, about) = match of {
        LockKind::ObjectLock => ("Namespaced", "objects of its own namespace"),
        LockKind::ClusterObjectLock => ("Cluster", "objects of any namespace, or of none"),
    };
    let kind = of.kind();
    Definition {
        group: api::GROUP,
        version: api::VERSION,
        kind,
        plural: of.plural(),
        short: Some(short),
        scope,
        columns: vec![
            column("Resource", "string", ".spec.targets[0].resource"),
            column("Name", "string", ".spec.targets[0].name"),
            column("Reason", "string", ".spec.reason"),
            column("Until", "string", ".spec.expiresAt"),
            column("TTL", "string", ".spec.ttl"),
            if_wide(condition_column("Accepted", "Accepted")),
            condition_column("Programmed", "Programmed"),
        ],
        subresources: Some(json!({"status": {}})),
        schema: object_schema(
            kind,
            &format!("{kind} keeps {about} from being changed or deleted."),
            &["spec"],
            &[("spec", spec(of)), ("status", structural(LockStatus::json_schema))],
        ),
    }
}

/// Returns the schema of a lock's spec. Both kinds share the wire type, but an ObjectLock has its own namespace only.
fn spec(of: LockKind) -> Value {
    let mut spec = structural(lock_schema);
    let target = spec.pointer_mut("/properties/targets/items");
    if let (LockKind::ObjectLock, Some(target)) = (of, target) {
        if let Some(namespace) = target.pointer_mut("/properties/namespace/description") {
            *namespace = json!("Not here: an ObjectLock locks objects of its own namespace.");
        }
        // The field is not pruned, so that a user who writes it is told.
        if let Some(rules) = target.get_mut("x-kubernetes-validations").and_then(Value::as_array_mut) {
            rules.push(json!({
                "rule": "!has(self.__namespace__)",
                "message": "an ObjectLock locks objects of its own namespace: leave namespace out, or make a ClusterObjectLock",
            }));
        }
    }
    spec
}

fn table() -> Definition {
    let description = "LockTable says which locks there are about one kind in one namespace, or in the cluster. It is \
        depguard's own, and written by nobody else.";
    Definition {
        group: api::GROUP,
        version: api::VERSION,
        kind: TABLE_KIND,
        plural: TABLE_PLURAL,
        short: Some("ltable"),
        scope: "Cluster",
        columns: vec![
            column("Namespace", "string", ".spec.namespace"),
            column("Group", "string", ".spec.group"),
            column("Resource", "string", ".spec.resource"),
        ],
        subresources: Some(json!({})),
        schema: object_schema(TABLE_KIND, description, &["spec"], &[("spec", structural(table_schema))]),
    }
}
