//! Simulation of namespaces, a logical cluster and bindings that are torn down. The simulation is as hard as the real
//! teardowns: each deletion passes admission; a collection's objects go one after the other in the order of their keys,
//! up to the first refusal; kinds come in any order; many scopes go at a time; objects with finalizers linger.
//!
//! As in kcp, a logical cluster deletes its namespaces and its local objects first. When they are gone, it deletes its
//! bindings, and each binding takes the objects of its kinds along. Objects of bound kinds that lie in no namespace
//! stay until then.

use depguard_core::{ControlPlane, RuleSet};
use serde_json::Value;

use super::choices::Choices;
use crate::world::*;

/// Scope that is being torn down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespace(String),
    LogicalCluster,
    /// Name of an APIBinding.
    Binding(String),
}

/// Object whose deletion was allowed, and the world just before.
pub(crate) struct Grant<'w> {
    pub(crate) world: &'w World,
    pub(crate) object: &'w Object,
}

pub(crate) struct Simulation {
    pub(crate) world: World,
    pub(crate) scopes: Vec<Scope>,
    rules: RuleSet,
    /// Set if the webhook may not read the scopes that are torn down.
    pub(crate) blind: bool,
}

impl Simulation {
    /// Begins to tear down `scopes`.
    pub(crate) fn new(world: World, scopes: &[Scope]) -> Self {
        let rules = RuleSet::load(world.control_plane, &world.rules);
        let mut simulation = Self { world, scopes: Vec::new(), rules, blind: false };
        for scope in scopes {
            simulation.begin(scope.clone());
        }
        simulation
    }

