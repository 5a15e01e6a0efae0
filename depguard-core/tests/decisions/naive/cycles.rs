//! Naive search for cycles, which tries all edges, and naive test for teardown.

use depguard_core::{ControlPlane, WorkspacePath};
use serde_json::{Value, json};

use super::is_broken;
use crate::world::{CONSUMER, Object, World};

/// Identity of a kind: logical cluster, export, group, resource.
type End = [Value; 4];

/// Bindings that serve the kinds of an edge's dependent and target; `None` for a local kind.
type Ends<'w> = (Option<&'w Value>, Option<&'w Value>);

/// Returns the bindings of an edge's two ends if the edge lies on a cycle of edges that refuse and certainly apply.
/// `refuses` gets a rule and one of its dependencies.
pub(super) fn on_one<'w>(
    world: &'w World,
    rule: &Value,
    dependency: &Value,
    refuses: impl Fn(&Value, &Value) -> bool,
) -> Option<Ends<'w>> {
    let mut edges = Vec::new();
    for rule in world.rules.iter().filter(|rule| !is_broken(world, rule)) {
        for dependency in rule["spec"]["dependencies"].as_array().unwrap().iter().filter(|edge| refuses(rule, edge)) {
            edges.extend(ends(world, rule, dependency).map(|(from, to, _)| (from, to)));
        }
    }
    let (dependent, target, bound) =
        ends(world, rule, dependency).filter(|_| refuses(rule, dependency) && !is_broken(world, rule))?;
    let mut reached = vec![target];
    // Each round reaches one more kind, until no further kind can be reached.
    for _ in 0..edges.len() {
        let next = edges.iter().find(|(from, to)| reached.contains(from) && !reached.contains(to));
        reached.extend(next.map(|(_, to)| to.clone()));
    }
    reached.contains(&dependent).then_some(bound)
}

/// Returns the ends of an edge that certainly applies.
fn ends<'w>(world: &'w World, rule: &Value, dependency: &Value) -> Option<(End, End, Ends<'w>)> {
    let dependent = &rule["spec"]["dependent"];
    let end = |cluster: Value, export: &Value, kind: &Value| {
        [cluster, export.clone(), kind["group"].clone(), kind["resource"].clone()]
    };
    if world.control_plane == ControlPlane::Kubernetes {
        let nobodys = |kind| end(Value::Null, &Value::Null, kind);
        return Some((nobodys(dependent), nobodys(dependency), (None, None)));
    }
    let cluster = &rule["metadata"]["annotations"]["kcp.io/cluster"];
    let (export, reference) = (&dependent["apiExportName"], &dependency["apiExportRef"]);
    if (export.is_null() || reference.is_null()) && *cluster != CONSUMER {
        return None;
    }
    let of_dependent = match export.is_null() {
        true => None,
        false => Some(binding(world, dependent, export, |provider, _| provider == cluster)?),
    };
    let of_target = match reference.is_null() {
        true => None,
        false => {
            let path = WorkspacePath::parse(reference["path"].as_str().unwrap()).unwrap();
            let known = world.workspaces.cluster(&path).map(|cluster| json!(cluster));
            Some(binding(world, dependency, &reference["name"], |provider, path| match &known {
                Some(known) => provider == known,
                None => *path == reference["path"] || provider == cluster,
            })?)
        }
    };
    let provider = of_target.map_or(json!(CONSUMER), |binding| binding["status"]["apiExportClusterName"].clone());
    Some((
        end(cluster.clone(), export, dependent),
        end(provider, &reference["name"], dependency),
        (of_dependent, of_target),
    ))
}

/// Returns the only binding of a kind, if it is of that export and of the right provider and path.
fn binding<'w>(
    world: &'w World,
    kind: &Value,
    export: &Value,
    is_right: impl Fn(&Value, &Value) -> bool,
) -> Option<&'w Value> {
    let serves = |binding: &&Value| {
        let bound = &binding["status"]["boundResources"][0];
        bound["group"] == kind["group"] && bound["resource"] == kind["resource"]
    };
    let mut all = world.bindings.iter().filter(serves);
    let (Some(one), None) = (all.next(), all.next()) else { return None };
    let reference = &one["spec"]["reference"]["export"];
    let right = is_right(&one["status"]["apiExportClusterName"], &reference["path"]) && reference["name"] == *export;
    right.then_some(one)
}

/// Returns true if an object of a kind bound so lies in a scope that is torn down.
pub(super) fn is_going(world: &World, bound: Option<&Value>, object: &Object) -> bool {
    let namespace = object.json["metadata"]["namespace"].as_str();
    (world.control_plane == ControlPlane::Kcp && world.cluster_going)
        || namespace.is_some_and(|namespace| world.going.contains(namespace))
        || bound.is_some_and(|binding| binding["metadata"]["deletionTimestamp"].is_string())
}

/// Returns true if kcp, when it deletes the logical cluster, keeps the dependent until the target is gone.
pub(super) fn is_kept_last(world: &World, rule: &Value, dependency: &Value, target: &Object, object: &Object) -> bool {
    let dependent = &rule["spec"]["dependent"];
    world.control_plane == ControlPlane::Kcp
        && !dependent["apiExportName"].is_null()
        && object.json["metadata"]["namespace"].is_null()
        && (dependency["apiExportRef"].is_null() || target.json["metadata"]["namespace"].is_string())
}
