//! `dangling`: lists references to objects that don't exist.

mod checks;
mod coverage;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use depguard_core::api::{OnDelete, OnMissing};
use depguard_core::lookup::ReferenceTarget;
use depguard_core::model::GroupResource;
use depguard_core::rule::Reference as RuleReference;
use schemars::JsonSchema;
use serde::Serialize;

use self::coverage::PathCoverage;

use crate::cluster::files::FileArgs;
use crate::cluster::files_for_server::FilesForServer;
use crate::cluster::kinds::{KindInfo, resource_name};
use crate::cluster::rules::ReadFailure;
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::engine::reference_scan::{
    AppliedEdge, Follow, Object, ObjectIdentity, READ_ONE_NAMESPACE, Reference, Scan, Scope,
};
use crate::io::ci_formats;
use crate::io::exit::{Failure, Outcome};
use crate::io::output::{CheckFormat, CheckOutputArgs, first_of, some_of};
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::Terminal;
use crate::options::Global;

/// List references to objects that do not exist
///
/// Checks every reference that the rules find, as a database does when it validates a foreign key, and lists the
/// references without a target. A label selector that selects nothing is not a dangling reference. Reads the namespace
/// of the context, or all namespaces with -A, and always the objects without a namespace; with -f, all objects of the
/// files.
///
/// With -f and --live, a target that the files lack is looked for on the API server, by one request for each. The rules
/// are those of the files, or the API server's if the files have none. An object that names no namespace is in the one of
/// -n, or of the context. A target that can't be read, or whose kind the rule probably misspells, is not called missing:
/// the reference could not be checked.
///
/// A target is not missing that the files lack, but that every cluster has (ClusterRole `view`), or that an object of the
/// files makes, as the Secret of a Certificate (packs know these kinds): a note names such targets, and JSON lists them as
/// `given`.
///
/// The table has one row for each missing target. -o wide has one for each reference, as the other formats have.
///
/// With -l or --field-selector, only references of selected objects are listed. A target counts whether it is selected
/// or not.
///
/// Exit code: 1 if there are dangling references; 2 if there are none, but some references could not be checked, because something could not be
/// read, or because a rule can't find its dependents; or if there was nothing to check: no rule that applies, no such namespace, no object of a kind that rules name, none that is selected, or none that refers to anything.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    output: CheckOutputArgs,

    /// With -f: also look on the API server for targets that the files lack
    #[arg(long)]
    live: bool,

    /// Also list each path of the rules, with the number of references that it matched
    #[arg(long)]
    coverage: bool,
}

/// Result of the command.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    dangling: Vec<DanglingReference>,
    /// Targets that the files lack, and that will be there: every cluster has them, or an object of the files makes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    given: Vec<GivenTarget>,
    /// Number of references that were checked.
    looked_at: usize,
    /// Number of references that could not be checked.
    not_looked_at: usize,
    unread: Vec<ReadFailure>,
    /// Paths of the rules, if the user asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<Vec<PathCoverage>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DanglingReference {
    rule: String,
    dependent: ObjectIdentity,
    field: String,
    target: MissingTarget,
    on_delete: OnDelete,
    on_missing: OnMissing,
    /// File and line of the dependent, if it is in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

/// Target that the files lack, and that will be there.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GivenTarget {
    #[serde(flatten)]
    object: ObjectIdentity,
    /// Number of references to it.
    references: usize,
    /// Object of the files that makes it; absent if every cluster has the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    made_by: Option<ObjectIdentity>,
}

/// Target that doesn't exist.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct MissingTarget {
    #[serde(flatten)]
    object: ObjectIdentity,
    /// UID that the target would need.
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// Name for people.
    #[serde(skip)]
    shown: String,
}

