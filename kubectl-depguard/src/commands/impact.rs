//! `impact`: lists the objects that depend on an object, directly or through others.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::ValueEnum;
use depguard_core::api::OnDelete;
use depguard_core::lookup::ReferenceTarget;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::files::FileArgs;
use crate::cluster::kinds::{KindInfo, ObjectArgs};
use crate::cluster::rules::ReadFailure;
use crate::cluster::selection::Selection;
use crate::cluster::source::{NamedObject, Source};
use crate::engine::reference_scan::{Follow, ObjectIdentity, Scan, Scope};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::{Format, one_line};
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::{Terminal, Tone};
use crate::options::Global;

mod drawing;
mod tree;

use self::tree::{Branches, Line, Repetition};

/// Show which objects depend on an object, directly or through others
///
/// Follows all rules from the object to its dependents, from these to their own dependents, and so on, and prints a
/// tree, or with -o mermaid or svg a drawing. A direct dependent blocks the deletion of the object, unless its rule only
/// warns or audits; a drawing shows it in red. Reads all namespaces that you may read. With -l or
/// --field-selector, only selected dependents are shown, and the objects between them and the object.
///
/// Exit code: 2 if something could not be read, so that dependents may be missing, or if no rule applies.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    object: ObjectArgs,
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
    /// Names only, one per line
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
pub(crate) struct Report {
    target: ObjectIdentity,
    dependents: Vec<Dependent>,
    /// Number of objects that depend on the target, each counted once.
    count: usize,
    unread: Vec<ReadFailure>,
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

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let named = args.object.named()?;
    let source = Source::open(global, &args.files, terminal).await?;
    let next_step = "name the namespace with --namespace; dependents are searched in all namespaces";
    let NamedObject { kind, namespace, object } = source.named_object(named, global, next_step).await?;
    let (_, name) = named;
    let rules = source.rules().await?;
    let scope = Scope { namespace: None, follow: Follow::Dependents, labels: false, fallback: namespace.as_ref() };
    let mut scan = Scan::read(&source, &rules, scope, Some((&kind, &object)), terminal).await?;
    scan.select(&args.selection, &source, None, terminal).await?;
    let own = object.pointer("/metadata/namespace").and_then(serde_json::Value::as_str);
    let Some(root) = scan.find(&kind.gvr.group_resource(), own, name) else {
        return Err(Failure::new(format!("{} {name} could not be read", kind.kind)).hint("run it again"));
    };
    let lines = tree::selected(&scan, tree::lines(&scan, root));
    let report = Report::from_scan(&scan, root, &kind, &lines);
    scan.print_unread(terminal)?;
    if let Some(nothing) = scan.coverage.nothing().filter(|_| report.count == 0) {
        return Err(nothing);
    }
    let format = match args.output {
        None => None,
        Some(ImpactFormat::Wide) => Some(Format::Wide),
        Some(ImpactFormat::Json) => Some(Format::Json),
        Some(ImpactFormat::Yaml) => Some(Format::Yaml),
        Some(ImpactFormat::Name) => Some(Format::Name),
        Some(ImpactFormat::Mermaid) => {
            terminal.out().write_all(drawing::draw(&scan, root, &lines).mermaid().as_bytes())?;
            return report.outcome(&scan);
        }
        Some(ImpactFormat::Svg) => {
            let title = format!("Objects that depend on {}", report.target);
            terminal.out().write_all(drawing::draw(&scan, root, &lines).svg(&title)?.as_bytes())?;
            return report.outcome(&scan);
        }
    };
    print(&report, &scan, &lines, format, terminal)?;
    report.outcome(&scan)
}

impl CommandReport for Report {
    const KIND: &'static str = "ImpactReport";
}

impl Report {
    fn from_scan(scan: &Scan, root: usize, kind: &KindInfo, lines: &[Line]) -> Self {
        let described = |index: usize| scan.objects.get(index).map(crate::engine::reference_scan::Object::identity);
        let dependents = lines.iter().filter_map(|line| {
            Some(Dependent {
                object: described(line.object)?,
                depth: line.depth,
                depends_on: described(line.parent)?,
                by: by(scan, line),
                again: line.again,
                selected: scan.objects.get(line.object).is_some_and(|object| object.selected),
            })
        });
        Self {
            target: described(root).unwrap_or_else(|| ObjectIdentity::new(kind, None, "")),
            dependents: dependents.collect(),
            count: lines.iter().filter(|line| tree::is_counted(scan, line)).count(),
            unread: scan.unread.clone(),
        }
    }

