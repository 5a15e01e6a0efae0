//! `impact`: lists the objects that depend on an object, directly or through others.

use clap::ValueEnum;
use depguard_core::api::OnDelete;
use depguard_core::lookup::ReferenceTarget;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::cluster::files::FileArgs;
use crate::cluster::kinds::KindInfo;
use crate::cluster::named_objects::{NamedObject, NamedObjectsArgs};
use crate::cluster::rules::ReadFailure;
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::engine::members::Members;
use crate::engine::reference_scan::{Follow, Object, ObjectIdentity, Scan, Scope};
use crate::io::exit::{Failure, Outcome};
use crate::io::report::{CommandReport, ObjectReport};
use crate::io::terminal::Terminal;
use crate::options::Global;

mod drawing;
mod print;
mod tree;

use self::tree::{Line, Repetition};

/// Show which objects depend on an object, directly or through others
///
/// Follows all rules from the object to its dependents, from these to their own dependents, and so on, and prints a
/// tree, or with -o mermaid or svg a drawing. A direct dependent blocks the deletion of the object, unless its rule only
/// warns or audits; a drawing shows it in red. Reads all namespaces that you may read. With -l or
/// --field-selector, only selected dependents are shown, and the objects between them and the object.
///
/// With a CustomResourceDefinition go the objects of its kind, and with a namespace the objects in it: the tree shows those
/// to which objects refer that stay. What goes with a workspace of kcp can't be read from outside, so the answer about one
/// is incomplete.
///
/// Several objects get a tree each, or one drawing, and -o json or yaml prints a list of reports. All objects are read
/// once; what could not be read counts for each of the trees.
///
/// Exit code: 2 if something could not be read from which dependents may be missing, if a named object does not exist, or
/// if no rule applies.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    objects: NamedObjectsArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selection: Selection,

    /// Output format [default: text for people]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<ImpactFormat>,
}

/// Formats of the command: those of all commands, and drawings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImpactFormat {
    /// Text for people, with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names only, one per line; like kubectl's, they leave out the namespace
    Name,
    /// Drawing in Mermaid, for Markdown
    Mermaid,
    /// Picture for a browser or a document
    Svg,
}

/// Result of the command. The list of dependents is flat, so that it can be of any depth: each dependent names the
/// object that it depends on.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report<'s> {
    target: ObjectIdentity,
    #[schemars(with = "Vec<Dependent>")]
    dependents: Dependents<'s>,
    /// Number of objects that depend on the target, each counted once.
    count: usize,
    unread: Vec<ReadFailure>,
}

/// Dependents, one for each line of the tree. Each is built when it is printed: together they take much more memory than
/// the scan.
#[derive(Debug)]
struct Dependents<'s> {
    scan: &'s Scan,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Dependent {
    #[serde(flatten)]
    object: ObjectIdentity,
    /// 1 for a dependent of the target itself.
    depth: usize,
    depends_on: ObjectIdentity,
    by: Vec<RuleField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<Repetition>,
    /// False for an object that the selection leaves out, but on which a selected object depends.
    selected: bool,
}

/// Rule and field by which one object refers to another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RuleField {
    rule: String,
    field: String,
    on_delete: OnDelete,
    /// Reason why the reference could not be resolved, if it could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    unclear: Option<String>,
}

/// Dependents of one of the objects that the user named.
struct Tree<'s> {
    /// Object that the user named: an index in the scan's objects.
    root: usize,
    report: Report<'s>,
}

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let source = Source::open(global, &args.files, terminal).await?;
    let named = args.objects.read(&source, global).await?;
    let are_several = named.are_several();
    if let (true, Some(missing)) = (named.found.is_empty(), Failure::joined(named.missing.clone())) {
        return Err(missing);
    }
    let rules = source.rules().await?;
    let fallback = named.found.iter().find_map(|named| named.namespace.as_ref());
    let (selection, read_less) = (Some(&args.selection), read_less(&source));
    let scope = Scope { fallback, selection, ..Scope::all(Follow::Dependents, read_less) };
    let mut members = Vec::new();
    for named in &named.found {
        members.push(Members::read(&source, &rules, (&named.kind, &named.object), terminal).await?);
    }
    let known = named.found.iter().map(|named| (&named.kind, &*named.object));
    let known: Vec<_> = known.chain(members.iter().flat_map(Members::known)).collect();
    let mut scan = Scan::read(&source, &rules, scope, &known, terminal).await?;
    let held_by = scan.held_by();
    let mut found = Vec::new();
    for (NamedObject { kind, name, object, .. }, members) in named.found.iter().zip(&members) {
        let own = object.pointer("/metadata/namespace").and_then(serde_json::Value::as_str);
        let Some(root) = scan.find(&kind.gvr.group_resource(), own, name) else {
            return Err(Failure::new(format!("{} {name} could not be read", kind.kind)).hint("run it again"));
        };
        let members = tree::needed(&scan, &held_by, root, members);
        found.push((root, kind, tree::lines(&scan, &held_by, root, &members)));
    }
    // Nobody knows which of the unread objects would be selected.
    if !args.selection.has_fields() {
        let dependents = found.iter().flat_map(|(_, _, lines)| lines).map(|line| line.object);
        scan.forget_unread_beside(&tree::marked(&scan, &known, dependents), |_| true);
    }
    scan.miss(members.iter().flat_map(|members| members.unread.iter().cloned()));
    let trees = found.into_iter().map(|(root, kind, lines)| {
        let lines = tree::selected(&scan, lines);
        Tree { root, report: Report::from_scan(&scan, root, kind, lines) }
    });
    let trees: Vec<_> = trees.collect();
    scan.print_unread(terminal)?;
    let is_nothing = scan.is_whole() && trees.iter().all(|tree| tree.report.count == 0);
    if let Some(nothing) = scan.coverage.nothing().filter(|_| is_nothing) {
        return Err(nothing);
    }
    print::trees(&trees, &scan, are_several, args.output, terminal)?;
    let failures = named.missing.into_iter().chain(incomplete(&trees, &scan));
    Failure::joined(failures.collect()).map_or(Ok(Outcome::Well), Err)
}