/// Limit on the dependents, fields and rules that a row names.
const MAX_NAMED: usize = 3;

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let (source, rules, server) = if args.live {
        let FilesForServer { files, rules, server } = FilesForServer::open(global, &args.files, terminal).await?;
        (files, rules, Some(server))
    } else {
        let source = Source::open(global, &args.files, terminal).await?;
        let rules = source.rules().await?;
        (source, rules, None)
    };
    let namespace = source.scope(global)?;
    let (namespace, selection) = (namespace.as_ref(), Some(&args.selection));
    let scope = Scope { namespace, selection, ..Scope::all(Follow::Targets, READ_ONE_NAMESPACE) };
    let mut scan = Scan::read(&source, &rules, scope, &[], terminal).await?;
    if let Some(server) = server {
        scan.look_up_missing(&server, is_meant).await?;
    }
    let mut report = Report::from_scan(&scan);
    report.locate(&source);
    report.coverage = args.coverage.then(|| coverage::paths(&scan));
    crate::engine::reference_scan::print_unread(&report.unread, terminal)?;
    scan.print_left_out(terminal)?;
    report.given_notes().iter().try_for_each(|note| terminal.note(note))?;
    if let Some(nothing) = scan.coverage.nothing().filter(|_| report.dangling.is_empty()) {
        return Err(nothing);
    }
    print(&report, &scan, args.output.output, terminal)?;
    report.outcome(&scan)
}

impl CommandReport for Report {
    const KIND: &'static str = "DanglingReport";
}

impl Report {
    fn from_scan(scan: &Scan) -> Self {
        let unread = scan.unread.clone();
        let mut report =
            Self { dangling: Vec::new(), given: Vec::new(), looked_at: 0, not_looked_at: 0, unread, coverage: None };
        // If a rule gives only the resource of a kind, an object tells the kind's name.
        let kinds: HashMap<_, _> =
            scan.objects.iter().map(|object| (object.kind.gvr.group_resource(), &object.kind)).collect();
        for reference in &scan.references {
            let (Some(from), Some(applied)) = (scan.objects.get(reference.from), scan.edges.get(reference.edge)) else {
                continue;
            };
            if !(is_meant(from) && is_by_name(applied)) {
                continue;
            }
            if let ReferenceTarget::Unclear { why, .. } = &*reference.means {
                report.not_looked_at += 1;
                let what = format!("the references of {from} by {}", applied.edge.field());
                report.unread.push(ReadFailure::new(what, format!("it {why}")));
                continue;
            }
            // An optional reference may point to nothing.
            match (reference.exists || applied.edge.optional, reference.looked_at) {
                (false, false) => report.not_looked_at += 1,
                (true, _) => report.looked_at += 1,
                (false, true) => {
                    report.looked_at += 1;
                    let Some((target, namespace, name)) = scan.missing_target(reference) else { continue };
                    let Some(kind) = kinds.get(&target).copied().or(scan.kind(&target)) else { continue };
                    report.dangling.push(DanglingReference {
                        rule: applied.rule().name.clone(),
                        dependent: from.identity(),
                        field: applied.edge.field(),
                        target: MissingTarget::new(reference, kind, namespace, name),
                        on_delete: applied.edge.on_delete,
                        on_missing: applied.edge.on_missing,
                        file: None,
                        line: None,
                    });
                }
            }
        }
        report.dangling.sort_by_cached_key(DanglingReference::order);
        report.given = given(scan, |kind| kinds.get(kind).copied().or(scan.kind(kind)));
        report
    }

    /// Returns notes that name the given targets.
    fn given_notes(&self) -> Vec<String> {
        let (made, had): (Vec<_>, Vec<_>) = self.given.iter().partition(|given| given.made_by.is_some());
        let note = |given: Vec<&GivenTarget>, by: &str| {
            let references = match given.iter().map(|given| given.references).sum() {
                0_usize => return None,
                1 => "1 reference".to_owned(),
                many => format!("{many} references"),
            };
            let names = given.iter().map(|GivenTarget { object, made_by, .. }| match made_by {
                Some(maker) => format!("{object} by {maker}"),
                None => object.to_string(),
            });
            Some(format!("{references} to objects that {by}: {}", some_of(names, ", ")))
        };
        [note(had, "every cluster has"), note(made, "objects of the files make")].into_iter().flatten().collect()
    }

