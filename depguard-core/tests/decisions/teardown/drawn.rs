//! Random worlds: rules that apply, objects that refer to each other by these rules, and scopes that are torn down.

use depguard_core::ControlPlane;
use serde_json::{Value, json};

use super::choices::Choices;
use super::{Scope, name_of, namespace_of};
use crate::world::*;

const fn kind(group: &'static str, resource: &'static str, kind: &'static str, namespaced: bool) -> Kind {
    Kind { group, versions: &["v1"], resource, kind, namespaced }
}

/// Group, logical cluster and workspace path of each provider. The group is also the name of the provider's export.
const PROVIDERS: [(&str, &str, &str); 2] = [("a.example.com", COMPUTE, "root:a"), ("b.example.com", NETWORK, "root:b")];

const KINDS: [Kind; 6] = [
    kind("a.example.com", "gears", "Gear", true),
    kind("a.example.com", "racks", "Rack", false),
    kind("b.example.com", "wheels", "Wheel", true),
    kind("b.example.com", "zones", "Zone", false),
    kind("", "pods", "Pod", true),
    kind("local.example.com", "boxes", "Box", false),
];

const NAMES: [&str; 3] = ["a", "b", "c"];
const NAMESPACES: [&str; 2] = ["x", "y"];

/// Edge of a rule: objects of one kind name an object of another kind in the field `spec.<field>`.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    dependent: Kind,
    target: Kind,
    field: String,
    /// Set if `spec.<field>ns` may name another namespace than the dependent's own.
    across: bool,
}

#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) world: World,
    pub(super) edges: Vec<Edge>,
    pub(super) scopes: Vec<Scope>,
}

impl Drawn {
    pub(super) fn new(choices: &mut Choices) -> Self {
        let control_plane = choices.one_of(&[ControlPlane::Kcp, ControlPlane::Kcp, ControlPlane::Kubernetes]);
        let mut drawn =
            Self { world: World::new(control_plane), edges: Vec::new(), scopes: scopes(control_plane, choices) };
        drawn.world.kinds = KINDS.to_vec();
        for (_, cluster, path) in PROVIDERS {
            drawn.world.knows(path, cluster);
        }
        if control_plane == ControlPlane::Kcp {
            drawn.world.bindings = PROVIDERS.map(binding_of_all).to_vec();
        }
        let kinds = choices.shuffled(KINDS.to_vec());
        let kinds = &kinds[..2 + choices.below(3)];
        for number in 0..1 + choices.below(6) {
            let edge = Edge {
                dependent: choices.one_of(kinds),
                target: choices.one_of(kinds),
                field: format!("r{number}"),
                across: choices.one_in(3),
            };
            drawn.add(edge, choices.one_in(4));
        }
        for kind in KINDS {
            for (namespace, name) in NAMESPACES.into_iter().flat_map(|namespace| NAMES.map(|name| (namespace, name))) {
                if choices.one_in(2) && (kind.namespaced || namespace == "x") {
                    drawn.world.objects.push(drawn.object(kind, namespace, name, choices));
                }
            }
        }
        drawn
    }

    /// Adds an edge if it applies, and maybe a stranger's rule about the reverse edge.
    fn add(&mut self, edge: Edge, stranger: bool) {
        let Edge { dependent, target, field, across } = &edge;
        let path = format!(".spec.{field}");
        let mut json = match (self.world.control_plane, provider(*dependent), provider(*target)) {
            (ControlPlane::Kubernetes, ..) => local_rule("x", *dependent, &path, *target),
            (_, None, None) => local_rule(CONSUMER, *dependent, &path, *target),
            (_, Some((_, cluster, _)), Some((.., workspace))) => rule(cluster, *dependent, &path, workspace, *target),
            (_, None, Some((.., workspace))) => {
                let mut rule = rule(CONSUMER, *dependent, &path, workspace, *target);
                rule["spec"]["dependent"].as_object_mut().unwrap().remove("apiExportName");
                rule
            }
            // A rule about local targets applies in its own workspace only, which has no objects here.
            (_, Some(_), None) => return,
        };
        if let (ControlPlane::Kcp, true, Some((.., workspace))) =
            (self.world.control_plane, stranger, provider(*dependent))
        {
            self.world.rules.push(rule("strang3r", *target, &path, workspace, *dependent));
        }
        if *across {
            json["spec"]["dependencies"][0]["fieldRef"]["namespacePath"] = format!(".spec.{field}ns").into();
        }
        self.world.rules.push(json);
        self.edges.push(edge);
    }

