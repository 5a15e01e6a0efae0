//! `dangling`: references that point to nothing.

use std::collections::HashMap;

use depguard_core::{Means, api::OnDelete};
use serde::Serialize;

use crate::cli::Global;
use crate::files::FileArgs;
use crate::kinds::{KindInfo, resource_name};
use crate::outcome::{Failure, Outcome};
use crate::output::{Format, OutputArgs, Table, print_json, print_yaml};
use crate::rules::Unread;
use crate::scan::{Described, Follow, Reference, Scan, Scope};
use crate::source::Source;
use crate::terminal::Terminal;

/// List references that point to nothing
///
/// Looks at every reference that the rules find, as a database does when it validates a foreign key, and lists those
/// whose target isn't there. A label selector that selects nothing is none of them. Looks in the namespace of the
/// context, or in all with -A, and always at objects without a namespace; of files, at all objects.
///
/// Exit code: 1 where some are found; 2 where none is found among those that could be looked at, but not all could, or
/// where there was nothing to look at: no rule that applies, no such namespace, no object of a kind that rules name.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What was found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    dangling: Vec<Dangling>,
    /// How many references were looked at.
    looked_at: usize,
    /// How many could not be.
    not_looked_at: usize,
    unread: Vec<Unread>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dangling {
    rule: String,
    dependent: Described,
    field: String,
    target: Missing,
    on_delete: OnDelete,
}

/// A target that isn't there.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Missing {
    #[serde(flatten)]
    object: Described,
    /// The UID that it would have to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    /// How people read it.
    #[serde(skip)]
    shown: String,
}

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let source = Source::open(global, &args.files, terminal).await?;
    let rules = source.rules().await?;
    let namespace = source.scope(global)?;
    let scope = Scope { namespace: namespace.as_ref(), follow: Follow::Targets, labels: false, fallback: None };
    let scan = Scan::read(&source, &rules, scope, None, terminal).await?;
    let report = Report::of(&scan);
    scan.tell_unread(terminal)?;
    if let Some(nothing) = scan.coverage.nothing().filter(|_| report.dangling.is_empty()) {
        return Err(nothing);
    }
    print(&report, args.output.output, terminal)?;
    report.outcome(&scan)
}

impl Report {
    fn of(scan: &Scan) -> Self {
        let mut report = Self { dangling: Vec::new(), looked_at: 0, not_looked_at: 0, unread: scan.all_unread() };
        // Where a rule names a resource only, an object of it tells its kind.
        let kinds: HashMap<_, _> =
            scan.objects.iter().map(|object| (object.kind.gvr.group_resource(), &object.kind)).collect();
        for reference in &scan.references {
            let (Some(from), Some(bearing)) = (scan.objects.get(reference.from), scan.edges.get(reference.edge)) else {
                continue;
            };
            let Means::Named { .. } = reference.means else { continue };
            if !(from.inside || from.namespace().is_none()) {
                continue;
            }
            match (reference.exists, reference.looked_at) {
                (false, false) => report.not_looked_at += 1,
                (true, _) => report.looked_at += 1,
                (false, true) => {
                    report.looked_at += 1;
                    let target = bearing.target();
                    let Some(kind) = kinds.get(&target).copied().or(scan.kind(&target)) else { continue };
                    report.dangling.push(Dangling {
                        rule: bearing.rule().name.clone(),
                        dependent: from.described(),
                        field: bearing.edge.field(),
                        target: Missing::of(reference, kind),
                        on_delete: bearing.edge.on_delete,
                    });
                }
            }
        }
        report.dangling.sort_by_cached_key(Dangling::order);
        report
    }

    fn outcome(&self, scan: &Scan) -> Result<Outcome, Failure> {
        if !self.dangling.is_empty() {
            return Ok(Outcome::Finding);
        }
        if self.not_looked_at == 0 && scan.is_whole() {
            return Ok(Outcome::Well);
        }
        let message = match self.not_looked_at {
            0 => "not all could be looked at, so that nobody can tell whether a reference dangles".to_owned(),
            1 => "one reference could not be looked at, and of the others none dangles".to_owned(),
            many => format!("{many} references could not be looked at, and of the others none dangles"),
        };
        Err(Failure::new(message)
            .hint("the notes above say which kinds or rules: get the right to list them, or correct them"))
    }
}

impl Dangling {
    /// As people look for it.
    fn order(&self) -> (String, Option<String>, String, String, String, String) {
        let Described { kind, namespace, name, .. } = &self.dependent;
        let (rule, field) = (self.rule.clone(), self.field.clone());
        (kind.clone(), namespace.clone(), name.clone(), rule, field, self.target.shown.clone())
    }
}

impl Missing {
    fn of(reference: &Reference, kind: &KindInfo) -> Self {
        let (mut namespace, mut name, mut uid) = (None, "", None);
        if let Means::Named { name: named, namespace: within, uid: exactly } = &reference.means {
            name = named;
            namespace = within.as_deref().map(str::to_owned).filter(|_| kind.namespaced != Some(false));
            uid = exactly.as_deref().map(str::to_owned);
        }
        let object = Described::new(kind, namespace, name);
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

fn print(report: &Report, format: Option<Format>, terminal: &mut Terminal) -> Result<(), Failure> {
    match format {
        Some(Format::Json) => print_json(report, terminal),
        Some(Format::Yaml) => print_yaml(report, terminal),
        Some(Format::Name) => {
            let mut names: Vec<_> = report.dangling.iter().map(|dangling| dangling.dependent.short()).collect();
            names.dedup();
            let text: String = names.into_iter().map(|name| name + "\n").collect();
            Ok(terminal.out().write_all(text.as_bytes())?)
        }
        Some(Format::Wide) | None => {
            let wide = format.is_some();
            let mut table = Table::new(["RULE", "DEPENDENT", "FIELD", "MISSING TARGET"]);
            if wide {
                table = Table::new(["RULE", "DEPENDENT", "FIELD", "MISSING TARGET", "RESOURCE", "ON DELETE"]);
            }
            for Dangling { rule, dependent, field, target, on_delete } in &report.dangling {
                let mut cells = vec![rule.clone(), dependent.to_string(), field.clone(), target.shown.clone()];
                if wide {
                    let Described { group, resource, .. } = &target.object;
                    cells.extend([resource_name(resource, group), format!("{on_delete:?}")]);
                }
                table.push(cells);
            }
            if table.is_empty() {
                let looked_at = match report.looked_at {
                    1 => "1 reference was".to_owned(),
                    many => format!("{many} references were"),
                };
                return Ok(writeln!(terminal.err(), "nothing dangles: {looked_at} looked at")?);
            }
            Ok(terminal.out().write_all(table.render().as_bytes())?)
        }
    }
}