/// Returns the advice if there are too many objects or references. A namespace leaves out none: all are read.
fn read_less(source: &Source) -> &'static str {
    match source {
        Source::Manifests(_) => {
            "name fewer files with -f: those with the rules, the object, and the objects that may depend on it"
        }
        Source::ApiServer(_) => "`kubectl depguard why` names the direct dependents, and reads only these",
    }
}

/// Returns the failure of a scan that may lack dependents, even if it has some.
fn incomplete(trees: &[Tree<'_>], scan: &Scan) -> Option<Failure> {
    let what = match scan.unread.len() {
        0 => return None,
        1 => "1 rule or kind".to_owned(),
        many => format!("{many} rules or kinds"),
    };
    let targets: Vec<_> = trees.iter().map(|tree| tree.report.target.to_string()).collect();
    let targets = targets.join(", ");
    let failure =
        Failure::new(format!("incomplete: {what} could not be read, so dependents of {targets} may be missing"));
    Some(failure.hint(
        "the notes above name them: get the right to list them, correct the rules, or let the API server try the \
         deletion (`kubectl delete --dry-run=server`)",
    ))
}

impl CommandReport for Report<'_> {
    const KIND: &'static str = "ImpactReport";
}

impl ObjectReport for Report<'_> {
    const LIST_KIND: &'static str = "ImpactReportList";
}

impl<'s> Report<'s> {
    fn from_scan(scan: &'s Scan, root: usize, kind: &KindInfo, lines: Vec<Line>) -> Self {
        let target = scan.objects.get(root).map(Object::identity);
        Self {
            target: target.unwrap_or_else(|| ObjectIdentity::new(kind, None, "")),
            count: lines.iter().filter(|line| tree::is_counted(scan, line)).count(),
            dependents: Dependents { scan, lines },
            unread: scan.unread.clone(),
        }
    }
}

impl Dependents<'_> {
    fn iter(&self) -> impl Iterator<Item = (&Line, Dependent)> {
        let Self { scan, lines } = self;
        lines.iter().filter_map(|line| {
            let object = scan.objects.get(line.object)?;
            let dependent = Dependent {
                object: object.identity(),
                depth: line.depth,
                depends_on: scan.objects.get(line.parent)?.identity(),
                by: by(scan, line),
                again: line.again,
                selected: object.selected,
            };
            Some((line, dependent))
        })
    }

    /// Returns the lines of objects that count, each with its object.
    fn counted(&self) -> impl Iterator<Item = (&Line, &Object)> {
        let counted = self.lines.iter().filter(|line| tree::is_counted(self.scan, line));
        counted.filter_map(|line| Some((line, self.scan.objects.get(line.object)?)))
    }
}

impl Serialize for Dependents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(_, dependent)| dependent))
    }
}

/// Returns the rules and fields by which the object of a line refers to its parent.
fn by(scan: &Scan, line: &Line) -> Vec<RuleField> {
    let by = line.references.iter().filter_map(|index| {
        let reference = scan.references.get(*index)?;
        let applied = scan.edges.get(reference.edge)?;
        Some(RuleField {
            rule: applied.rule().name.clone(),
            field: applied.edge.field(),
            on_delete: applied.edge.on_delete,
            unclear: match &*reference.means {
                ReferenceTarget::Unclear { why, .. } => Some(why.clone()),
                ReferenceTarget::Named { .. } | ReferenceTarget::Selected { .. } => None,
            },
        })
    });
    let mut by: Vec<_> = by.collect();
    by.sort();
    by.dedup();
    by
}
