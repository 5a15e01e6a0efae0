//! The cheapest way to find dependents that can't miss one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::api::{OnDelete, Strategy};
use crate::names::{ExportName, GroupVersionResource, LogicalCluster, Namespace};
use crate::path::{FieldPath, Segment};
use crate::query::Accept;
use crate::rule::{Edge, Reference, RuleKey};
use crate::ruleset::{Check, IndexedEdge};
use crate::scopes::Release;

/// Of one kind of dependents, more fields than this are not asked for one by one: all are then read at once.
const MOST_FIELDS: usize = 4;

/// What of an object's metadata an API server gives when it is asked for the metadata alone, as it stands in the object.
const METADATA: [&str; 7] =
    ["annotations", "finalizers", "generateName", "labels", "name", "namespace", "ownerReferences"];

/// Which objects are looked through: those of one kind, in one namespace or in all.
///
/// Lookups with equal ones may share a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Dependents {
    /// The logical cluster; `None` in home kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// Whose API it is; `None` for a local kind.
    pub export: Option<(LogicalCluster, ExportName)>,
    /// The resource, in the version in which it is read.
    pub gvr: GroupVersionResource,
    /// The namespace; `None`: all of them.
    pub namespace: Option<Namespace>,
    /// What is read of each.
    pub accept: Accept,
}

/// How a kind of dependents is looked through for those who refer to a target, and for which rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Planned {
    /// Which objects.
    pub dependents: Dependents,
    /// In which way.
    pub strategy: Strategy,
    /// The field that the API server is asked for, with [`Strategy::FieldSelector`]: `spec.vpcRef.name`.
    pub field: Option<String>,
    /// The rules that want it.
    pub rules: Vec<RuleKey>,
}

/// Edges that are looked for together.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) dependents: Dependents,
    pub(crate) edges: Vec<Arc<IndexedEdge>>,
    /// What all of them want for what they find.
    pub(crate) on_delete: OnDelete,
    /// Why they may let go in what is torn down.
    pub(crate) release: Option<Release>,
    /// The field by whose value an API server may be asked for those who refer to the target; `None`: all are read.
    pub(crate) field: Option<String>,
}

/// An edge that is to be looked for, and where.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) export: Option<(LogicalCluster, ExportName)>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) edge: Arc<IndexedEdge>,
    pub(crate) release: Option<Release>,
}

/// Plans how to look for all of these edges: one list for each kind of dependents, or none of all of them.
///
/// Edges that may let go are kept from those that never do, and those that refuse from those that don't: what one can't
/// read must not decide for the other. (Their lists may still be shared.)
pub(crate) fn plan(cluster: Option<&LogicalCluster>, wanted: Vec<Wanted>) -> Vec<Step> {
    let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for wanted in wanted {
        let Check::Follow { dependent, edge } = &wanted.edge.check else { continue };
        let (gvr, field) = (dependent.gvr.clone(), edge.selected_by());
        kinds.entry((wanted.export.clone(), gvr)).or_default().push((wanted, field));
    }
    let mut steps = BTreeMap::new();
    for ((export, gvr), mut wanted) in kinds {
        scan_once(&mut wanted);
        // One list of whole objects serves those who would do with less.
        let reads_whole = |namespace: &Option<Namespace>| {
            let mut scanning =
                wanted.iter().filter(|(wanted, field)| field.is_none() && wanted.namespace == *namespace);
            scanning.any(|(wanted, _)| !reads_metadata(&wanted.edge))
        };
        let whole: BTreeSet<_> =
            wanted.iter().map(|(wanted, _)| wanted.namespace.clone()).filter(reads_whole).collect();
        for (Wanted { namespace, edge, release, .. }, field) in wanted {
            let whole = if field.is_none() { whole.contains(&namespace) } else { !reads_metadata(&edge) };
            let accept = if whole { Accept::Json } else { Accept::Metadata };
            let (cluster, export, gvr) = (cluster.cloned(), export.clone(), gvr.clone());
            let dependents = Dependents { cluster, export, gvr, namespace, accept };
            let key = (dependents, edge.on_delete, release, field);
            steps.entry(key).or_insert_with(Vec::new).push(edge);
        }
    }
    let step = |((dependents, on_delete, release, field), edges)| Step { dependents, edges, on_delete, release, field };
    steps.into_iter().map(step).collect()
}

/// Where all objects of a kind must be read anyway, that serves every edge about them.
///
/// Only a refusing edge makes it a must: what merely warns must not make a refusal dearer, nor fail it.
fn scan_once(wanted: &mut [(Wanted, Option<String>)]) {
    let must = |(wanted, field): &(Wanted, Option<String>)| wanted.edge.on_delete == OnDelete::Deny && field.is_none();
    if wanted.iter().any(|each| must(each) && each.0.namespace.is_none()) {
        for (wanted, field) in wanted {
            (wanted.namespace, *field) = (None, None);
        }
        return;
    }
    let mut fields: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut scanned = BTreeSet::new();
    for each @ (Wanted { namespace, .. }, field) in wanted.iter() {
        fields.entry(namespace.clone()).or_default().extend(field.clone());
        if must(each) {
            scanned.insert(namespace.clone());
        }
    }
    scanned.extend(fields.into_iter().filter(|(_, fields)| fields.len() > MOST_FIELDS).map(|(namespace, _)| namespace));
    for (wanted, field) in wanted {
        if scanned.contains(&wanted.namespace) {
            *field = None;
        }
    }
}

fn reads_metadata(edge: &IndexedEdge) -> bool {
    match &edge.check {
        Check::Follow { edge, .. } => edge.reads_metadata(),
        Check::Broken(_) => false,
    }
}

// === What an edge allows ===

impl Edge {
    /// The field by whose value an API server can be asked for the dependents that refer to a target, if its schema makes
    /// the field selectable: `spec.vpcRef.name`, as it stands in a field selector.
    ///
    /// Sound only where the field's whole value is the target's name: whoever refers to it is then selected. (In a list of
    /// names each is a reference, but an API server selects by scalars alone, and holds the schema to that.)
    pub fn selected_by(&self) -> Option<String> {
        let Reference::Field(field) = &self.reference else { return None };
        if field.keys || field.pattern.is_some() {
            return None;
        }
        let names: Vec<_> = field.path.segments().iter().map(label).collect::<Option<_>>()?;
        match names.as_slice() {
            // Of an object's metadata nothing else is ever selectable.
            ["metadata", field, ..] if !matches!(*field, "name" | "namespace") => None,
            names => Some(names.join(".")),
        }
    }

    /// Whether all that is read of a dependent stands in its metadata.
    pub fn reads_metadata(&self) -> bool {
        // Owners and the labels of the dependents' selector stand there anyway.
        self.paths().all(|(_, path)| is_metadata(path))
    }
}

/// A step as it stands in a field selector. A name with a dot in it would there be two.
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

// === For people ===

impl Dependents {
    /// Where they are listed.
    pub(crate) fn path(&self) -> String {
        self.gvr.path(self.namespace.as_ref().map(Namespace::as_str), None)
    }

    /// How all of them are read.
    pub(crate) fn strategy(&self) -> Strategy {
        match (self.accept, &self.namespace) {
            (Accept::Metadata, _) => Strategy::Metadata,
            (_, Some(_)) => Strategy::NamespaceScan,
            (_, None) => Strategy::ClusterScan,
        }
    }
}

impl fmt::Display for Planned {
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
