//! Wire types of locks. The parser reads them one by one, so that an error in one field leaves the others readable.

use serde::Deserialize;

use crate::model::api::LabelSelector;
#[cfg(feature = "schemars")]
use {
    super::{MAX_FIELDS, MAX_HOLDERS, MAX_REASON, MAX_TARGETS},
    crate::model::schema,
    schemars::{JsonSchema, Schema, SchemaGenerator},
};

/// Returns the schema of a lock's spec, as far as both kinds of locks share it.
#[cfg(feature = "schemars")]
pub fn lock_schema(generator: &mut SchemaGenerator) -> Schema {
    WireSpec::json_schema(generator)
}

/// The locked objects, and the end of the lock.
#[cfg(feature = "schemars")]
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-validations" = [
    {"rule": "!has(self.expiresAt) || !has(self.ttl)", "message": "write expiresAt or ttl, not both"},
]))]
#[expect(dead_code, reason = "the parser reads the fields one by one")]
struct WireSpec {
    /// The objects that are locked.
    #[schemars(length(min = 1, max = MAX_TARGETS))]
    targets: Vec<WireTarget>,
    /// The operations that nobody may do. Left out: both.
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-list-type" = "set"))]
    operations: Option<Vec<Operation>>,
    /// Only changes of these fields are refused, such as `.spec.disks`. Left out: every change.
    #[schemars(length(min = 1, max = MAX_FIELDS))]
    fields: Option<Vec<schema::FieldPath>>,
    /// The reason, for those who are refused.
    #[schemars(
        length(max = MAX_REASON),
        pattern(r"^\P{Cc}*$"),
        transform = schema::explained("write one line, without control characters"),
    )]
    reason: Option<String>,
    /// The users who may still act, and change or delete the lock.
    holder: Option<WireHolder>,
    /// The time from which on the lock locks nothing any more, in RFC 3339.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    expires_at: Option<String>,
    /// The time for which the lock holds after its creation, in hours, minutes and seconds: `2h`, or `1h30m`.
    #[schemars(
        length(min = 2, max = 32),
        pattern("^([0-9]{1,6}[hms])+$"),
        transform = schema::explained("write hours, minutes and seconds, such as 2h or 1h30m"),
    )]
    ttl: Option<String>,
    /// Treatment of deletions while the object's namespace or workspace is itself being deleted. Left out: `Release`.
    during_teardown: Option<Teardown>,
}

/// Objects of one resource: one by its name, or all with some labels.
#[derive(Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema), schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.name) != has(self.selector)", "message": "write exactly one of name and selector"},
    {"rule": format!("!has(self.group) || self.group != '{}'", crate::model::api::GROUP),
     "message": "locks protect themselves: name another group"},
    {"rule": "!has(self.group) || self.group != 'coordination.k8s.io' || self.resource != 'leases'",
     "message": "leases can't be locked: the cluster's controllers renew them, and would stop while the webhook is \
        down"},
])))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WireTarget {
    /// The API group; empty, or left out, for the core group.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Group"))]
    #[serde(default)]
    pub(super) group: String,
    /// The version that the paths in `spec.fields` are written for; in another version every change is refused. Left
    /// out: the paths apply to every version, and in a version without one of the fields every change is refused.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<schema::Version>"))]
    pub(super) version: Option<String>,
    /// The resource, plural; with a slash one below it, such as `deployments/scale`.
    #[cfg_attr(
        feature = "schemars",
        schemars(
            length(min = 1, max = 127),
            pattern("^[a-z][a-z0-9]*(/[a-z][a-z0-9]*)?$"),
            transform = schema::explained(
                "write the plural name of a resource in small letters, such as deployments, or deployments/scale",
            ),
        )
    )]
    pub(super) resource: String,
    /// The object's name.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<schema::ObjectName>"))]
    pub(super) name: Option<String>,
    /// Every object with these labels, instead of one by its name.
    pub(super) selector: Option<LabelSelector>,
    /// The namespace of what is locked. Left out: what is in no namespace, and with a selector what is in any.
    #[cfg_attr(feature = "schemars", schemars(with = "Option<schema::Namespace>"))]
    pub(super) namespace: Option<String>,
}

/// Users whom a lock lets through.
#[derive(Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WireHolder {
    /// The names of users.
    #[cfg_attr(feature = "schemars", schemars(length(max = MAX_HOLDERS), inner(length(min = 1, max = 253))))]
    pub(super) users: Option<Vec<String>>,
    /// Groups: each member of them.
    #[cfg_attr(feature = "schemars", schemars(length(max = MAX_HOLDERS), inner(length(min = 1, max = 253))))]
    pub(super) groups: Option<Vec<String>>,
    /// ServiceAccounts.
    #[cfg_attr(feature = "schemars", schemars(length(max = MAX_HOLDERS)))]
    pub(super) service_accounts: Option<Vec<WireServiceAccount>>,
}

/// One ServiceAccount.
#[derive(Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct WireServiceAccount {
    /// The ServiceAccount's namespace.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Namespace"))]
    pub(super) namespace: String,
    /// The ServiceAccount's name.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::ObjectName"))]
    pub(super) name: String,
}

/// Operation that a lock forbids.
#[derive(Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
pub(super) enum Operation {
    Update,
    Delete,
}

/// Treatment of deletions during a teardown.
#[derive(Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
pub(super) enum Teardown {
    /// The deletions go on.
    Release,
    /// The deletions are refused.
    Hold,
}

#[cfg(all(test, feature = "schemars"))]
mod tests {
    use super::*;

    #[test]
    fn the_parser_knows_each_field_of_the_schema() {
        let schema = lock_schema(&mut SchemaGenerator::default());
        let mut fields = super::super::parse::FIELDS;
        fields.sort_unstable();
        assert_eq!(schema.as_value()["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), fields);
    }
}
