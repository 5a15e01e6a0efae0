//! The kinds of locks: what users write, and the tables that depguard writes.

use depguard_core::api;
use depguard_core::locks::{
    LockKind, MAX_ENTRIES, MAX_FIELDS, MAX_HOLDERS, MAX_REASON, MAX_TARGETS, TABLE_KIND, TABLE_PLURAL,
};
use serde_json::{Value, json};

use crate::manifests::definition::{Definition, column, condition_column, if_wide, object_schema, status_schema};
use crate::manifests::schema::{FIELD_PATH, NAME_OR_CORE, NAMESPACE, VERSION, choice, selector, string};

/// A resource, and one below it behind a slash, as roles write it.
const RESOURCE: &str = r"^[a-z][a-z0-9]*(/[a-z][a-z0-9]*)?$";
const OBJECT: &str = r"^[a-z0-9A-Z]([-a-z0-9A-Z.:_]*[a-z0-9A-Z])?$";
const TTL: &str = r"^([0-9]{1,6}[hms])+$";
/// One line.
const REASON: &str = r"^\P{Cc}*$";

/// Every one.
pub(super) fn all() -> [Definition; 3] {
    [lock(LockKind::ObjectLock, "olock"), lock(LockKind::ClusterObjectLock, "colock"), table()]
}

fn lock(of: LockKind, short: &'static str) -> Definition {
    let (scope, about) = match of {
        LockKind::ObjectLock => ("Namespaced", "objects of its own namespace"),
        LockKind::ClusterObjectLock => ("Cluster", "objects of any namespace, or of none"),
    };
    let kind = of.kind();
    let status = status_schema("What the controller made of the lock.", "Accepted and Programmed.", json!({}));
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
            json!({"spec": spec(of), "status": status}),
        ),
    }
}

fn spec(of: LockKind) -> Value {
    json!({
        "type": "object",
        "description": "What is locked, and until when.",
        "required": ["targets"],
        "properties": {
            "targets": {
                "type": "array",
                "description": "What is locked.",
                "minItems": 1,
                "maxItems": MAX_TARGETS,
                "items": target(of),
            },
            "operations": {
                "type": "array",
                "description": "What nobody may do. Left out: both.",
                "minItems": 1,
                "maxItems": 2,
                "x-kubernetes-list-type": "set",
                "items": choice(&["Update", "Delete"], "One of them."),
            },
            "fields": {
                "type": "array",
                "description": "Only changes of these fields are refused, such as .spec.disks. Left out: every change.",
                "minItems": 1,
                "maxItems": MAX_FIELDS,
                "items": string(1, 254, FIELD_PATH, "The path of a field."),
            },
            "reason": string(0, MAX_REASON as u32, REASON, "Why, for those who are refused."),
            "holder": {
                "type": "object",
                "description": "Who may still act, and change or delete the lock.",
                "properties": {
                    "users": names("The names of users."),
                    "groups": names("Groups: each member of them."),
                    "serviceAccounts": {
                        "type": "array",
                        "description": "ServiceAccounts.",
                        "maxItems": MAX_HOLDERS,
                        "items": {
                            "type": "object",
                            "required": ["namespace", "name"],
                            "properties": {
                                "namespace": string(1, 63, NAMESPACE, "Its namespace."),
                                "name": string(1, 253, OBJECT, "Its name."),
                            },
                        },
                    },
                },
            },
            "expiresAt": {
                "type": "string",
                "format": "date-time",
                "maxLength": 64,
                "description": "From when on it locks nothing any more.",
            },
            "ttl": string(2, 32, TTL, "How long after its creation it locks: 2h, or 1h30m."),
            "duringTeardown": choice(&["Release", "Hold"],
                "Whether deletions are let through where the object's namespace or workspace is itself being deleted: \
                they are (Release, also if left out), or not (Hold)."),
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.expiresAt) || !has(self.ttl)",
            "message": "write expiresAt or ttl, not both",
        }],
    })
}

fn target(of: LockKind) -> Value {
    let mut rules = vec![json!({
        "rule": "has(self.name) != has(self.selector)",
        "message": "write exactly one of name and selector",
    })];
    rules.push(json!({
        "rule": format!("!has(self.group) || self.group != '{}'", api::GROUP),
        "message": "locks protect themselves: name another group",
    }));
    let namespace = match of {
        LockKind::ObjectLock => {
            // Not pruned, so that who writes it is told.
            rules.push(json!({
                "rule": "!has(self.namespace)",
                "message": "an ObjectLock locks objects of its own namespace: leave namespace out, or make a ClusterObjectLock",
            }));
            "Not here: an ObjectLock locks objects of its own namespace."
        }
        _ => "The namespace of what is locked. Left out: what is in no namespace, and with a selector what is in any.",
    };
    rules.push(json!({
        "rule": "!has(self.group) || self.group != 'coordination.k8s.io' || self.resource != 'leases'",
        "message": "leases are never locked: without them the cluster's own controllers stand still while the webhook does",
    }));
    json!({
        "type": "object",
        "required": ["resource"],
        "properties": {
            "group": string(0, 253, NAME_OR_CORE, "The API group; empty, or left out, for the core group."),
            "version": string(1, 63, VERSION, "The version that spec.fields are of. In another version every change is refused. \
                Left out: any, and where a field is not there every change is refused."),
            "resource": string(1, 127, RESOURCE,
                "The resource, plural; with a slash one below it, such as deployments/scale."),
            "name": string(1, 253, OBJECT, "The object's name."),
            "selector": selector("Every object with these labels, instead of one by its name."),
            "namespace": string(1, 63, NAMESPACE, namespace),
        },
        "x-kubernetes-validations": rules,
    })
}

fn names(description: &str) -> Value {
    json!({
        "type": "array",
        "description": description,
        "maxItems": MAX_HOLDERS,
        "items": {"type": "string", "minLength": 1, "maxLength": 253},
    })
}

fn table() -> Definition {
    let description = "LockTable says which locks there are about one kind in one namespace, or in the cluster. It is \
        depguard's own, and written by nobody else.";
    let spec = json!({
        "type": "object",
        "required": ["group", "resource"],
        "properties": {
            "namespace": {"type": "string", "description": "Of what is locked. Left out: of the cluster."},
            "group": {"type": "string", "description": "The API group of what is locked."},
            "resource": {"type": "string", "description": "The resource of what is locked."},
            "revision": {"type": "integer", "format": "int64", "description": "Counts what was written."},
            "entries": {
                "type": "array",
                "description": "The locks: each may lock something, and decides itself whether it does.",
                "x-kubernetes-list-type": "atomic",
                "maxItems": MAX_ENTRIES,
                "items": entry(),
            },
        },
    });
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
        schema: object_schema(TABLE_KIND, description, &["spec"], json!({"spec": spec})),
    }
}

/// What a table says of a lock. Its selectors are as the lock has them, which was checked.
fn entry() -> Value {
    json!({
        "type": "object",
        "required": ["lock"],
        "properties": {
            "lock": {"type": "string", "description": "The lock's name."},
            "namespace": {"type": "string", "description": "Of what is locked, where a ClusterObjectLock names one."},
            "names": {
                "type": "array",
                "description": "The names of what may be locked.",
                "items": {"type": "string"},
            },
            "selectors": {
                "type": "array",
                "description": "The labels of what may be locked.",
                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
            "revision": {
                "type": "integer",
                "format": "int64",
                "description": "The table's, when the lock was last written.",
            },
        },
    })
}
