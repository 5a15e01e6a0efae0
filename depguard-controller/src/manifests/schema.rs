//! The API of DependencyRules, as API servers are told of it.

mod owners;
mod spec;
mod status;

use depguard_core::{Home, api};
use serde_json::json;

use super::definition::{Definition, column, condition_column, if_wide, object_schema};
pub use owners::owner_crds;

pub(super) use spec::{FIELD_PATH, NAME_OR_CORE, NAMESPACE, VERSION, choice, selector, string};

/// The kind of DependencyRules, as it is in each home.
pub(super) fn rules(home: Home) -> Definition {
    let description = "DependencyRule says that one kind refers to others through its fields: a foreign key. \
        An object that is referred to can't be deleted.";
    Definition {
        group: api::GROUP,
        version: api::VERSION,
        kind: api::KIND,
        plural: api::PLURAL,
        short: Some("deprule"),
        scope: "Cluster",
        // Of a path with several results only the first is printed, so the targets' names stand in the status as one
        // text.
        columns: vec![
            column("Dependent", "string", ".spec.dependent.resource"),
            column("Targets", "string", ".status.summary"),
            condition_column("Ready", "Enforced"),
            if_wide(condition_column("Accepted", "Accepted")),
            if_wide(condition_column("Resolved", "ResolvedRefs")),
            if_wide(condition_column("Programmed", "Programmed")),
        ],
        subresources: Some(json!({"status": {}})),
        schema: object_schema(
            api::KIND,
            description,
            &["spec"],
            json!({"spec": spec::spec(home), "status": status::status()}),
        ),
    }
}
