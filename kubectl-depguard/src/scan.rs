//! Who refers to whom: all references that the rules find among the objects of a namespace, or of all.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use depguard_core::{Edge, GroupResource, Means, Namespace, Referent, Rule, RuleKey};
use serde::Serialize;
use serde_json::Value;

use crate::kinds::{KindInfo, resource_name};
use crate::outcome::Failure;
use crate::rules::{Rules, Unread};
use crate::source::Source;
use crate::terminal::{Terminal, Tone};

mod coverage;
mod labels;
mod plan;
mod read;
mod resolve;

pub(crate) use self::coverage::Coverage;

/// All references among some objects.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The edges that bear here.
    pub(crate) edges: Vec<Bearing>,
    /// The objects of all kinds that the edges name, each once, as far as they were looked at.
    pub(crate) objects: Vec<Object>,
    /// What they refer to.
    pub(crate) references: Vec<Reference>,
    /// What could not be looked at.
    pub(crate) unread: Vec<Unread>,
    /// Rules that can't be used, each with what is wrong: where one would bear, it refuses.
    pub(crate) broken: Vec<(String, String)>,
    /// What all this is worth, where nothing is found.
    pub(crate) coverage: Coverage,
    kinds: HashMap<GroupResource, Arc<KindInfo>>,
    names: Names,
    seen: HashMap<GroupResource, plan::Seen>,
    pending: Vec<resolve::Pending>,
}

/// An edge that bears on what is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Bearing {
    pub(crate) rule: Arc<Rule>,
    pub(crate) edge: Edge,
}

/// What is kept of an object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) kind: Arc<KindInfo>,
    /// Its namespace, name and UID; its labels only where a selector may look at them.
    pub(crate) referent: Referent,
    pub(crate) terminating: bool,
    /// Whether it is in the namespace that was asked for.
    pub(crate) inside: bool,
}

/// What one object holds by one edge.
#[derive(Debug)]
pub(crate) struct Reference {
    /// Who refers: an index in the scan's objects.
    pub(crate) from: usize,
    /// By which: an index in the scan's edges.
    pub(crate) edge: usize,
    pub(crate) means: Means<'static>,
    /// Whom it holds: indexes in the scan's objects, ascending.
    pub(crate) holds: Vec<usize>,
    /// Whether anything is meant that is there, if only the object itself or its owner, whom it doesn't hold.
    pub(crate) exists: bool,
    /// Whether all was looked at that may be meant.
    pub(crate) looked_at: bool,
}

/// Which objects are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// Those of this namespace, and those without one; `None`: all.
    pub(crate) namespace: Option<&'a Namespace>,
    pub(crate) follow: Follow,
    /// Whether the labels of all objects are kept, and not only of those that a selector of a rule may look at.
    pub(crate) labels: bool,
    /// Where all namespaces must not be read, this one.
    pub(crate) fallback: Option<&'a Namespace>,
}

/// In which direction references lead out of the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// To whatever its objects refer to.
    Targets,
    /// To whoever refers to its objects.
    Dependents,
}

/// An object as a program reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Described {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// The objects by kind, namespace and name; what is in no namespace is in the empty one.
#[derive(Debug, Default)]
struct Names(HashMap<GroupResource, HashMap<String, HashMap<String, usize>>>);

/// The most objects that are kept.
const MOST_OBJECTS: usize = 1_000_000;
/// The most references, and the most objects that they hold all together.
const MOST_REFERENCES: usize = 4_000_000;

impl Scan {
    /// Looks through the objects that `scope` says. Where only whoever depends on one object matters, if by others, that is
    /// `known`: it is among them also where its kind can't be listed, and no other kinds are read than those that lead to
    /// it. What must not be read is no failure.
    pub(crate) async fn read(
        source: &Source,
        rules: &Rules,
        scope: Scope<'_>,
        known: Option<(&KindInfo, &Value)>,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let mut scan = Self::of(rules);
        let ends: BTreeSet<_> = scan.edges.iter().flat_map(|edge| [edge.dependent(), edge.target()]).collect();
        if let Some((kind, _)) = known {
            plan::retain_leading_to(&mut scan.edges, kind.gvr.group_resource());
        }
        read::all(&mut scan, source, scope, known, terminal).await?;
        resolve::all(&mut scan, scope.namespace.is_some())?;
        scan.coverage = Coverage::of(&scan, &ends, source, rules, scope).await?;
        Ok(scan)
    }

    /// Who holds each object: indexes in the references, for each of the objects.
    pub(crate) fn held_by(&self) -> Vec<Vec<usize>> {
        let mut held_by = vec![Vec::new(); self.objects.len()];
        for (index, reference) in self.references.iter().enumerate() {
            for target in &reference.holds {
                if let Some(held_by) = held_by.get_mut(*target) {
                    held_by.push(index);
                }
            }
        }
        held_by
    }

    /// The object of that kind and name.
    pub(crate) fn find(&self, kind: &GroupResource, namespace: Option<&str>, name: &str) -> Option<usize> {
        self.names.get(kind, namespace, name)
    }

