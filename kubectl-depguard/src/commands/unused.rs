//! `unused`: lists objects of protected kinds to which no object refers.

mod unapplied;

use std::collections::{BTreeMap, BTreeSet};

use depguard_controller::manifests::AGGREGATE;
use depguard_core::lookup::ReferenceTarget;
use depguard_core::model::{GroupResource, Namespace};
use schemars::JsonSchema;
use serde::Serialize;

use self::unapplied::{UnappliedPacks, with_strict};

use crate::cluster::every_cluster::each_namespace_has;
use crate::cluster::files::FileArgs;
use crate::cluster::kinds::resource_name;
use crate::cluster::rules::ReadFailure;
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::engine::reference_scan::{AppliedEdge, Follow, Object, ObjectIdentity, READ_ONE_NAMESPACE, Scan, Scope};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::{Format, OutputArgs, some_of};
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::Terminal;
use crate::options::Global;

/// List objects that no other object refers to
///
/// The mirror of `dangling`: of every kind that is a target in a rule, lists the objects that no reference means. A use
/// that no rule describes is not seen, so the command names the rules that it went by. An object is `unknown`, and not
/// unused, if a rule that may mean its kind could not be read or can't find its dependents, if a kind of dependents or
/// a reference that may mean the object could not be read, or if a kind that is served, or that is in the files, may refer
/// to it by a rule of a pack (`kubectl depguard rules list`) that is not applied. What a cluster puts into each namespace
/// is left out: ServiceAccount `default` and ConfigMap `kube-root-ca.crt`. So are the ClusterRoles of packs. Objects that are
/// being deleted are left out. An object that another one makes and keeps is not unused, as the Secret of a Certificate (packs
/// know these kinds). An object's reference to itself doesn't count.
///
/// Lists the objects in the namespace of the context, or all objects with -A, also those without a namespace; with -f,
/// the objects of the files. Dependents are searched in all namespaces from which a rule lets them refer. With -l or
/// --field-selector, only selected objects are listed; a dependent counts whether it is selected or not.
///
/// Exit code: 1 if there are unused objects; 2 if an object is unknown, if something could not be read, or if there was
/// nothing to check.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    output: OutputArgs,
}

/// Result of the command.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    unused: Vec<UnusedObject>,
    unknown: Vec<UnknownObject>,
    /// Number of objects that were checked, with the used ones.
    looked_at: usize,
    /// Rules that the result goes by.
    rules: BTreeSet<String>,
    unread: Vec<ReadFailure>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct UnusedObject {
    #[serde(flatten)]
    object: ObjectIdentity,
    /// Rules in which the object's kind is a target.
    rules: BTreeSet<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct UnknownObject {
    #[serde(flatten)]
    object: ObjectIdentity,
    rules: BTreeSet<String>,
    /// Reasons why it is unknown if the object is used.
    why: BTreeSet<String>,
}

/// Known uses of an object.
#[derive(Debug, Clone, Default)]
struct Uses {
    is_used: bool,
    /// References that may mean the object: indexes in the scan's references.
    unclear: Vec<usize>,
}

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let source = Source::open(global, &args.files, terminal).await?;
    let rules = with_strict(source.rules().await?);
    let namespace = source.scope(global)?;
    let fallback = namespace.as_ref();
    let selection = Some(&args.selection);
    let scope = Scope {
        namespace: fallback,
        fallback,
        selection,
        makers: true,
        ..Scope::all(Follow::Dependents, READ_ONE_NAMESPACE)
    };
    let scan = Scan::read(&source, &rules, scope, &[], terminal).await?;
    scan.print_unread(terminal)?;
    if let Some(nothing) = scan.coverage.nothing() {
        return Err(nothing);
    }
    let report = Report::from_scan(&scan, &UnappliedPacks::find(&source, &rules, &scan).await?);
    if report.looked_at == 0 && scan.is_whole() {
        return Err(no_object(&scan, namespace.as_ref(), &args.selection));
    }
    print(&report, args.output.output, terminal)?;
    notes(&report, &scan, namespace.as_ref(), terminal)?;
    report.outcome()
}

impl CommandReport for Report {
    const KIND: &'static str = "UnusedReport";
}

