//! References between objects: all references that the rules find among the objects of one namespace, or of all.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use depguard_core::Rule;
use depguard_core::lookup::{ReferenceTarget, ReferencedObject};
use depguard_core::model::{GroupResource, Namespace};
use depguard_core::rule::{Edge, RuleKey};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::kinds::{KindInfo, resource_name};
use crate::cluster::rules::{CheckedRules, ReadFailure, Rules};
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::io::output::MAX_NAMED;
use crate::io::terminal::{Terminal, Tone};

mod coverage;
mod dependents;
mod labels;
mod look_up;
mod made;
mod plan;
mod read;
mod resolve;
mod select;

pub(crate) use self::coverage::Coverage;
pub(crate) use self::made::{GivenTarget, MadeObjects};

/// Objects, and all references between them.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Edges that apply to the cluster or workspace in question.
    pub(crate) edges: Vec<AppliedEdge>,
    /// Objects of all kinds that the edges name, each once, as far as they could be read.
    pub(crate) objects: Vec<Object>,
    /// References of these objects.
    pub(crate) references: Vec<Reference>,
    /// Objects that a reference means but doesn't hold: the dependent's owners, if the edge ignores owned dependents.
    pub(crate) owners: Vec<OwnerReference>,
    /// Parts that could not be read, including the rules that can't be used.
    pub(crate) unread: Vec<ReadFailure>,
    /// Number of the objects in the user's scope with a reference that doesn't count, because the `when` beside it does not
    /// hold.
    pub(crate) left_out: usize,
    /// Objects that others make, whether they exist or not.
    pub(crate) made: MadeObjects,
    /// Targets that the files lack, and that will be there.
    pub(crate) given: Vec<GivenTarget>,
    /// Completeness of the scan, for a command that finds nothing.
    pub(crate) coverage: Coverage,
    kinds: HashMap<GroupResource, Arc<KindInfo>>,
    names: Names,
    seen: HashMap<GroupResource, plan::ReadNamespaces>,
    /// Namespaces in which each edge's dependents were read.
    dependents_seen: Vec<plan::ReadNamespaces>,
    /// Number of parts in `unread` that are rules or files, and not kinds.
    unread_rules: usize,
    pending: Vec<resolve::PendingReference>,
}

/// Edge that applies to the cluster or workspace in question.
#[derive(Debug, Clone)]
pub(crate) struct AppliedEdge {
    pub(crate) rule: Arc<Rule>,
    pub(crate) edge: Edge,
    /// True if the rule probably misspells one of its kinds.
    is_misspelt: bool,
}

/// Object, reduced to the parts that the scan needs.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) kind: Arc<KindInfo>,
    /// Namespace, name and UID; the labels only if a selector may match them.
    pub(crate) referent: ReferencedObject,
    pub(crate) terminating: bool,
    /// True if the object is in the namespace that the user asked for.
    pub(crate) inside: bool,
    /// False if the user's selection leaves the object out.
    pub(crate) selected: bool,
}

/// Reference of one object by one edge.
#[derive(Debug)]
pub(crate) struct Reference {
    /// Dependent: an index in the scan's objects.
    pub(crate) from: usize,
    /// Edge: an index in the scan's edges.
    pub(crate) edge: usize,
    /// Meaning, which references that follow each other often share.
    pub(crate) means: Arc<ReferenceTarget<'static>>,
    /// Objects that the reference holds: indexes in the scan's objects, ascending.
    pub(crate) holds: Vec<usize>,
    /// True if any object that the reference means exists, even if it is only the dependent itself or its owner, which
    /// the reference doesn't hold; or if it is in no file, but will be there.
    pub(crate) exists: bool,
    /// True if the scan read every object that the reference may mean, and knows their kind.
    pub(crate) looked_at: bool,
}

/// Reference of an object to its own owner, which is no obstacle to the owner's deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnerReference {
    /// Reference: an index in the scan's references.
    pub(crate) reference: usize,
    /// Owner: an index in the scan's objects.
    pub(crate) owner: usize,
}

