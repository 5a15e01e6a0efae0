//! `lint`: reports in advance what the controller would report about applied rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use depguard_core::{ControlPlane, api};
use serde_json::Value;

use crate::cluster::api_server::ApiServer;
use crate::cluster::documents::{Document, Text};
use crate::cluster::files::{self, FileArgs, Needed};
use crate::cluster::rule_manifests::{ends_of, kind_of};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::CheckOutputArgs;
use crate::io::terminal::Terminal;
use crate::options::Global;

mod against;
mod checks;
mod code;
mod definitions;
mod excerpt;
mod finding;
mod kinds;
mod lines;
mod live;
mod names;
pub(crate) mod nearest;
mod patches;
mod print;
mod reading;
mod shape;
mod siblings;
mod subject;
mod together;

pub(crate) use self::print::LintReport;
use against::KindChecker;
use code::Severity;
use finding::{CheckedRule, Report};
use kinds::{KindReference, Kinds};
use patches::Patches;
use subject::Subject;

/// Check rules before you apply them
///
/// Reports what the controller would report: unknown fields, paths that the schema does not have, kinds that are not
/// served, cycles, duplicate references, and fields to make selectable; and fields that look like a reference of a rule,
/// but that no rule covers; in plain Kubernetes also definitions of targets that no rule protects. Definitions among the
/// files of -f count as well, and Kubernetes' own kinds are checked by the schemas of Kubernetes 1.36 unless you give
/// others or read them with --live. Without -f, lint checks the rules on the API server. docs/lint.md explains each code.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// File or folder with CustomResourceDefinitions, or APIResourceSchemas and APIExports; may be repeated
    #[arg(long, value_name = "FILE", num_args = 1..)]
    schemas: Vec<PathBuf>,

    /// With -f: also read kinds and existing rules from the API server
    #[arg(long)]
    live: bool,

    /// Print the commands that make lookups cheap, instead of the findings
    #[arg(long, conflicts_with = "output")]
    patch: bool,

    /// Lowest severity that leads to exit code 1
    #[arg(long, value_enum, value_name = "SEVERITY", default_value = "error")]
    fail_on: Severity,

    #[command(flatten)]
    output: CheckOutputArgs,
}

const NEEDED: Needed = Needed {
    is_needed: reading::is_input,
    words: &[api::GROUP, api::KIND, "CustomResourceDefinition", "APIResourceSchema", "APIExport"],
};

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let is_live = args.live || args.files.is_empty();
    if !is_live {
        global.refuse_server_flags("the command reads files, and an API server with --live only")?;
    }
    let (documents, mut unread_files) = args.files.needed(NEEDED, terminal)?;
    let (schemas, unread_schemas) = files::needed(&args.schemas, args.files.recursive, NEEDED, terminal)?;
    unread_files.extend(unread_schemas);
    unread_files.iter().try_for_each(|unread| terminal.note(&format!("could not read {unread}")))?;
    let live = if is_live { Some(ApiServer::open(global).await?) } else { None };
    let control_plane = global.control_plane().or(live.as_ref().map(ApiServer::control_plane));
    let (stored, unread) = match &live {
        Some(live) => live::rules(live).await?,
        None => (Vec::new(), None),
    };
    let mut linting = Linting::new(control_plane, documents, schemas, stored);
    if let Some(unread) = unread.as_ref().filter(|_| linting.rules.is_empty()) {
        return Err(Failure::new(format!("could not read {unread}")).hint("get the right to list them"));
    }
    if linting.rules.is_empty() {
        return Err(Failure::new("found no DependencyRule")
            .hint("name files with rules with -f, or a cluster with rules with --kubeconfig"));
    }
    if let Some(live) = &live {
        let progress = terminal.progress("reading kinds");
        for (named, known) in live::kinds(live, linting.kinds_to_read()).await {
            progress.inc(1);
            linting.kinds.live.insert(named, known);
        }
        // The served kinds are needed to suggest the nearest one; without them there is no suggestion.
        if let Ok(served) = live.kinds().await {
            linting.kinds.served = served.iter().map(|kind| kind.gvr.group_resource()).collect();
        }
    }
    let report = linting.finish();
    let gaps = unread.iter().map(|unread| format!("cycles and overlaps were not checked; could not read {unread}"));
    let gaps: Vec<_> = gaps.chain(unread_files.iter().map(|unread| format!("could not read {unread}"))).collect();
    let incomplete = gaps.join("; ");
    if args.patch {
        print::patches(&report.patches, terminal)?;
    } else {
        print::report(&report, &print::Options { format: args.output.output, fail_on: args.fail_on, gaps }, terminal)?;
    }
    if report.has(args.fail_on) {
        return Ok(Outcome::Finding);
    }
    if incomplete.is_empty() {
        return Ok(Outcome::Well);
    }
    let todo = if unread.is_some() { "get the right to list them, or leave --live out" } else { "correct the files" };
    Err(Failure::new(format!("incomplete: {incomplete}")).hint(todo))
}

