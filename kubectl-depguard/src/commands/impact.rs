//! `impact`: what depends on an object, and on that in turn.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use depguard_core::{Means, api::OnDelete};
use serde::Serialize;

use crate::cli::Global;
use crate::files::FileArgs;
use crate::kinds::{KindInfo, ObjectArgs};
use crate::outcome::{Failure, Outcome};
use crate::output::{Format, OutputArgs, Table, one_line, print_json, print_yaml};
use crate::rules::Unread;
use crate::scan::{Described, Follow, Scan, Scope};
use crate::source::Source;
use crate::terminal::{Terminal, Tone};

mod tree;

use self::tree::{Again, Branches, Line};

/// Show what depends on an object, and on that in turn
///
/// Follows all rules from the object to whoever refers to it, and on from those, as a tree. What refers to the object
/// keeps it from being deleted, unless its rule only warns or audits. Looks in all namespaces, as far as they may be read.
///
/// Exit code: 2 where nothing was found, but not all could be looked at, or there is no rule that applies.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    object: ObjectArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What was found. The tree is flat, so that it can be as deep as it is: each dependent says what it depends on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    target: Described,
    dependents: Vec<Dependent>,
    /// How many objects depend on the target, each counted once.
    count: usize,
    unread: Vec<Unread>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependent {
    #[serde(flatten)]
    object: Described,
    /// 1: on the target itself.
    depth: usize,
    depends_on: Described,
    by: Vec<By>,
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<Again>,
}

/// By which rule and field one object refers to another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct By {
    rule: String,
    field: String,
    on_delete: OnDelete,
    /// Why it can't be told whether it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    unclear: Option<String>,
}

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let (named, name) = args.object.named()?;
    let source = Source::open(global, &args.files, terminal).await?;
    let kind = source.kind(named).await?;
    let namespace = source.namespace(global)?.filter(|_| kind.namespaced != Some(false));
    if namespace.is_none() && kind.namespaced == Some(true) {
        return Err(Failure::new(format!("{} {name} is in one namespace, not in all", kind.kind))
            .hint("name it with --namespace; who refers to it is looked for in all of them"));
    }
    let Some(object) = source.object(&kind, namespace.as_ref(), name).await? else {
        let place = namespace.as_ref().map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
        return Err(Failure::new(format!("there is no {} {name}{place}", kind.kind))
            .hint("name its namespace with --namespace, or look for it with kubectl get"));
    };
    let rules = source.rules().await?;
    let scope = Scope { namespace: None, follow: Follow::Dependents, labels: false, fallback: namespace.as_ref() };
    let scan = Scan::read(&source, &rules, scope, Some((&kind, &object)), terminal).await?;
    let own = object.pointer("/metadata/namespace").and_then(serde_json::Value::as_str);
    let Some(root) = scan.find(&kind.gvr.group_resource(), own, name) else {
        return Err(Failure::new(format!("{} {name} could not be read", kind.kind)).hint("run it again"));
    };
    let lines = tree::lines(&scan, root);
    let report = Report::of(&scan, root, &kind, &lines);
    scan.tell_unread(terminal)?;
    if let Some(nothing) = scan.coverage.nothing().filter(|_| report.count == 0) {
        return Err(nothing);
    }
    print(&report, &scan, &lines, args.output.output, terminal)?;
    report.outcome(&scan)
}

impl Report {
    fn of(scan: &Scan, root: usize, kind: &KindInfo, lines: &[Line]) -> Self {
        let described = |index: usize| scan.objects.get(index).map(crate::scan::Object::described);
        let dependents = lines.iter().filter_map(|line| {
            Some(Dependent {
                object: described(line.object)?,
                depth: line.depth,
                depends_on: described(line.parent)?,
                by: by(scan, line),
                again: line.again,
            })
        });
        Self {
            target: described(root).unwrap_or_else(|| Described::new(kind, None, "")),
            dependents: dependents.collect(),
            count: lines.iter().filter(|line| line.again.is_none()).count(),
            unread: scan.all_unread(),
        }
    }