/// Objects that a scan reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// Namespace of the objects, beside objects without a namespace; `None` for all namespaces.
    pub(crate) namespace: Option<&'a Namespace>,
    pub(crate) follow: Follow,
    /// True to keep the labels of all objects; false to keep only labels that a rule's selector may match.
    pub(crate) labels: bool,
    /// Namespace to read instead if the caller may not read all namespaces.
    pub(crate) fallback: Option<&'a Namespace>,
    /// True to read, on an API server, the objects that make others. In files they are read in any case.
    pub(crate) makers: bool,
    /// Selection of the objects to report; `None` for all. Others are read all the same.
    pub(crate) selection: Option<&'a Selection>,
    /// Advice on how to read less, if there are too many objects or references.
    pub(crate) read_less: &'static str,
}

/// Direction in which the scan follows references out of the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// To the objects that the namespace's objects refer to.
    Targets,
    /// To the objects that refer to the namespace's objects.
    Dependents,
}

/// Object in a command's output for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectIdentity {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// Indexes of objects by kind, namespace and name. Objects without a namespace are in the empty one.
#[derive(Debug, Default)]
struct Names(HashMap<GroupResource, HashMap<String, HashMap<String, usize>>>);

/// Advice for a command that reads the namespace of `--namespace`.
pub(crate) const READ_ONE_NAMESPACE: &str = "read one namespace at a time, with --namespace";
/// Advice for a drawing of the surroundings of objects, in all namespaces.
pub(crate) const DRAW_ONE_NAMESPACE: &str =
    "draw one namespace at a time: `kubectl depguard graph --objects --namespace NAMESPACE`";

/// Limit on the objects of a scan.
const MAX_OBJECTS: usize = 1_000_000;
/// Limit on the references of a scan, and on the objects that they hold in total.
const MAX_REFERENCES: usize = 4_000_000;

impl Scan {
    /// Reads the objects in `scope`, and their references. A caller that needs only the direct and indirect dependents
    /// of some objects passes these as `known`. The scan then contains these objects even if their kinds can't be
    /// listed, and reads only kinds that lead to them. Missing rights are no failure.
    pub(crate) async fn read(
        source: &Source,
        rules: &Rules,
        scope: Scope<'_>,
        known: &[(&KindInfo, &Value)],
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let scope = Scope { selection: scope.selection.filter(|selection| !selection.is_empty()), ..scope };
        let mut scan = Self::new(rules);
        let ends: BTreeSet<_> = scan.edges.iter().flat_map(|edge| [edge.dependent(), edge.target()]).collect();
        if !known.is_empty() {
            let known = known.iter().map(|(kind, _)| kind.gvr.group_resource());
            let reached = plan::retain_leading_to(&mut scan.edges, known);
            scan.unread.retain(|unread| reached.iter().any(|kind| unread.may_refer_to(kind)));
            scan.unread_rules = scan.unread.len();
        }
        read::all(&mut scan, source, scope, known, terminal).await?;
        resolve::all(&mut scan, source.kinds().await?, scope)?;
        if scope.makers || !source.is_live() {
            scan.made = MadeObjects::read(&scan.edges, rules.control_plane, source, scope, terminal).await?;
        }
        scan.find_given(source);
        scan.coverage = Coverage::new(&scan, &ends, source, rules, scope).await?;
        if let Some(selection) = scope.selection {
            scan.select(selection, source, scope.namespace, terminal).await?;
        }
        Ok(scan)
    }

    /// Returns the references that hold each object: for each object, indexes in the references.
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

    /// Returns each pair of objects of which the first keeps the second from being deleted: it refers to it by an edge
    /// that refuses, and the second is not being deleted already. The third number is the edge.
    pub(crate) fn blocking(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let denying = self.references.iter().filter(|reference| self.denies(reference));
        denying.flat_map(|reference| {
            let stands = |target: &&usize| self.objects.get(**target).is_some_and(|target| !target.terminating);
            reference.holds.iter().filter(stands).map(|target| (reference.from, *target, reference.edge))
        })
    }

