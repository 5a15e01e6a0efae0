//! Planner of lookups: the cheapest requests that find every dependent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use crate::applicability::teardown_exemption::TeardownExemption;
use crate::lookup::edge_set::EdgeSet;
use crate::model::api::{OnDelete, OwnedDependents, Strategy};
use crate::model::field_path::{FieldPath, Segment};
use crate::model::names::{ExportName, GroupVersionResource, LogicalCluster, Namespace};
use crate::protocol::deletion_target::DeletionTarget;
use crate::protocol::request::Accept;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};
use crate::rule::{Dependent, Edge, FieldReference, Reference, RuleKey};

/// The most fields of one kind of dependents that are requested one by one. With more fields, all dependents are read
/// at once.
const MAX_FIELDS: usize = 4;

/// The fields of an object's metadata that an API server returns unchanged when it is asked for the metadata alone.
const METADATA: [&str; 7] =
    ["annotations", "finalizers", "generateName", "labels", "name", "namespace", "ownerReferences"];

/// The objects of a search: the objects of one kind, in one namespace or in all.
///
/// Lookups with equal dependents may share a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Dependents {
    /// The logical cluster; `None` on plain Kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// The APIExport that serves the kind; `None` for a local kind.
    pub export: Option<(LogicalCluster, ExportName)>,
    /// The resource, in the version in which it is read.
    pub gvr: GroupVersionResource,
    /// The namespace; `None`: all of them.
    pub namespace: Option<Namespace>,
    /// The requested form of each object.
    pub accept: Accept,
}

/// Plan for finding the dependents of one kind that refer to a target, with the rules that need it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct LookupPlan {
    /// The objects to search.
    pub dependents: Dependents,
    /// The strategy of the search.
    pub strategy: Strategy,
    /// The field by which the API server selects, with [`Strategy::FieldSelector`]: `spec.vpcRef.name`.
    pub field: Option<String>,
    /// The rules that need the search.
    pub rules: Arc<[RuleKey]>,
}

/// Lookup for some edges, without its target.
#[derive(Debug)]
pub(crate) struct PlannedLookup {
    pub(crate) edges: Arc<EdgeSet>,
    /// The `onDelete` action that these edges share.
    pub(crate) on_delete: OnDelete,
    /// The teardown exemption that these edges share.
    pub(crate) exemption: Option<TeardownExemption>,
    /// The field by which an API server may select the dependents that refer to the target; `None`: all are read.
    pub(crate) field: Option<String>,
    export: Option<(LogicalCluster, ExportName)>,
    gvr: GroupVersionResource,
    in_namespace: bool,
    accept: Accept,
}

/// An edge that needs a lookup, and the scope of the lookup.
#[derive(Debug)]
pub(crate) struct PlannedEdge {
    pub(crate) edge: Arc<CompiledEdge>,
    /// True if only the target's namespace is searched.
    pub(crate) in_namespace: bool,
    pub(crate) exemption: Option<TeardownExemption>,
}

/// Plans for many edges, each made once, for all reviews that meet the same edges.
///
/// The edges of a plan are all that it depends on, so a plan never gets old. An edge in a plan stays alive, so its address
/// stays its own.
#[derive(Debug, Default)]
pub(crate) struct Plans(Mutex<HashMap<Vec<PlannedEdge>, Arc<[PlannedLookup]>>>);

impl Plans {
    /// The fewest edges for which a plan is kept. To make a plan of fewer is quick.
    const MIN_EDGES: usize = 16;
    /// The most edges of all kept plans together: some 14 MiB.
    const MAX_EDGES: usize = 10_000;

    /// Plans the lookups for these edges.
    pub(crate) fn plan(&self, planned: Vec<PlannedEdge>) -> Arc<[PlannedLookup]> {
        if !(Self::MIN_EDGES..=Self::MAX_EDGES).contains(&planned.len()) {
            return plan(&planned);
        }
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept().get(&planned).cloned();
        known.unwrap_or_else(|| {
            let made = plan(&planned);
            let mut kept = kept();
            let edges = kept.keys().map(Vec::len).sum::<usize>();
            if edges + planned.len() > Self::MAX_EDGES {
                kept.clear();
            }
            kept.insert(planned, Arc::clone(&made));
            made
        })
    }
}

