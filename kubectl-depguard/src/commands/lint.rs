//! `lint`: what the controller would say of rules, before they are applied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::ValueEnum;
use depguard_core::Home;
use serde_json::Value;

use crate::cli::Global;
use crate::files::{self, FileArgs, Text};
use crate::live::Live;
use crate::outcome::{Failure, Outcome};
use crate::terminal::Terminal;

mod against;
mod code;
mod finding;
mod kinds;
mod lines;
mod live;
mod nearest;
mod patches;
mod print;
mod reading;
mod shape;
mod subject;
mod together;

use against::Against;
use code::Severity;
use finding::Report;
use kinds::{Kinds, Named};
use patches::Patches;
use subject::Subject;

/// Check rules before they are applied
///
/// Says what the controller would say: unknown fields, paths that the schema doesn't have, kinds that are not served,
/// cycles, references that are said twice, and which fields to make selectable. Definitions among the files of -f count
/// as well. Without -f the rules that the API server has are checked. docs/lint.md explains each code.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// File or folder with CustomResourceDefinitions, or APIResourceSchemas and APIExports; may be given several times
    #[arg(long, value_name = "FILE", num_args = 1..)]
    schemas: Vec<PathBuf>,

    /// With -f: take kinds and existing rules from the API server too
    #[arg(long)]
    live: bool,

    /// Print the changes that make lookups cheap, as commands, instead of the findings
    #[arg(long, conflicts_with = "output")]
    patch: bool,

    /// How bad a finding must be for exit code 1
    #[arg(long, value_enum, value_name = "SEVERITY", default_value = "error")]
    fail_on: Severity,

    /// How to print it [default: for people]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON, with the patches
    Json,
    /// YAML, with the patches
    Yaml,
    /// Workflow commands of GitHub Actions: each finding at its line of the change
    Github,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let documents = args.files.read_texts(terminal)?;
    let schemas = files::read_texts(&args.schemas, args.files.recursive, terminal)?;
    let live = if args.live || args.files.is_empty() { Some(Live::open(global).await?) } else { None };
    let home = global.home().or(live.as_ref().map(Live::home));
    let stored = match &live {
        Some(live) => live::rules(live, terminal).await?,
        None => Vec::new(),
    };
    let mut linting = Linting::new(home, documents, schemas, stored);
    if linting.rules.is_empty() {
        return Err(Failure::new("there is no DependencyRule in what was given")
            .hint("name files with rules by -f, or a cluster that has some by --kubeconfig"));
    }
    if let Some(live) = &live {
        let progress = terminal.progress("looking at kinds");
        for (named, known) in live::kinds(live, linting.wanted()).await {
            progress.inc(1);
            linting.kinds.live.insert(named, known);
        }
        // For the nearest; without it there is none.
        if let Ok(served) = live.kinds().await {
            linting.kinds.served = served.iter().map(|kind| kind.gvr.group_resource()).collect();
        }
    }
    let report = linting.finish();
    if args.patch {
        print::patches(&report.patches, terminal)?;
    } else {
        print::report(&report, args.output, terminal)?;
    }
    let fails = report.findings.iter().any(|finding| finding.severity <= args.fail_on);
    Ok(if fails { Outcome::Finding } else { Outcome::Well })
}

/// What is checked, and what is known so far.
struct Linting {
    home: Home,
    /// The rules that are asked about.
    rules: Vec<Subject>,
    /// Those that there are besides.
    others: Vec<Subject>,
    kinds: Kinds,
    report: Report,
}

impl Linting {
    /// Sorts out what was given. Without a home it is a kcp where a rule names an export.
    fn new(home: Option<Home>, documents: Vec<Text>, schemas: Vec<Text>, stored: Vec<Value>) -> Self {
        let (rules, definitions): (Vec<_>, Vec<_>) =
            documents.into_iter().partition(|text| reading::is_meant_as_rule(&text.document.value));
        let definitions = definitions.into_iter().chain(schemas).map(Subject::written).collect();
        let mut rules: Vec<_> = rules.into_iter().map(Subject::written).collect();
        let names: BTreeSet<_> = rules.iter().map(|rule| rule.name().to_owned()).collect();
        // What was given will replace what is stored.
        let stored = stored.into_iter().map(Subject::stored);
        let mut others: Vec<_> = stored.filter(|stored| !names.contains(stored.name())).collect();
        if rules.is_empty() {
            std::mem::swap(&mut rules, &mut others);
        }
        let is_kcp = || rules.iter().any(|rule| reading::names_exports(&rule.value));
        let home = home.unwrap_or_else(|| if is_kcp() { Home::Kcp } else { Home::Kubernetes });
        let mut report = Report::default();
        let kinds = Kinds::read(definitions, &mut report);
        Self { home, rules, others, kinds, report }
    }

    /// The kinds that rules name and of which no definition was given; with `true` those whose fields matter.
    fn wanted(&self) -> Vec<(Named, bool)> {
        let mut wanted = BTreeMap::new();
        for rule in &reading::rules(self.home, &self.rules, &mut Report::default()) {
            wanted.insert(Named::dependent(&rule.rule), true);
            for edge in rule.edges() {
                wanted.entry(Named::target(edge)).or_insert(false);
            }
        }
        wanted.into_iter().filter(|(named, _)| !self.kinds.is_defined(named)).collect()
    }

    /// All that is to be said.
    fn finish(mut self) -> Report {
        let mut report = self.report;
        report.rules = self.rules.len();
        let rules = reading::rules(self.home, &self.rules, &mut report);
        let mut patches = Patches::default();
        let mut against = Against::new(&mut self.kinds);
        for rule in &rules {
            against.check(rule, &mut patches, &mut report);
        }
        let others = reading::rules(self.home, &self.others, &mut Report::default());
        together::check(&rules, &others, &mut report);
        report.patches = patches.finish();
        report.sort();
        report
    }
}

#[cfg(test)]
mod tests;