    /// Returns the kind, namespace and name of the target of a reference by name, if it is known not to exist.
    pub(crate) fn missing_target<'s>(
        &self,
        reference: &'s Reference,
    ) -> Option<(GroupResource, Option<&'s str>, &'s str)> {
        let ReferenceTarget::Named { name, namespace, .. } = &*reference.means else { return None };
        if reference.exists || !reference.looked_at {
            return None;
        }
        let target = self.edges.get(reference.edge)?.target();
        let is_global = match self.kind(&target).and_then(|kind| kind.namespaced) {
            Some(is_namespaced) => !is_namespaced,
            // No namespace is known of a kind whose objects name none.
            None => self.names.places(&target).next().is_some() && self.names.places(&target).all(|it| it.0.is_empty()),
        };
        Some((target, namespace.as_deref().filter(|_| !is_global), name))
    }

    /// Returns the object of that kind and name.
    pub(crate) fn find(&self, kind: &GroupResource, namespace: Option<&str>, name: &str) -> Option<usize> {
        self.names.get(kind, namespace, name)
    }

    /// Returns a kind that an edge names.
    pub(crate) fn kind(&self, kind: &GroupResource) -> Option<&Arc<KindInfo>> {
        self.kinds.get(kind)
    }

    /// Returns the rules and files that could not be read.
    pub(crate) fn unread_rules(&self) -> &[ReadFailure] {
        self.unread.get(..self.unread_rules).unwrap_or_default()
    }

    /// Returns true if the scan read every object that may refer by this edge to an object of that namespace.
    pub(crate) fn covers_dependents(&self, edge: usize, namespace: Option<&str>) -> bool {
        let stays = self.edges.get(edge).is_some_and(|applied| applied.edge.reference.stays_in_namespace());
        let namespace = namespace.filter(|_| stays);
        self.dependents_seen.get(edge).is_some_and(|seen| seen.covers(namespace))
    }

    /// Records further parts that could not be read.
    pub(crate) fn miss(&mut self, unread: impl IntoIterator<Item = ReadFailure>) {
        for unread in unread {
            if !self.unread.contains(&unread) {
                self.coverage.miss(std::slice::from_ref(&unread));
                self.unread.push(unread);
            }
        }
    }

    /// Returns true if the scan could read everything.
    pub(crate) fn is_whole(&self) -> bool {
        self.unread.is_empty()
    }

    /// Prints on standard error the parts that could not be read, and the number of objects that `when` left out.
    pub(crate) fn print_unread(&self, terminal: &mut Terminal) -> Result<(), Failure> {
        print_unread(&self.unread, terminal)?;
        self.print_left_out(terminal)
    }

    /// Prints on standard error the number of objects that `when` left out.
    pub(crate) fn print_left_out(&self, terminal: &mut Terminal) -> Result<(), Failure> {
        let objects = match self.left_out {
            0 => return Ok(()),
            1 => "1 object".to_owned(),
            many => format!("{many} objects"),
        };
        Ok(terminal.note(&format!("references of {objects} were left out by the `when` of their rules"))?)
    }

    fn new(rules: &Rules) -> Self {
        let (edges, unread) = AppliedEdge::from_rules(rules);
        Self {
            dependents_seen: edges.iter().map(|_| plan::ReadNamespaces::default()).collect(),
            unread_rules: unread.len(),
            edges,
            objects: Vec::new(),
            references: Vec::new(),
            owners: Vec::new(),
            unread,
            left_out: 0,
            made: MadeObjects::default(),
            given: Vec::new(),
            coverage: Coverage::default(),
            kinds: HashMap::new(),
            names: Names::default(),
            seen: HashMap::new(),
            pending: Vec::new(),
        }
    }
}

/// Prints on standard error the parts that could not be read: in one line those for which a right is missing.
pub(crate) fn print_unread(unread: &[ReadFailure], terminal: &mut Terminal) -> Result<(), Failure> {
    let (forbidden, others): (Vec<_>, Vec<_>) = unread.iter().partition(|unread| unread.why == ReadFailure::NO_RIGHT);
    let mut lines: Vec<_> = others.iter().map(ToString::to_string).collect();
    match forbidden.as_slice() {
        [] => {}
        [only] => lines.push(only.to_string()),
        many => {
            let named: Vec<_> = many.iter().take(MAX_NAMED).map(|unread| unread.what.as_str()).collect();
            let more = many.len().saturating_sub(named.len());
            let more = if more == 0 { String::new() } else { format!(", and {more} more") };
            let (count, why, named) = (many.len(), ReadFailure::NO_RIGHT, named.join(", "));
            lines.push(format!("{count} parts ({why}): {named}{more}; ask for the right to get and list them"));
        }
    }
    let note = terminal.paint(Tone::Warning, "note:");
    Ok(lines.iter().try_for_each(|line| writeln!(terminal.err(), "{note} could not read {line}"))?)
}

