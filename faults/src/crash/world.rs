//! Graph of objects under one GlobalOwner, drawn from a seed.

use serde_json::{Value, json};

use crate::random::Random;

/// Group of all kinds.
pub(super) const GROUP: &str = "crash.example.com";
/// Version of all kinds.
pub(super) const VERSION: &str = "v1";
/// Number of kinds. The last one is cluster-scoped.
pub(super) const KINDS: usize = 4;
/// Finalizer that holds an object for a while after its deletion.
pub(super) const FINALIZER: &str = "crash.example.com/held";
/// Name of the GlobalOwner.
pub(super) const OWNER: &str = "all";

/// Drawn graph and its circumstances.
#[derive(Debug, Clone)]
pub(super) struct World {
    /// Kind of each group, in the listed order.
    pub(super) groups: Vec<usize>,
    pub(super) by_rules: bool,
    /// Kinds that refer to other kinds, by rules that refuse deletions.
    pub(super) rules: Vec<(usize, usize)>,
    pub(super) objects: Vec<Thing>,
    pub(super) end: End,
    /// Number of the controller's writes after which the GlobalOwner is deleted, unless all objects are adopted before.
    pub(super) delete_after: usize,
    /// True if the GlobalOwner is deleted while no controller runs, after some controllers were killed.
    pub(super) unseen: bool,
    pub(super) at_every_write: bool,
}

/// Object of the graph.
#[derive(Debug, Clone)]
pub(super) struct Thing {
    pub(super) kind: usize,
    /// Groups that select the object.
    pub(super) groups: Vec<usize>,
    /// Places of the objects that it refers to: at most one of each kind.
    pub(super) refers: Vec<usize>,
    pub(super) is_held: bool,
    pub(super) opted_out: bool,
    /// True if another owner owns the object too.
    pub(super) is_anothers: bool,
    pub(super) comes: Comes,
}

/// Time at which an object is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comes {
    /// Created before the GlobalOwner.
    First,
    /// Created at the last moment before the GlobalOwner is deleted.
    AtDeletion,
    /// Created after this many of the controller's writes since the deletion.
    Later(usize),
}

/// Way in which the GlobalOwner is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Background,
    /// Orphaned by the propagation of the deletion.
    Orphan,
    /// Released by the GlobalOwner's deletionPolicy.
    Policy,
}

impl World {
    pub(super) fn draw(seed: u64, at_every_write: bool) -> Self {
        let mut random = Random::new(seed);
        let groups: Vec<_> = (0..random.within(1, 4)).map(|_| random.below(KINDS)).collect();
        let by_rules = random.below(2) == 0;
        let mut rules = Vec::new();
        for from in 0..KINDS {
            for to in 0..KINDS {
                // Rules that contradict a listed order would rightly block it for ever.
                let of = |kind: usize| groups.iter().filter(|known| **known == kind).count();
                let fits = match (by_rules, from == to) {
                    (true, true) => true,
                    (true, false) => from < to || random.below(6) == 0,
                    (false, true) => of(from) <= 1,
                    (false, false) => of(from) == 0 || is_before(&groups, from, to),
                };
                if fits && random.below(2) == 0 {
                    rules.push((from, to));
                }
            }
        }
        let mut objects: Vec<Thing> = Vec::new();
        for (group, kind) in groups.iter().enumerate() {
            for _ in 0..random.within(0, 3) {
                let others = (0..groups.len()).filter(|other| groups[*other] == *kind && *other != group);
                let mut of = vec![group];
                of.extend(others.filter(|_| random.below(4) == 0));
                objects.push(Thing {
                    kind: *kind,
                    groups: of,
                    refers: Vec::new(),
                    is_held: random.below(3) == 0,
                    opted_out: random.below(10) == 0,
                    is_anothers: *kind + 1 < KINDS && random.below(10) == 0,
                    comes: Comes::First,
                });
            }
        }
        // A few objects have no owner. Those that refer to others hold these up until their authors delete them.
        for _ in 0..random.within(1, 3) {
            let kind = rules.get(random.below(rules.len())).map_or(0, |(dependent, _)| *dependent);
            objects.push(Thing::new(kind, vec![]));
        }
        let mut order: Vec<usize> = (0..objects.len()).collect();
        random.shuffle(&mut order);
        for (place, from) in order.iter().enumerate() {
            for to in &order[place + 1..] {
                let (dependent, target) = (&objects[*from], &objects[*to]);
                let known = dependent.refers.iter().any(|known| objects[*known].kind == target.kind);
                // A dependent that stays would hold its targets for ever.
                let stays = dependent.opted_out || dependent.is_anothers;
                if rules.contains(&(dependent.kind, target.kind)) && !known && !stays && random.below(2) == 0 {
                    objects[*from].refers.push(*to);
                }
            }
        }
        // These objects refer to nothing, so one that comes too late to be removed holds nothing up.
        for _ in 0..random.below(5) {
            let group = random.below(groups.len());
            let comes = if random.below(2) == 0 { Comes::AtDeletion } else { Comes::Later(random.below(30)) };
            let (is_held, opted_out) = (random.below(3) == 0, random.below(10) == 0);
            objects.push(Thing { comes, is_held, opted_out, ..Thing::new(groups[group], vec![group]) });
        }
        let end = match random.below(6) {
            0 => End::Orphan,
            1 => End::Policy,
            _ => End::Background,
        };
        let delete_after = if random.below(3) == 0 { random.below(20) } else { usize::MAX };
        let unseen = random.below(3) == 0;
        Self { groups, by_rules, rules, objects, end, delete_after, unseen, at_every_write }
    }