    /// Adds the file and line of each dependent that is in a file.
    fn locate(&mut self, source: &Source) {
        let Source::Manifests(manifests) = source else { return };
        let mut origins: HashMap<_, _> =
            self.dangling.iter().map(|dangling| (dangling.dependent.key(), None)).collect();
        for object in manifests.objects() {
            let (group, resource) = (object.gvr.group.as_str(), object.gvr.resource.as_str());
            let key = (group, resource, object.namespace(), object.name());
            if let Some(origin) = origins.get_mut(&key) {
                *origin = Some(object.origin());
            }
        }
        let found: Vec<_> =
            self.dangling.iter().map(|dangling| origins.get(&dangling.dependent.key()).copied().flatten()).collect();
        for (dangling, origin) in self.dangling.iter_mut().zip(found) {
            dangling.file = origin.map(|origin| origin.file.to_string());
            dangling.line = origin.map(|origin| origin.line);
        }
    }

    fn outcome(&self, scan: &Scan) -> Result<Outcome, Failure> {
        if !self.dangling.is_empty() {
            return Ok(Outcome::Finding);
        }
        if self.not_looked_at == 0 && scan.is_whole() {
            return match self.dependents(scan) {
                1.. if self.looked_at == 0 => Err(nothing_checked(self.dependents(scan))),
                _ => Ok(Outcome::Well),
            };
        }
        Err(Failure::new(self.gap(scan))
            .hint("the notes above name the rules and kinds: get the right to list them, or correct them"))
    }

    /// Counts the objects whose references by name would have been checked if they had any.
    fn dependents(&self, scan: &Scan) -> usize {
        let edges = scan.edges.iter().filter(|applied| is_by_name(applied));
        let kinds: HashSet<_> = edges.map(AppliedEdge::dependent).collect();
        let is_dependent = |object: &&Object| is_meant(object) && kinds.contains(&object.kind.gvr.group_resource());
        scan.objects.iter().filter(is_dependent).count()
    }

    /// Says why dangling references may be missing.
    fn gap(&self, scan: &Scan) -> String {
        match (self.not_looked_at, scan.unread.len()) {
            (0, 1) => {
                "incomplete: 1 rule or kind could not be read, so missing references may go unreported".to_owned()
            }
            (0, many) => {
                format!("incomplete: {many} rules or kinds could not be read, so missing references may go unreported")
            }
            (1, _) => "incomplete: 1 reference could not be checked; no other one dangles".to_owned(),
            (many, _) => format!("incomplete: {many} references could not be checked; no other one dangles"),
        }
    }
}

impl DanglingReference {
    /// Returns the sort key: people look for the dependent first.
    fn order(&self) -> (String, Option<String>, String, String, String, String) {
        let ObjectIdentity { kind, namespace, name, .. } = &self.dependent;
        let (rule, field) = (self.rule.clone(), self.field.clone());
        (kind.clone(), namespace.clone(), name.clone(), rule, field, self.target.shown.clone())
    }
}

impl MissingTarget {
    fn new(reference: &Reference, kind: &KindInfo, namespace: Option<&str>, name: &str) -> Self {
        let uid = match &*reference.means {
            ReferenceTarget::Named { uid, .. } => uid.as_deref().map(str::to_owned),
            ReferenceTarget::Selected { .. } | ReferenceTarget::Unclear { .. } => None,
        };
        let object = ObjectIdentity::new(kind, namespace.map(str::to_owned), name);
        let mut shown = match (&object.namespace, kind.namespaced) {
            (None, Some(true)) => format!("{}/{name} in any namespace", object.kind),
            _ => object.to_string(),
        };
        if let Some(uid) = &uid {
            shown.push_str(&format!(" with UID {uid}"));
        }
        Self { object, uid, shown }
    }
}

/// Returns the given targets of the references that are reported, each once.
fn given<'s>(scan: &'s Scan, kind: impl Fn(&GroupResource) -> Option<&'s Arc<KindInfo>>) -> Vec<GivenTarget> {
    let mut targets = BTreeMap::new();
    for given in &scan.given {
        let Some(reference) = scan.references.get(given.reference) else { continue };
        let from = scan.objects.get(reference.from).filter(|from| is_meant(from));
        let applied = scan.edges.get(reference.edge).filter(|applied| is_by_name(applied));
        let (Some(_), Some(_), Some(kind)) = (from, applied, kind(&given.kind)) else { continue };
        let object = ObjectIdentity::new(kind, given.namespace.clone(), &given.name);
        let target = targets.entry(object.to_string()).or_insert_with(|| GivenTarget {
            object,
            references: 0,
            made_by: given.maker.clone(),
        });
        target.references = target.references.saturating_add(1);
    }
    targets.into_values().collect()
}