impl AppliedEdge {
    /// Returns the edges of all usable rules that apply, and the parts that could not be read.
    pub(crate) fn from_rules(rules: &Rules) -> (Vec<Self>, Vec<ReadFailure>) {
        let mut edges = Vec::new();
        let CheckedRules { usable, unread } = rules.check();
        for rule in usable.into_iter().map(|(_, rule)| Arc::new(rule)) {
            let applied = rule.edges().iter().filter(|edge| rules.applies(&rule, edge));
            let is_misspelt = rules.misspells(&rule);
            edges.extend(applied.map(|edge| Self { rule: Arc::clone(&rule), edge: edge.clone(), is_misspelt }));
        }
        (edges, unread)
    }

    /// Returns true if the targets' kind is probably misspelt, so that nobody knows what a reference means: nothing but the
    /// rule tells of it.
    pub(crate) fn is_misnamed(&self, target: Option<&KindInfo>) -> bool {
        self.is_misspelt && target.is_none_or(|kind| kind.namespaced.is_none())
    }

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

impl Scope<'_> {
    /// Builds the scope of all objects in all namespaces.
    pub(crate) const fn all(follow: Follow, read_less: &'static str) -> Self {
        Self { namespace: None, follow, labels: false, fallback: None, makers: false, selection: None, read_less }
    }

    fn too_many_references(&self) -> Failure {
        Failure::new(format!("there are more than {MAX_REFERENCES} references to read")).hint(self.read_less)
    }
}

impl Object {
    /// Returns true if the user asked for the object: by its namespace, and by its labels and fields.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.inside && self.selected
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.referent.namespace.as_deref()
    }

    pub(crate) fn name(&self) -> &str {
        &self.referent.name
    }

    pub(crate) fn identity(&self) -> ObjectIdentity {
        ObjectIdentity::new(&self.kind, self.referent.namespace.clone(), &self.referent.name)
    }
}

impl ObjectIdentity {
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

    /// Returns the identity without the version: group, resource, namespace and name.
    pub(crate) fn key(&self) -> (&str, &str, Option<&str>, &str) {
        (&self.group, &self.resource, self.namespace.as_deref(), &self.name)
    }

    /// Returns the object's name in the form of `-o name`: `vpcs.network.example.com/a`.
    pub(crate) fn short(&self) -> String {
        format!("{}/{}", resource_name(&self.resource, &self.group), self.name)
    }
}

/// Names the object as a refusal names a dependent: `VirtualMachine/ns/m1`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.identity().fmt(f)
    }
}

impl fmt::Display for ObjectIdentity {
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

    /// Returns the objects of that name in a namespace, and the cluster-scoped ones; `None` for any namespace.
    fn named(&self, kind: &GroupResource, namespace: Option<&str>, name: &str) -> Vec<usize> {
        let named = match namespace {
            Some(_) => vec![self.get(kind, namespace, name), self.get(kind, None, name)],
            None => self.places(kind).map(|(_, names)| names.get(name).copied()).collect(),
        };
        named.into_iter().flatten().collect()
    }

    /// Returns the objects of a namespace, and the cluster-scoped ones; `None` for all namespaces.
    fn within(&self, kind: &GroupResource, namespace: Option<&str>) -> Vec<usize> {
        let is_within = |own: &str| own.is_empty() || namespace.is_none_or(|namespace| own == namespace);
        let places = self.places(kind).filter(|(own, _)| is_within(own));
        places.flat_map(|(_, names)| names.values()).copied().collect()
    }

    fn insert(&mut self, kind: GroupResource, object: &ReferencedObject, index: usize) {
        let namespace = object.namespace.clone().unwrap_or_default();
        self.0.entry(kind).or_default().entry(namespace).or_default().insert(object.name.clone(), index);
    }

    fn places(&self, kind: &GroupResource) -> impl Iterator<Item = (&String, &HashMap<String, usize>)> {
        self.0.get(kind).into_iter().flatten()
    }
}