/// Plans the lookups for these edges: one list for each kind of dependents, or lists by field selectors.
///
/// Edges are grouped by teardown exemption and by `onDelete`, so that a failed list of one group never affects
/// another group's verdict. (Their lists may still be shared.)
fn plan(planned: &[PlannedEdge]) -> Arc<[PlannedLookup]> {
    let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for PlannedEdge { edge, in_namespace, exemption } in planned {
        let EdgeState::Usable { dependent, edge: followed } = &edge.state else { continue };
        let export = edge.dependent_export.as_ref().and_then(|export| Some((edge.rule.cluster.as_ref()?, export)));
        let search = Search { edge, in_namespace: *in_namespace, exemption: *exemption, field: followed.selected_by() };
        kinds.entry((export, &dependent.gvr)).or_default().push(search);
    }
    let mut lookups = BTreeMap::new();
    for ((export, gvr), mut searches) in kinds {
        scan_once(&mut searches);
        // One list of whole objects also serves the edges that need only metadata.
        let whole = searches.iter().filter(|search| search.field.is_none() && !reads_metadata(search.edge));
        let whole: BTreeSet<_> = whole.map(|search| search.in_namespace).collect();
        for Search { edge, in_namespace, exemption, field } in searches {
            let whole = if field.is_none() { whole.contains(&in_namespace) } else { !reads_metadata(edge) };
            let accept = if whole { Accept::Json } else { Accept::Metadata };
            let key = (export, gvr, in_namespace, accept, edge.on_delete, exemption, field);
            lookups.entry(key).or_insert_with(Vec::new).push(Arc::clone(edge));
        }
    }
    let lookups =
        lookups.into_iter().map(|((export, gvr, in_namespace, accept, on_delete, exemption, field), edges)| {
            let export = export.map(|(cluster, export)| (cluster.clone(), export.clone()));
            let (edges, gvr) = (Arc::new(EdgeSet::new(edges)), gvr.clone());
            PlannedLookup { edges, on_delete, exemption, field, export, gvr, in_namespace, accept }
        });
    lookups.collect()
}

/// The way in which an edge's dependents are searched.
#[derive(Debug)]
struct Search<'e> {
    edge: &'e Arc<CompiledEdge>,
    in_namespace: bool,
    exemption: Option<TeardownExemption>,
    field: Option<String>,
}

/// Lets one list serve all edges about a kind if all of its objects must be read anyway.
///
/// Only a refusing edge can force that: an edge that merely warns must make a refusal neither more expensive nor
/// likelier to fail.
fn scan_once(searches: &mut [Search<'_>]) {
    let must = |search: &Search<'_>| search.edge.on_delete == OnDelete::Deny && search.field.is_none();
    if searches.iter().any(|search| must(search) && !search.in_namespace) {
        for search in searches {
            (search.in_namespace, search.field) = (false, None);
        }
        return;
    }
    let mut fields: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut scanned = BTreeSet::new();
    for search in searches.iter() {
        fields.entry(search.in_namespace).or_default().extend(search.field.as_deref());
        if must(search) {
            scanned.insert(search.in_namespace);
        }
    }
    scanned.extend(fields.into_iter().filter(|(_, fields)| fields.len() > MAX_FIELDS).map(|(place, _)| place));
    for search in searches {
        if scanned.contains(&search.in_namespace) {
            search.field = None;
        }
    }
}

impl PlannedLookup {
    /// Returns the objects to search for a target.
    pub(crate) fn dependents(&self, target: &DeletionTarget) -> Dependents {
        Dependents {
            cluster: target.cluster.clone(),
            export: self.export.clone(),
            gvr: self.gvr.clone(),
            namespace: target.namespace.clone().filter(|_| self.in_namespace),
            accept: self.accept,
        }
    }
}

impl PartialEq for PlannedEdge {
    fn eq(&self, other: &Self) -> bool {
        let Self { edge, in_namespace, exemption } = self;
        Arc::ptr_eq(edge, &other.edge) && (in_namespace, exemption) == (&other.in_namespace, &other.exemption)
    }
}

impl Eq for PlannedEdge {}

impl Hash for PlannedEdge {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { edge, in_namespace, exemption } = self;
        (Arc::as_ptr(edge), in_namespace, exemption).hash(state);
    }
}