impl Report {
    fn from_scan(scan: &Scan, unapplied: &UnappliedPacks) -> Self {
        let mut edges = BTreeMap::<GroupResource, Vec<usize>>::new();
        for (index, applied) in scan.edges.iter().enumerate() {
            edges.entry(applied.target()).or_default().push(index);
        }
        let rule = |edge: &usize| scan.edges.get(*edge).map(|applied| applied.rule().name.clone());
        let mut report = Self {
            unused: Vec::new(),
            unknown: Vec::new(),
            looked_at: 0,
            rules: scan.edges.iter().map(|applied| applied.rule().name.clone()).collect(),
            unread: scan.unread.clone(),
        };
        for (object, uses) in scan.objects.iter().zip(uses(scan)) {
            let Some(edges) = edges.get(&object.kind.gvr.group_resource()) else { continue };
            let kind = object.kind.gvr.group_resource();
            let comes_along = each_namespace_has(&kind, object.name()) || is_of_a_pack(object);
            if !object.is_asked_for() || object.terminating || comes_along {
                continue;
            }
            report.looked_at += 1;
            if uses.is_used || scan.made.maker(&kind, object.namespace(), object.name()).is_some() {
                continue;
            }
            let mut why = doubts(scan, object, edges, &uses);
            why.extend(unapplied.reasons(&kind));
            let rules = edges.iter().filter_map(rule).collect();
            let object = object.identity();
            if why.is_empty() {
                report.unused.push(UnusedObject { object, rules });
            } else {
                report.unknown.push(UnknownObject { object, rules, why });
            }
        }
        report.unused.sort_by_cached_key(|unused| order(&unused.object));
        report.unknown.sort_by_cached_key(|unknown| order(&unknown.object));
        report
    }

    fn outcome(&self) -> Result<Outcome, Failure> {
        let message = match (self.unknown.len(), self.unread.len()) {
            (0, 0) if self.unused.is_empty() => return Ok(Outcome::Well),
            (0, 0) => return Ok(Outcome::Finding),
            (0, 1) => "incomplete: 1 kind could not be read, so unused objects may be missing".to_owned(),
            (0, many) => format!("incomplete: {many} kinds could not be read, so unused objects may be missing"),
            (1, _) => "incomplete: it is unknown if 1 object is used".to_owned(),
            (many, _) => format!("incomplete: it is unknown if {many} objects are used"),
        };
        Err(Failure::new(message).hint(
            "the notes and reasons above name the rules, kinds and references: get the right to list them, correct \
             them, or apply the rules",
        ))
    }
}

/// Returns the sort key: by kind, then by place.
fn order(object: &ObjectIdentity) -> (String, Option<String>, String) {
    let ObjectIdentity { kind, namespace, name, .. } = object;
    (kind.clone(), namespace.clone(), name.clone())
}

/// Returns the known uses of each object of the scan.
fn uses(scan: &Scan) -> Vec<Uses> {
    let mut uses = vec![Uses::default(); scan.objects.len()];
    let held = scan.references.iter().enumerate().flat_map(|(index, reference)| {
        let others = reference.holds.iter().filter(move |target| **target != reference.from);
        others.map(move |target| (index, *target))
    });
    let owned = scan.owners.iter().map(|owner| (owner.reference, owner.owner));
    for (index, target) in held.chain(owned) {
        let (Some(reference), Some(uses)) = (scan.references.get(index), uses.get_mut(target)) else { continue };
        match &*reference.means {
            ReferenceTarget::Named { .. } | ReferenceTarget::Selected { .. } => uses.is_used = true,
            ReferenceTarget::Unclear { .. } => uses.unclear.push(index),
        }
    }
    uses
}

/// Returns true for a ClusterRole that comes with rules: depguard's own, which is in no file, aggregates it.
fn is_of_a_pack(object: &Object) -> bool {
    let kind = &object.kind.gvr;
    let is_role = kind.group.as_str() == "rbac.authorization.k8s.io" && kind.resource.as_str() == "clusterroles";
    is_role && object.referent.labels.contains_key(AGGREGATE)
}