    fn object(&self, kind: Kind, namespace: &str, name: &str, choices: &mut Choices) -> Object {
        let mut object = Object::new(kind, namespace, name);
        for edge in self.edges.iter().filter(|edge| edge.dependent == kind) {
            if !choices.one_in(3) {
                object = object.set(&format!("/spec/{}", edge.field), choices.one_of(&NAMES));
                if edge.across && choices.one_in(2) {
                    object = object.set(&format!("/spec/{}ns", edge.field), choices.one_of(&NAMESPACES));
                }
            }
        }
        if choices.one_in(4) { object.set("/metadata/finalizers", json!(["example.com/hold"])) } else { object }
    }

    /// Returns the objects that refer to `object`, each with its edge.
    pub(super) fn referrers<'w>(&'w self, world: &'w World, object: &'w Object) -> Vec<(&'w Object, &'w Edge)> {
        let refers = |dependent: &Object, edge: &Edge| {
            let said = dependent.json["spec"][format!("{}ns", edge.field)].as_str().map(str::to_owned);
            let (own, of_target) = (said.or_else(|| namespace_of(dependent)), namespace_of(object));
            edge.dependent == dependent.kind
                && edge.target == object.kind
                && dependent.json["spec"][&edge.field] == name_of(object)
                && (own.is_none() || of_target.is_none() || own == of_target)
                && dependent.json["metadata"]["uid"] != object.json["metadata"]["uid"]
        };
        let all = world.objects.iter().flat_map(|dependent| self.edges.iter().map(move |edge| (dependent, edge)));
        all.filter(|(dependent, edge)| refers(dependent, edge)).collect()
    }

    /// Returns true if edges lead from the target's kind back to the dependent's kind.
    pub(super) fn is_cyclic(&self, edge: &Edge) -> bool {
        let mut reached = vec![edge.target];
        for _ in 0..KINDS.len() {
            for next in &self.edges {
                if reached.contains(&next.dependent) && !reached.contains(&next.target) {
                    reached.push(next.target);
                }
            }
        }
        reached.contains(&edge.dependent)
    }

    /// Returns true if a target may go before its dependent while both are torn down.
    pub(super) fn is_excused(&self, world: &World, edge: &Edge, target: &Object) -> bool {
        let kept_last = world.cluster_going && !edge.dependent.namespaced && provider(edge.dependent).is_some();
        let goes_first = target.kind.namespaced || provider(target.kind).is_none();
        self.is_cyclic(edge) || (kept_last && goes_first)
    }
}

fn provider(kind: Kind) -> Option<(&'static str, &'static str, &'static str)> {
    PROVIDERS.into_iter().find(|(group, ..)| *group == kind.group)
}

fn binding_of_all((group, cluster, path): (&'static str, &str, &str)) -> Value {
    let mut kinds = KINDS.into_iter().filter(|kind| kind.group == group);
    let mut one = binding(cluster, path, kinds.next().unwrap());
    one["metadata"]["name"] = group.into();
    let bound = one["status"]["boundResources"].as_array_mut().unwrap();
    bound.extend(kinds.map(|kind| json!({"group": kind.group, "resource": kind.resource})));
    one
}

fn scopes(control_plane: ControlPlane, choices: &mut Choices) -> Vec<Scope> {
    let mut all = vec![Scope::Namespace("x".to_owned()), Scope::Namespace("y".to_owned())];
    if control_plane == ControlPlane::Kcp {
        all.extend(PROVIDERS.map(|(group, ..)| Scope::Binding(group.to_owned())));
        all.push(Scope::LogicalCluster);
    }
    let mut all = choices.shuffled(all);
    all.truncate(1 + choices.below(3));
    all
}
