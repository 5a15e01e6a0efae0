//! API of GlobalOwners and GroupOwners: their CustomResourceDefinitions.
//!
//! Fields of the published API are as they are there; fields beyond it are optional.

use depguard_core::api::Condition;
use depguard_core::owners::{global_owner_schema, group_owner_schema};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::manifests::definition::{Definition, column, condition_column, object_schema};
use crate::manifests::structural::structural;
use crate::owners::api::{GLOBAL_OWNERS, GROUP, GROUP_OWNERS, Names, VERSION};
use crate::owners::removal::order::PlannedWave;

/// The controller's result for the GlobalOwner.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "the controller writes the fields one by one")]
struct GlobalStatus {
    /// The generation that the status speaks of.
    observed_generation: Option<i64>,
    /// Accepted, Adopted, Ordered and Ready.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Option<Vec<Condition>>,
    /// Owning, Removing or Releasing.
    phase: Option<String>,
    /// The number of the wave that is being removed, from 1 on.
    wave: Option<i32>,
    /// The number of waves.
    waves: Option<i32>,
    /// Objects that are owned; while it is being removed, those of the wave that are still there.
    remaining: Option<i64>,
    /// The number of objects that are stuck.
    stuck_count: Option<i64>,
    /// The order in which the groups would be removed, or are: wave by wave.
    plan: Option<Vec<PlannedWave>>,
    /// Objects whose removal was refused, or does not end: the first few.
    stuck: Option<Vec<OwnedResource>>,
    #[schemars(flatten)]
    left_behind: LeftBehind,
}

/// The objects that the group owns.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "the controller writes the fields one by one")]
struct GroupStatus {
    /// The generation that the status speaks of.
    observed_generation: Option<i64>,
    /// Adopted and Ready.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    conditions: Option<Vec<Condition>>,
    /// Owning; Removing: it owns all that was selected when its removal began; Released or Empty: nothing refers to it
    /// any more.
    phase: Option<String>,
    /// The number of objects that the group owns.
    owned: Option<i64>,
    /// The objects that the group owns: of many objects the first.
    owned_resources: Option<Vec<OwnedResource>>,
    #[schemars(flatten)]
    left_behind: LeftBehind,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "the controller writes the fields one by one")]
struct LeftBehind {
    /// The number of objects that are selected and stay, as they came after their group had begun to go.
    left_behind_count: Option<i64>,
    /// These objects: the first few.
    left_behind: Option<Vec<OwnedResource>>,
}

/// An object, and the reason why it stays, if it is to go.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "the controller writes the fields one by one")]
struct OwnedResource {
    /// The object's group and version.
    api_version: Option<String>,
    /// The object's kind.
    kind: Option<String>,
    /// The object's name.
    name: Option<String>,
    /// The object's namespace.
    namespace: Option<String>,
    /// The reason why the object stays.
    message: Option<String>,
}

/// Returns the CustomResourceDefinitions of both kinds.
pub fn owner_crds() -> Vec<Value> {
    vec![
        crd(
            GLOBAL_OWNERS,
            "GlobalOwner adopts objects of many kinds, group by group. Deleted, it removes them in the order of its \
             groups.",
            vec![column("Phase", "string", ".status.phase"), column("Remaining", "integer", ".status.remaining")],
            [structural(global_owner_schema), structural(GlobalStatus::json_schema)],
        ),
        crd(
            GROUP_OWNERS,
            "GroupOwner owns the objects of one group of a GlobalOwner, by owner references. depguard makes and removes \
             it; nobody else should.",
            vec![
                column("Resource", "string", ".spec.childResource.resource"),
                column("Owned", "integer", ".status.owned"),
                column("Phase", "string", ".status.phase"),
            ],
            [structural(group_owner_schema), structural(GroupStatus::json_schema)],
        ),
    ]
}

fn crd(names: Names, description: &str, mut columns: Vec<Value>, [spec, status]: [Value; 2]) -> Value {
    columns.push(condition_column("Ready", "Ready"));
    let definition = Definition {
        group: GROUP,
        version: VERSION,
        kind: names.kind,
        plural: names.plural,
        short: None,
        scope: "Cluster",
        columns,
        subresources: Some(json!({"status": {}})),
        schema: object_schema(names.kind, description, &["metadata", "spec"], &[("spec", spec), ("status", status)]),
    };
    definition.crd()
}