/// Returns the reasons why an object without a known use may be used nevertheless; `edges`: the edges whose target it is.
fn doubts(scan: &Scan, object: &Object, edges: &[usize], uses: &Uses) -> BTreeSet<String> {
    let kind = object.kind.gvr.group_resource();
    let unread = scan.unread_rules().iter().filter(|unread| unread.may_refer_to(&kind));
    let mut why: BTreeSet<_> = unread.map(|unread| format!("{} could not be read", unread.what)).collect();
    why.extend(scan.made.unread(&kind).map(|makers| format!("{makers} may make it, and were not read")));
    for edge in edges {
        let Some(applied) = scan.edges.get(*edge) else { continue };
        if !scan.covers_dependents(*edge, object.namespace()) {
            why.insert(format!("{} could not be read everywhere", applied.dependent()));
        }
        if applied.edge.excludes(object.name()) {
            let (rule, name) = (&applied.rule().name, object.name());
            why.insert(format!("rule {rule} excludes the name {name}, so that nobody looks who uses it"));
        }
    }
    for reference in uses.unclear.iter().filter_map(|index| scan.references.get(*index)) {
        let (from, edge) = (scan.objects.get(reference.from), scan.edges.get(reference.edge));
        if let (Some(from), Some(applied), ReferenceTarget::Unclear { why: told, .. }) = (from, edge, &*reference.means)
        {
            why.insert(format!("{from} may refer to it by {}: it {told}", applied.edge.field()));
        }
    }
    why
}

/// Builds the failure of a scan without any object of a target kind.
fn no_object(scan: &Scan, namespace: Option<&Namespace>, selection: &Selection) -> Failure {
    let kinds: BTreeSet<_> = scan.edges.iter().map(|applied| applied.target().to_string()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    let selected = if selection.is_empty() { String::new() } else { format!(" that matches {selection},") };
    Failure::new(format!("there is no object{place}{selected} of a kind that is a target in a rule: {kinds}"))
        .hint("-A lists all namespaces, and objects without a namespace")
}

fn print(report: &Report, format: Option<Format>, terminal: &mut Terminal) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => print_json(report, terminal),
        Some(Format::Yaml) => print_yaml(report, terminal),
        Some(Format::Name) => {
            let text: String = report.unused.iter().map(|unused| unused.object.short() + "\n").collect();
            Ok(terminal.out().write_all(text.as_bytes())?)
        }
        Some(Format::Wide) | None => {
            let wide = format.is_some();
            let mut headings = vec!["OBJECT", "STATE", "REASON"];
            headings.extend(wide.then_some(["RESOURCE", "RULES"]).into_iter().flatten());
            let mut table = Table::new(headings);
            let none = BTreeSet::new();
            let unused = report.unused.iter().map(|unused| (&unused.object, "unused", &none, &unused.rules));
            let unknown = report.unknown.iter().map(|own| (&own.object, "unknown", &own.why, &own.rules));
            for (object, state, why, rules) in unused.chain(unknown) {
                let mut cells = vec![object.to_string(), state.to_owned(), some_of(why.iter().cloned(), "; ")];
                if wide {
                    cells
                        .extend([resource_name(&object.resource, &object.group), some_of(rules.iter().cloned(), ", ")]);
                }
                table.push(cells);
            }
            if table.is_empty() { Ok(()) } else { table.print(terminal) }
        }
    }
}

/// Prints beside the result: the rules that it goes by, and the objects that were not looked at.
fn notes(report: &Report, scan: &Scan, namespace: Option<&Namespace>, terminal: &mut Terminal) -> Result<(), Failure> {
    if report.unused.is_empty() && report.unknown.is_empty() {
        let checked = match report.looked_at {
            1 => "1 object".to_owned(),
            many => format!("{many} objects"),
        };
        writeln!(terminal.err(), "no unused object: {checked} checked")?;
    }
    let targets: BTreeSet<_> = scan.edges.iter().map(AppliedEdge::target).collect();
    let cluster_scoped: BTreeSet<_> = targets
        .iter()
        .filter(|kind| scan.kind(kind).is_some_and(|known| known.namespaced == Some(false)))
        .map(ToString::to_string)
        .collect();
    if namespace.is_some() && !cluster_scoped.is_empty() {
        let kinds = some_of(cluster_scoped, ", ");
        terminal.note(&format!("left out kinds without a namespace: {kinds}; -A lists them"))?;
    }
    let rules = some_of(report.rules.iter().cloned(), ", ");
    Ok(terminal.note(&format!("went by these rules: {rules}; a use that no rule describes is not seen"))?)
}