/// Returns true if the references of an object are reported.
fn is_meant(from: &Object) -> bool {
    (from.inside || from.namespace().is_none()) && from.selected
}

/// Returns true if a reference by an edge names its target, so that it can dangle.
fn is_by_name(applied: &AppliedEdge) -> bool {
    matches!(applied.edge.reference, RuleReference::Field(_) | RuleReference::Fixed(_))
}

/// Builds the failure of a check that found dependents, and no reference of theirs.
fn nothing_checked(dependents: usize) -> Failure {
    let objects = if dependents == 1 { "1 object".to_owned() } else { format!("{dependents} objects") };
    Failure::new(format!(
        "nothing was checked: no rule finds a reference in {objects} of the kinds that refer to others"
    ))
    .hint("compare the paths and the `when` of the rules with the objects: --coverage lists what each path matched")
}

fn print(report: &Report, scan: &Scan, format: Option<CheckFormat>, terminal: &mut Terminal) -> Result<(), Failure> {
    if let Some(format) = format.and_then(CheckFormat::ci) {
        return ci_formats::print(format, &checks::list(report, scan), terminal);
    }
    match format {
        Some(CheckFormat::Json) => print_json(report, terminal),
        Some(CheckFormat::Yaml) => print_yaml(report, terminal),
        Some(CheckFormat::Name) => {
            let mut names: Vec<_> = report.dangling.iter().map(|dangling| dangling.dependent.short()).collect();
            names.dedup();
            let text: String = names.into_iter().map(|name| name + "\n").collect();
            Ok(terminal.out().write_all(text.as_bytes())?)
        }
        _ => {
            let table = if format.is_some() { by_reference(&report.dangling) } else { by_target(&report.dangling) };
            let paths = report.coverage.as_deref().map(coverage::table).filter(|paths| !paths.is_empty());
            let paths = paths.map(|paths| paths.render(terminal)).unwrap_or_default();
            if table.is_empty() {
                terminal.out().write_all(paths.as_bytes())?;
                if report.outcome(scan).is_err() {
                    return Ok(());
                }
                let looked_at = match report.looked_at {
                    1 => "1 reference".to_owned(),
                    many => format!("{many} references"),
                };
                return Ok(writeln!(terminal.err(), "no dangling reference: {looked_at} checked")?);
            }
            let apart = if paths.is_empty() { "" } else { "\n" };
            let text = format!("{}{apart}{paths}", table.render(terminal));
            Ok(terminal.out().write_all(text.as_bytes())?)
        }
    }
}

/// Returns a table with a row for each missing target: how many refer to it, and the first of them by name.
fn by_target(dangling: &[DanglingReference]) -> Table {
    let mut targets = BTreeMap::<_, Vec<_>>::new();
    for reference in dangling {
        let MissingTarget { object, shown, .. } = &reference.target;
        targets.entry((shown, &object.group, &object.resource)).or_default().push(reference);
    }
    let mut table = Table::new(["MISSING TARGET", "REFERENCES", "DEPENDENT", "FIELD", "RULE"]);
    for ((shown, ..), references) in targets {
        let each = |part: fn(&DanglingReference) -> String| {
            let parts: BTreeSet<_> = references.iter().map(|reference| part(reference)).collect();
            first_of(parts, MAX_NAMED, ", ")
        };
        let dependents = each(|reference| reference.dependent.to_string());
        let (fields, rules) = (each(|reference| reference.field.clone()), each(|reference| reference.rule.clone()));
        table.push([shown.clone(), references.len().to_string(), dependents, fields, rules]);
    }
    table
}

fn by_reference(dangling: &[DanglingReference]) -> Table {
    let mut table = Table::new(["RULE", "DEPENDENT", "FIELD", "MISSING TARGET", "RESOURCE", "ON DELETE", "ON MISSING"]);
    for DanglingReference { rule, dependent, field, target, on_delete, on_missing, .. } in dangling {
        let ObjectIdentity { group, resource, .. } = &target.object;
        table.push([
            rule.clone(),
            dependent.to_string(),
            field.clone(),
            target.shown.clone(),
            resource_name(resource, group),
            format!("{on_delete:?}"),
            format!("{on_missing:?}"),
        ]);
    }
    table
}