    /// Ends the command. A tree that may lack dependents is a failure, even if it has some.
    fn outcome(&self, scan: &Scan) -> Result<Outcome, Failure> {
        let message = match scan.unread.len() {
            0 => return Ok(Outcome::Well),
            1 => {
                format!("incomplete: 1 rule or kind could not be read, so dependents of {} may be missing", self.target)
            }
            many => {
                format!(
                    "incomplete: {many} rules or kinds could not be read, so dependents of {} may be missing",
                    self.target
                )
            }
        };
        Err(Failure::new(message).hint(
            "the notes above name them: get the right to list them, correct the rules, or let the API server try the \
             deletion (`kubectl delete --dry-run=server`)",
        ))
    }

    /// Sums up the result: `3 objects depend on VPC/x/a: 2 VirtualMachine, 1 Backup`.
    fn summary(&self, scan: &Scan) -> String {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let counted = |dependent: &&Dependent| dependent.again.is_none() && dependent.selected;
        for dependent in self.dependents.iter().filter(counted) {
            *kinds.entry(&dependent.object.kind).or_default() += 1;
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let kinds: Vec<_> = kinds.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let at_least = if scan.is_whole() { "" } else { "at least " };
        match self.count {
            0 if scan.is_whole() => format!("nothing depends on {}", self.target),
            0 => format!("found no object that depends on {}", self.target),
            1 => format!("{at_least}1 object depends on {}: {}", self.target, kinds.join(", ")),
            many => format!("{at_least}{many} objects depend on {}: {}", self.target, kinds.join(", ")),
        }
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
            unclear: match &reference.means {
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

impl RuleField {
    fn text(&self) -> String {
        let Self { rule, field, on_delete, unclear } = self;
        let mut text = format!("{field} (rule {rule})");
        if *on_delete != OnDelete::Deny {
            // Writing to a string can't fail.
            let _ = write!(text, " [{on_delete:?}]");
        }
        if let Some(why) = unclear {
            let _ = write!(text, " [unresolved: it {why}]");
        }
        text
    }
}

fn print(
    report: &Report,
    scan: &Scan,
    lines: &[Line],
    format: Option<Format>,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => print_json(report, terminal),
        Some(Format::Yaml) => print_yaml(report, terminal),
        Some(Format::Name) => {
            let first = report.dependents.iter().zip(lines).filter(|(_, line)| tree::is_counted(scan, line));
            let text: String = first.map(|(dependent, _)| dependent.object.short() + "\n").collect();
            Ok(terminal.out().write_all(text.as_bytes())?)
        }
        Some(Format::Wide) => {
            let mut table = Table::new(["DEPENDENT", "DEPENDS ON", "DEPTH", "FIELD", "RULE", "ON DELETE"]);
            for Dependent { object, depth, depends_on, by, .. } in &report.dependents {
                for RuleField { rule, field, on_delete, .. } in by {
                    table.push([
                        object.to_string(),
                        depends_on.to_string(),
                        depth.to_string(),
                        field.clone(),
                        rule.clone(),
                        format!("{on_delete:?}"),
                    ]);
                }
            }
            table.print(terminal)
        }
        None => {
            let target = terminal.paint(Tone::Strong, &one_line(&report.target.to_string()));
            writeln!(terminal.out(), "{target}")?;
            let mut branches = Branches::default();
            for (line, dependent) in lines.iter().zip(&report.dependents) {
                let by: Vec<_> = dependent.by.iter().map(RuleField::text).collect();
                let object = terminal.paint(Tone::Strong, &one_line(&dependent.object.to_string()));
                let by = terminal.paint(Tone::Faint, &one_line(&by.join(", ")));
                let left_out = if dependent.selected { "" } else { " (not selected)" };
                let again = line.again.map(|again| again.painted(terminal)).unwrap_or_default();
                writeln!(terminal.out(), "{}{object}{left_out}   {by}{again}", branches.next(line))?;
            }
            if report.count > 0 {
                writeln!(terminal.out())?;
            }
            Ok(writeln!(terminal.out(), "{}", report.summary(scan))?)
        }
    }
}