    /// A kind that an edge names.
    pub(crate) fn kind(&self, kind: &GroupResource) -> Option<&Arc<KindInfo>> {
        self.kinds.get(kind)
    }

    /// Whether there is nothing that could not be looked at.
    pub(crate) fn is_whole(&self) -> bool {
        self.unread.is_empty() && self.broken.is_empty()
    }

    /// All that could not be looked at, the rules that can't be used among it.
    pub(crate) fn all_unread(&self) -> Vec<Unread> {
        let broken =
            |(rule, why): &(String, String)| Unread { what: format!("what the rule {rule} says"), why: why.clone() };
        self.unread.iter().cloned().chain(self.broken.iter().map(broken)).collect()
    }

    /// Says on standard error what could not be looked at.
    pub(crate) fn tell_unread(&self, terminal: &mut Terminal) -> Result<(), Failure> {
        let note = terminal.paint(Tone::Warning, "note:");
        for unread in self.all_unread() {
            writeln!(terminal.err(), "{note} could not look at {unread}")?;
        }
        Ok(())
    }

    fn of(rules: &Rules) -> Self {
        let (mut edges, mut broken) = (Vec::new(), Vec::new());
        for (object, parsed) in rules.objects.iter().zip(rules.parsed()) {
            match parsed {
                Ok(rule) => {
                    let rule = Arc::new(rule);
                    let bearing = rule.edges().iter().filter(|edge| rules.bears(&rule, edge));
                    edges.extend(bearing.map(|edge| Bearing { rule: Arc::clone(&rule), edge: edge.clone() }));
                }
                Err(why) => {
                    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("without a name");
                    broken.push((name.to_owned(), why.to_string()));
                }
            }
        }
        let unread = rules.unread.clone();
        Self {
            edges,
            objects: Vec::new(),
            references: Vec::new(),
            unread,
            broken,
            coverage: Coverage::default(),
            kinds: HashMap::new(),
            names: Names::default(),
            seen: HashMap::new(),
            pending: Vec::new(),
        }
    }
}

impl Bearing {
    pub(crate) fn rule(&self) -> &RuleKey {
        self.rule.key()
    }

    pub(crate) fn dependent(&self) -> GroupResource {
        self.rule.dependent().gvr.group_resource()
    }

    pub(crate) fn target(&self) -> GroupResource {
        self.edge.target.gvr.group_resource()
    }
}

impl Object {
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.referent.namespace.as_deref()
    }

    pub(crate) fn name(&self) -> &str {
        &self.referent.name
    }

    pub(crate) fn described(&self) -> Described {
        Described::new(&self.kind, self.referent.namespace.clone(), &self.referent.name)
    }
}

impl Described {
    pub(crate) fn new(kind: &KindInfo, namespace: Option<String>, name: &str) -> Self {
        Self {
            group: kind.gvr.group.to_string(),
            version: kind.gvr.version.to_string(),
            resource: kind.gvr.resource.to_string(),
            kind: kind.kind.clone(),
            namespace,
            name: name.to_owned(),
        }
    }

    /// As `-o name` says it: `vpcs.network.example.com/a`.
    pub(crate) fn short(&self) -> String {
        format!("{}/{}", resource_name(&self.resource, &self.group), self.name)
    }
}

/// As refusals name a dependent: `VirtualMachine/ns/m1`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.described().fmt(f)
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{}/{namespace}/{}", self.kind, self.name),
            None => write!(f, "{}/{}", self.kind, self.name),
        }
    }
}

impl Names {
    fn get(&self, kind: &GroupResource, namespace: Option<&str>, name: &str) -> Option<usize> {
        self.0.get(kind)?.get(namespace.unwrap_or_default())?.get(name).copied()
    }

    /// Those of that name in a namespace, or in none; `None`: in any.
    fn named(&self, kind: &GroupResource, namespace: Option<&str>, name: &str) -> Vec<usize> {
        let named = match namespace {
            Some(_) => vec![self.get(kind, namespace, name), self.get(kind, None, name)],
            None => self.places(kind).map(|(_, names)| names.get(name).copied()).collect(),
        };
        named.into_iter().flatten().collect()
    }

    /// Those of a namespace, and those of none; `None`: all.
    fn within(&self, kind: &GroupResource, namespace: Option<&str>) -> Vec<usize> {
        let wanted = |own: &str| own.is_empty() || namespace.is_none_or(|namespace| own == namespace);
        let places = self.places(kind).filter(|(own, _)| wanted(own));
        places.flat_map(|(_, names)| names.values()).copied().collect()
    }

    fn insert(&mut self, kind: GroupResource, object: &Referent, index: usize) {
        let namespace = object.namespace.clone().unwrap_or_default();
        self.0.entry(kind).or_default().entry(namespace).or_default().insert(object.name.clone(), index);
    }

    fn places(&self, kind: &GroupResource) -> impl Iterator<Item = (&String, &HashMap<String, usize>)> {
        self.0.get(kind).into_iter().flatten()
    }
}