    pub(crate) fn begin(&mut self, scope: Scope) {
        if self.scopes.contains(&scope) {
            return;
        }
        match &scope {
            Scope::Namespace(name) => drop(self.world.going.insert(name.clone()).then_some(name)),
            Scope::LogicalCluster => self.world.cluster_going = true,
            Scope::Binding(name) => {
                let binding = self.world.bindings.iter_mut().find(|binding| binding["metadata"]["name"] == **name);
                binding.expect("bound")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
        }
        self.scopes.push(scope);
    }

    /// Works until all scopes are torn down, or until a whole round changes nothing. Calls `granted` for each deletion.
    pub(crate) fn run(&mut self, choices: &mut Choices, granted: &mut impl FnMut(&Grant<'_>)) {
        for _ in 0..1_000 {
            let mut changed = false;
            for scope in choices.shuffled(self.scopes.clone()) {
                changed |= self.work(&scope, choices, granted);
            }
            changed |= self.finalize(choices);
            if self.scopes.is_empty() || !changed {
                return;
            }
        }
        panic!("a teardown goes on for ever: {:?}", self.world.objects);
    }

    /// Works one round over a scope.
    fn work(&mut self, scope: &Scope, choices: &mut Choices, granted: &mut impl FnMut(&Grant<'_>)) -> bool {
        let mut changed = false;
        for kind in choices.shuffled(self.world.kinds.clone()) {
            for namespace in self.namespaces_of(scope, kind) {
                changed |= self.collection(kind, namespace.as_deref(), granted);
            }
        }
        if *scope == Scope::LogicalCluster {
            changed |= self.advance();
        }
        if self.is_done(scope) {
            self.scopes.retain(|other| other != scope);
            if let Scope::Binding(name) = scope {
                self.world.bindings.retain(|binding| binding["metadata"]["name"] != **name);
            }
            changed = true;
        }
        changed
    }

    /// Returns the namespaces in which the scope deletes its objects of a kind together; `None` stands for no
    /// namespace.
    fn namespaces_of(&self, scope: &Scope, kind: Kind) -> Vec<Option<String>> {
        match scope {
            Scope::Namespace(name) if kind.namespaced => vec![Some(name.clone())],
            Scope::LogicalCluster if !kind.namespaced && self.binding_of(kind).is_none() => vec![None],
            Scope::Binding(name) if self.binding_of(kind).as_ref() == Some(name) => {
                let objects = self.world.objects.iter().filter(|object| object.kind == kind);
                let mut namespaces: Vec<_> = objects.map(namespace_of).collect();
                namespaces.sort();
                namespaces.dedup();
                namespaces
            }
            _ => Vec::new(),
        }
    }

    fn collection(&mut self, kind: Kind, namespace: Option<&str>, granted: &mut impl FnMut(&Grant<'_>)) -> bool {
        let lies_here = |object: &&Object| object.kind == kind && namespace_of(object).as_deref() == namespace;
        let mut names: Vec<_> = self.world.objects.iter().filter(lies_here).map(name_of).collect();
        names.sort();
        let mut changed = false;
        for name in names {
            let here = |object: &Object| lies_here(&object) && name_of(object) == name;
            let at = self.world.objects.iter().position(here).expect("it is there");
            let object = &self.world.objects[at];
            if !self.allows(object) {
                break;
            }
            if object.json["metadata"]["deletionTimestamp"].is_string() {
                continue;
            }
            granted(&Grant { world: &self.world, object });
            changed = true;
            if object.json["metadata"]["finalizers"].is_array() {
                self.world.objects[at] = self.world.objects[at].clone().terminating();
            } else {
                self.world.objects.remove(at);
            }
        }
        changed
    }

    /// Returns true if the webhook allows the deletion. The review of a collection's deletion has no name.
    pub(crate) fn allows(&self, object: &Object) -> bool {
        let mut review = object.deletion();
        review["request"].as_object_mut().unwrap().remove("name");
        let outcome = self.world.review_by(
            &self.rules,
            &review,
            |_| 0,
            |query| {
                let mut reply = self.world.reply(&query.path);
                if self.blind {
                    match &mut reply {
                        _ if !query.path.contains('?') => reply = Reply::Http(403, Vec::new()),
                        Reply::Http(_, body) => {
                            let seen = String::from_utf8(body.clone()).unwrap();
                            *body = seen.replace("deletionTimestamp", "seenByNobody").into_bytes();
                        }
                        _ => {}
                    }
                }
                Some(reply)
            },
        );
        outcome.decision.allowed()
    }

    /// Continues a logical cluster's deletion: deletes its namespaces at once, and its bindings once all else is gone.
    fn advance(&mut self) -> bool {
        let before = self.scopes.len();
        for namespace in self.world.objects.iter().filter_map(namespace_of).collect::<Vec<_>>() {
            self.begin(Scope::Namespace(namespace));
        }
        let first = |object: &Object| object.kind.namespaced || self.binding_of(object.kind).is_none();
        let namespaces = self.scopes.iter().any(|scope| matches!(scope, Scope::Namespace(_)));
        if !namespaces && !self.world.objects.iter().any(first) {
            let names =
                self.world.bindings.iter().map(|binding| binding["metadata"]["name"].as_str().unwrap().to_owned());
            for name in names.collect::<Vec<_>>() {
                self.begin(Scope::Binding(name));
            }
        }
        self.scopes.len() > before
    }

    fn is_done(&self, scope: &Scope) -> bool {
        let lies_in = |object: &Object| match scope {
            Scope::Namespace(name) => namespace_of(object).as_ref() == Some(name),
            Scope::LogicalCluster => true,
            Scope::Binding(name) => self.binding_of(object.kind).as_ref() == Some(name),
        };
        let last = *scope != Scope::LogicalCluster || self.scopes.len() == 1;
        last && !self.world.objects.iter().any(lies_in)
    }

    /// Lets some of the terminating objects go, as their controllers would.
    fn finalize(&mut self, choices: &mut Choices) -> bool {
        let terminating = |object: &Object| object.json["metadata"]["deletionTimestamp"].is_string();
        let any = self.world.objects.iter().any(terminating);
        self.world.objects.retain(|object| !terminating(object) || choices.one_in(2));
        // The kept objects go later, so nothing is stuck because of them.
        any
    }

    /// Returns true if an object lies in a scope that is torn down.
    pub(crate) fn is_going(&self, object: &Object) -> bool {
        is_going(&self.world, object)
    }

    fn binding_of(&self, kind: Kind) -> Option<String> {
        binding_of(&self.world, kind).map(|binding| binding["metadata"]["name"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn is_going(world: &World, object: &Object) -> bool {
    (world.control_plane == ControlPlane::Kcp && world.cluster_going)
        || namespace_of(object).is_some_and(|namespace| world.going.contains(&namespace))
        || binding_of(world, object.kind).is_some_and(|binding| binding["metadata"]["deletionTimestamp"].is_string())
}

fn binding_of(world: &World, kind: Kind) -> Option<&Value> {
    world.bindings.iter().find(|binding| {
        let mut bound = binding["status"]["boundResources"].as_array().unwrap().iter();
        bound.any(|bound| bound["group"] == kind.group && bound["resource"] == kind.resource)
    })
}

pub(crate) fn namespace_of(object: &Object) -> Option<String> {
    object.json["metadata"]["namespace"].as_str().map(str::to_owned)
}

pub(crate) fn name_of(object: &Object) -> String {
    object.json["metadata"]["name"].as_str().unwrap().to_owned()
}