    fn outcome(&self, scan: &Scan) -> Result<Outcome, Failure> {
        if self.count > 0 || scan.is_whole() {
            return Ok(Outcome::Well);
        }
        let what = format!("nothing that could be looked at depends on {}, but not all could", self.target);
        Err(Failure::new(what).hint(
            "the notes above say what: get the right to list it, correct the rules, or ask the API server itself whether \
             it would be deleted (`kubectl delete --dry-run=server`)",
        ))
    }

    /// `3 objects depend on VPC/x/a: 2 VirtualMachine, 1 Backup`.
    fn summary(&self, scan: &Scan) -> String {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for dependent in self.dependents.iter().filter(|dependent| dependent.again.is_none()) {
            *kinds.entry(&dependent.object.kind).or_default() += 1;
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let kinds: Vec<_> = kinds.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let at_least = if scan.is_whole() { "" } else { "at least " };
        match self.count {
            0 => format!("nothing depends on {}", self.target),
            1 => format!("{at_least}1 object depends on {}: {}", self.target, kinds.join(", ")),
            many => format!("{at_least}{many} objects depend on {}: {}", self.target, kinds.join(", ")),
        }
    }
}

/// By what the object of a line refers to that of the line above it.
fn by(scan: &Scan, line: &Line) -> Vec<By> {
    let by = line.references.iter().filter_map(|index| {
        let reference = scan.references.get(*index)?;
        let bearing = scan.edges.get(reference.edge)?;
        Some(By {
            rule: bearing.rule().name.clone(),
            field: bearing.edge.field(),
            on_delete: bearing.edge.on_delete,
            unclear: match &reference.means {
                Means::Unclear { why, .. } => Some(why.clone()),
                Means::Named { .. } | Means::Selected { .. } => None,
            },
        })
    });
    let mut by: Vec<_> = by.collect();
    by.sort();
    by.dedup();
    by
}

impl By {
    fn text(&self) -> String {
        let Self { rule, field, on_delete, unclear } = self;
        let mut text = format!("{field} (rule {rule})");
        if *on_delete != OnDelete::Deny {
            // Writing to a string can't fail.
            let _ = write!(text, " [{on_delete:?}]");
        }
        if let Some(why) = unclear {
            let _ = write!(text, " [can't be told: it {why}]");
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
            let first = report.dependents.iter().zip(lines).filter(|(_, line)| line.again.is_none());
            let text: String = first.map(|(dependent, _)| dependent.object.short() + "\n").collect();
            Ok(terminal.out().write_all(text.as_bytes())?)
        }
        Some(Format::Wide) => {
            let mut table = Table::new(["DEPENDENT", "DEPENDS ON", "DEPTH", "FIELD", "RULE", "ON DELETE"]);
            for Dependent { object, depth, depends_on, by, .. } in &report.dependents {
                for By { rule, field, on_delete, .. } in by {
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
            Ok(terminal.out().write_all(table.render().as_bytes())?)
        }
        None => {
            let target = terminal.paint(Tone::Strong, &one_line(&report.target.to_string()));
            writeln!(terminal.out(), "{target}")?;
            let mut branches = Branches::default();
            for (line, dependent) in lines.iter().zip(&report.dependents) {
                let by: Vec<_> = dependent.by.iter().map(By::text).collect();
                let object = terminal.paint(Tone::Strong, &one_line(&dependent.object.to_string()));
                let by = terminal.paint(Tone::Faint, &one_line(&by.join(", ")));
                let again = match line.again {
                    None => String::new(),
                    Some(Again::Cycle) => terminal.paint(Tone::Warning, " … a cycle"),
                    Some(Again::Above) => terminal.paint(Tone::Faint, " … as above"),
                };
                writeln!(terminal.out(), "{}{object}   {by}{again}", branches.next(line))?;
            }
            if report.count > 0 {
                writeln!(terminal.out())?;
            }
            Ok(writeln!(terminal.out(), "{}", report.summary(scan))?)
        }
    }
}