fn reads_metadata(edge: &CompiledEdge) -> bool {
    match &edge.state {
        EdgeState::Usable { dependent, edge } => {
            // A selector reads labels, which are always in the metadata.
            let Dependent { export: _, gvr: _, kind: _, selector: _ } = &**dependent;
            edge.reads_metadata()
        }
        EdgeState::Invalid(_) => false,
    }
}

// === Capabilities of an edge ===

impl Edge {
    /// Returns the field by which an API server can select the dependents that refer to a target, if its schema makes
    /// the field selectable: `spec.vpcRef.name`, as in a field selector.
    ///
    /// This is sound only if the field's whole value is the target's name: then the server selects every referrer.
    /// (In a list of names each name is a reference, but an API server selects only by scalars, and makes the schema
    /// follow that.)
    pub fn selected_by(&self) -> Option<String> {
        let Reference::Field(field) = &self.reference else { return None };
        // The paths beside the name only narrow what was found by the name.
        let FieldReference {
            path,
            keys,
            split,
            pattern,
            place: _,
            group: _,
            kind: _,
            default_kind: _,
            api_version: _,
            uid: _,
        } = &**field;
        if *keys || split.is_some() || pattern.is_some() {
            return None;
        }
        let names: Vec<_> = path.segments().iter().map(label).collect::<Option<_>>()?;
        match names.as_slice() {
            // No other field of the metadata is ever selectable.
            ["metadata", field, ..] if !matches!(*field, "name" | "namespace") => None,
            names => Some(names.join(".")),
        }
    }

    /// Returns true if each dependent that the rule selects refers to the target, wherever the target's name fits.
    pub(crate) fn is_of_each(&self) -> bool {
        let Self {
            index: _,
            target: _,
            reference,
            when,
            optional: _,
            // The rule names no target that it excludes.
            exclude_names: _,
            on_delete: _,
            owned_dependents,
            on_missing: _,
            message: _,
        } = self;
        matches!(reference, Reference::Fixed(_)) && when.is_empty() && *owned_dependents == OwnedDependents::Block
    }

    /// Returns true if all values that are read of a dependent are in its metadata.
    pub fn reads_metadata(&self) -> bool {
        // `paths` names all fields of an edge. Owners are always in the metadata.
        self.paths().all(|(_, path)| is_metadata(path))
    }
}

/// Returns a step as it stands in a field selector, where a name with a dot would count as two names.
fn label(segment: &Segment) -> Option<&str> {
    let Segment::Name(name) = segment else { return None };
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-');
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

fn is_metadata(path: &FieldPath) -> bool {
    match path.segments() {
        [Segment::Name(metadata), Segment::Name(field), ..] => {
            metadata == "metadata" && METADATA.contains(&field.as_str())
        }
        _ => false,
    }
}

// === Path, strategy and text ===

impl Dependents {
    /// Returns the path of their list.
    pub(crate) fn path(&self) -> String {
        self.gvr.path(self.namespace.as_ref().map(Namespace::as_str), None)
    }

    /// Returns the strategy for reading all of them.
    pub(crate) fn strategy(&self) -> Strategy {
        match (self.accept, &self.namespace) {
            (Accept::Metadata, _) => Strategy::Metadata,
            (_, Some(_)) => Strategy::NamespaceScan,
            (_, None) => Strategy::ClusterScan,
        }
    }
}

impl fmt::Display for LookupPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dependents: Dependents { cluster, gvr, namespace, .. }, strategy, field, rules } = self;
        write!(f, "{gvr}")?;
        if let Some(namespace) = namespace {
            write!(f, " in namespace {namespace}")?;
        }
        if let Some(cluster) = cluster {
            write!(f, " of logical cluster {cluster}")?;
        }
        write!(f, " by {}", strategy.as_str())?;
        if let Some(field) = field {
            write!(f, " {field}")?;
        }
        let rules: Vec<_> = rules.iter().map(RuleKey::to_string).collect();
        write!(f, ", for {}", rules.join(", "))
    }
}