    pub(super) fn is_released(&self) -> bool {
        self.end != End::Background
    }

    /// Returns true if all of one group must be gone before any of another one is deleted. Decides without any of
    /// depguard's code.
    pub(super) fn goes_before(&self, one: usize, other: usize) -> bool {
        if !self.by_rules {
            return one < other;
        }
        let (from, to) = (self.groups[one], self.groups[other]);
        self.leads(from, to) && !self.leads(to, from)
    }

    fn leads(&self, from: usize, to: usize) -> bool {
        let mut reached = vec![from];
        let mut next = 0;
        while let Some(kind) = reached.get(next).copied() {
            next += 1;
            for (_, target) in self.rules.iter().filter(|(dependent, _)| *dependent == kind) {
                if *target == to {
                    return true;
                }
                if !reached.contains(target) {
                    reached.push(*target);
                }
            }
        }
        false
    }

    pub(super) fn owner(&self) -> Value {
        let children: Vec<_> = (self.groups.iter().enumerate())
            .map(|(group, kind)| {
                let selector = json!({"matchLabels": {label(group): "true"}});
                json!({"apiVersion": format!("{GROUP}/{VERSION}"), "resource": plural(*kind), "selector": selector})
            })
            .collect();
        json!({
            "apiVersion": "globalowner.metacontroller.io/v1alpha1", "kind": "GlobalOwner",
            "metadata": {"name": OWNER},
            "spec": {
                "childResources": children,
                "order": if self.by_rules { "ByRules" } else { "Listed" },
                "deletionPolicy": if self.end == End::Policy { "Orphan" } else { "Delete" },
            },
        })
    }

    /// Returns an object as it is created. `other` is the UID of the ConfigMap that owns some of them.
    pub(super) fn object(&self, place: usize, other: &str) -> Value {
        let thing = &self.objects[place];
        let labels = thing.groups.iter().map(|group| (label(*group), json!("true")));
        let refs = thing.refers.iter().map(|to| (format!("ref{}", self.objects[*to].kind), json!(name(*to))));
        let mut object = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind(thing.kind),
            "metadata": {"name": name(place), "labels": serde_json::Map::from_iter(labels)},
            "spec": serde_json::Map::from_iter(refs),
        });
        if thing.is_held {
            object["metadata"]["finalizers"] = json!([FINALIZER]);
        }
        if thing.opted_out {
            object["metadata"]["annotations"] = json!({"dependencies.opendefense.cloud/adopt": "false"});
        }
        if thing.is_anothers {
            let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other});
            object["metadata"]["ownerReferences"] = json!([other]);
        }
        object
    }

    /// Returns one rule for each kind that refers to others.
    pub(super) fn dependency_rules(&self) -> Vec<Value> {
        let of_kind = |from: usize| {
            let targets = self.rules.iter().filter(|(dependent, _)| *dependent == from).map(|(_, to)| {
                let reference = json!({"path": format!(".spec.ref{to}")});
                json!({"group": GROUP, "version": VERSION, "resource": plural(*to), "fieldRef": reference})
            });
            let targets: Vec<_> = targets.collect();
            let dependent = json!({"group": GROUP, "version": VERSION, "kind": kind(from), "resource": plural(from)});
            (!targets.is_empty()).then(|| {
                json!({
                    "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
                    "metadata": {"name": plural(from)}, "spec": {"dependent": dependent, "dependencies": targets},
                })
            })
        };
        (0..KINDS).filter_map(of_kind).collect()
    }
}

impl Thing {
    /// Returns an object that exists from the beginning and belongs to these groups.
    pub(super) fn new(kind: usize, groups: Vec<usize>) -> Self {
        let comes = Comes::First;
        Self { kind, groups, refers: vec![], is_held: false, opted_out: false, is_anothers: false, comes }
    }

    /// Returns true if a removal leaves the object.
    pub(super) fn stays(&self) -> bool {
        self.groups.is_empty() || self.opted_out || self.is_anothers
    }
}

/// Returns true if `from` has groups, and all of them come before those of `to`.
fn is_before(groups: &[usize], from: usize, to: usize) -> bool {
    let last = groups.iter().rposition(|kind| *kind == from);
    let first = groups.iter().position(|kind| *kind == to);
    last.zip(first).is_some_and(|(last, first)| last < first)
}

pub(super) fn kind(kind: usize) -> String {
    format!("Kind{kind}")
}

pub(super) fn plural(kind: usize) -> String {
    format!("kind{kind}s")
}

pub(super) fn name(place: usize) -> String {
    format!("x{place}")
}

/// Returns the label by which a group selects.
pub(super) fn label(group: usize) -> String {
    format!("in-{group}")
}

/// Returns the path where objects of a kind are created.
pub(super) fn collection(kind: usize) -> String {
    let namespace = if kind + 1 < KINDS { "/namespaces/default" } else { "" };
    format!("/apis/{GROUP}/{VERSION}{namespace}/{}", plural(kind))
}

pub(super) fn definition(number: usize) -> Value {
    let refs = (0..KINDS).map(|to| (format!("ref{to}"), json!({"type": "string"})));
    let spec = json!({"type": "object", "properties": serde_json::Map::from_iter(refs)});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{GROUP}", plural(number))},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind(number), "listKind": format!("{}List", kind(number)), "plural": plural(number),
                "singular": kind(number).to_lowercase(),
            },
            "scope": if number + 1 < KINDS { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}