/// Returns where the rules among some documents don't fit the definitions among them: one sentence for each mistake.
pub(crate) fn misfits(documents: &[Document]) -> Vec<String> {
    let (rules, definitions): (Vec<_>, Vec<_>) =
        documents.iter().partition(|document| reading::is_meant_as_rule(&document.value));
    let subjects = |documents: Vec<&Document>| -> Vec<Subject> {
        documents.into_iter().map(|document| Subject::stored(Arc::clone(&document.value))).collect()
    };
    let mut linting = Linting::of(None, subjects(rules), subjects(definitions), Vec::new());
    linting.kinds.are_own_only = true;
    let about_kinds = linting.finish().findings.into_iter().filter(|finding| finding.code.is_misfit());
    about_kinds.map(|finding| format!("{}: {}", finding.object, finding.message)).collect()
}

/// Linting in progress: its input and its findings so far.
struct Linting {
    control_plane: ControlPlane,
    /// Rules to report about.
    rules: Vec<Subject>,
    /// Further rules, for checks across rules.
    others: Vec<Subject>,
    kinds: Kinds,
    report: Report,
}

impl Linting {
    /// Sorts the input.
    fn new(control_plane: Option<ControlPlane>, documents: Vec<Text>, schemas: Vec<Text>, stored: Vec<Value>) -> Self {
        let (rules, definitions): (Vec<_>, Vec<_>) =
            documents.into_iter().partition(|text| reading::is_meant_as_rule(&text.document.value));
        let definitions = definitions.into_iter().chain(schemas).map(Subject::written).collect();
        let rules = rules.into_iter().map(Subject::written).collect();
        Self::of(control_plane, rules, definitions, stored.into_iter().map(Subject::stored).collect())
    }

    /// Prepares the check of `rules`, or of the stored ones if there are none. If no control plane is given and a rule names
    /// an export, the control plane is kcp.
    fn of(
        control_plane: Option<ControlPlane>,
        mut rules: Vec<Subject>,
        definitions: Vec<Subject>,
        stored: Vec<Subject>,
    ) -> Self {
        let names: BTreeSet<_> = rules.iter().map(|rule| rule.name().to_owned()).collect();
        // Rules in files will replace stored rules of the same name.
        let (replaced, mut others): (Vec<_>, Vec<_>) =
            stored.into_iter().partition(|stored| names.contains(stored.name()));
        if rules.is_empty() {
            std::mem::swap(&mut rules, &mut others);
        }
        let is_kcp = || rules.iter().any(|rule| reading::names_exports(&rule.value));
        let control_plane =
            control_plane.unwrap_or_else(|| if is_kcp() { ControlPlane::Kcp } else { ControlPlane::Kubernetes });
        let mut report = Report::default();
        let specs = rules.iter().chain(&others).filter_map(|rule| rule.value.get("spec"));
        let named = specs.flat_map(ends_of).filter_map(|end| Some(kind_of(end)?.group_resource())).collect();
        let kinds = Kinds::read(definitions, &named, &mut report);
        names::check(control_plane, &rules, &replaced, &mut report);
        Self { control_plane, rules, others, kinds, report }
    }

    /// Returns the kinds that rules name without a definition in the files; `true` for a kind whose fields matter.
    fn kinds_to_read(&self) -> Vec<(KindReference, bool)> {
        let mut kinds = BTreeMap::new();
        for rule in &reading::rules(self.control_plane, &self.rules, &self.kinds, &mut Report::default()) {
            kinds.insert(KindReference::dependent(&rule.rule), true);
            for edge in rule.edges() {
                kinds.entry(KindReference::target(edge)).or_insert(false);
            }
        }
        kinds.into_iter().filter(|(named, _)| !self.kinds.is_defined(named)).collect()
    }

    /// Finishes all checks and returns the report.
    fn finish(mut self) -> Report {
        let mut report = self.report;
        report.rules = self.rules.iter().map(CheckedRule::from_subject).collect();
        let rules = reading::rules(self.control_plane, &self.rules, &self.kinds, &mut report);
        let others = reading::rules(self.control_plane, &self.others, &self.kinds, &mut Report::default());
        let mut patches = Patches::default();
        let mut against = KindChecker::new(&mut self.kinds, self.control_plane);
        for rule in &rules {
            against.check(rule, &mut patches, &mut report);
        }
        together::check(&rules, &others, &mut report);
        siblings::check(&rules, &others, &mut self.kinds, &mut report);
        if self.control_plane == ControlPlane::Kubernetes {
            definitions::check(&rules, &others, &self.kinds, &mut report);
        }
        report.patches = patches.finish();
        report.sort();
        report
    }
}

#[cfg(test)]
mod tests;
