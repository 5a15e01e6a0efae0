//! `kubectl depguard suggest`: rules that the schemas of kinds seem to ask for.

mod conventions;
mod definition;
mod fields;
#[cfg(test)]
mod measured;
mod print;
mod propose;
mod reference;
mod targets;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use depguard_core::Home;
use serde::Serialize;

use self::definition::{Definition, Export, definitions};
use self::propose::{Proposal, proposals};
use self::reference::Confidence;
use crate::cli::Global;
use crate::draft::{ExportAt, export_at};
use crate::files::FileArgs;
use crate::live::Live;
use crate::outcome::{Failure, Outcome};
use crate::output::{RulesFormat, Table, print_json};
use crate::rules::BoundKind;
use crate::terminal::Terminal;

/// Propose rules for references that schemas seem to hold
///
/// Reads CustomResourceDefinitions or APIResourceSchemas (and the APIExports that serve these), looks for fields that are
/// called and shaped as references are, and prints a DependencyRule for each kind that has some, to be reviewed. Each
/// reference comes with its reason and with how sure it is. Fields of status are never taken for references. What refers
/// to a kind that isn't known, or can't be said in a rule, is listed as a comment.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Read the kinds of the API server; so it is, too, where no file is named
    #[arg(long, conflicts_with = "filename")]
    live: bool,

    /// Leave out what is less sure
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = Confidence::Low)]
    min_confidence: Confidence,

    /// Workspace path of an APIExport that the files don't tell, as in network.example.com=root:providers:network
    #[arg(long = "export", value_name = "NAME=PATH", value_parser = export_at)]
    exports: Vec<ExportAt>,

    /// How to print it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: RulesFormat,
}

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let (definitions, home) = read(args, global, terminal).await?;
    if definitions.is_empty() {
        return Err(Failure::new("there is no CustomResourceDefinition and no APIResourceSchema to look at")
            .hint("name files that hold some with -f"));
    }
    let proposals = proposals(&definitions, home, args.min_confidence);
    if proposals.is_empty() {
        let looked = match definitions.len() {
            1 => "1 kind".to_owned(),
            kinds => format!("{kinds} kinds"),
        };
        writeln!(terminal.err(), "no reference found in the schemas of {looked}")?;
    }
    match args.output {
        RulesFormat::Yaml => {
            let text = print::yaml(&proposals)?;
            terminal.out().write_all(text.as_bytes())?;
        }
        RulesFormat::Json => print_json(&Proposals { proposals: &proposals }, terminal)?,
        RulesFormat::Table => terminal.out().write_all(table(&proposals).render().as_bytes())?,
    }
    Ok(Outcome::Well)
}

#[derive(Serialize)]
struct Proposals<'p> {
    proposals: &'p [Proposal],
}

/// The given kinds, and the home for which rules are written: kcp where an APIExport serves one of them.
async fn read(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<(Vec<Definition>, Home), Failure> {
    let workspaces: BTreeMap<_, _> =
        args.exports.iter().map(|export| (export.name.to_string(), export.path.to_string())).collect();
    if args.files.is_empty() {
        let live = Live::open(global).await?;
        return Ok((of_server(&live, &workspaces, terminal).await?, live.home()));
    }
    let documents = args.files.read(terminal)?;
    let definitions = definitions(documents.iter().map(|document| &*document.value), &workspaces);
    let exported = definitions.iter().any(|definition| definition.export.is_some());
    let home = global.home().unwrap_or(if exported { Home::Kcp } else { Home::Kubernetes });
    Ok((definitions, home))
}

/// What an API server serves; in kcp with the exports that the workspace binds.
async fn of_server(
    live: &Live,
    workspaces: &BTreeMap<String, String>,
    terminal: &mut Terminal,
) -> Result<Vec<Definition>, Failure> {
    let (objects, unread) = live.definitions().await?;
    for unread in unread {
        writeln!(terminal.err(), "could not look at {unread}")?;
    }
    let mut definitions = definitions(objects.iter().map(|object| &**object), workspaces);
    let (bound, _) = live.bound().await?;
    for definition in &mut definitions {
        let name = &definition.name;
        let is_it =
            |kind: &&BoundKind| kind.kind.group.as_str() == name.group && kind.kind.resource.as_str() == name.resource;
        let found = bound.iter().flat_map(|bound| &bound.kinds).find(is_it);
        definition.export = found.map(|kind| Export {
            workspace: (workspaces.get(kind.export.as_str()).cloned()).or(kind.path.as_ref().map(ToString::to_string)),
            name: kind.export.to_string(),
        });
    }
    Ok(definitions)
}

fn table(proposals: &[Proposal]) -> Table {
    let mut table = Table::new(["DEPENDENT", "FIELD", "TARGET", "CONFIDENCE", "REASON"]);
    for proposal in proposals {
        for reason in proposal.references.iter().chain(&proposal.unresolved) {
            let target = reason.target.clone().unwrap_or_else(|| "<unknown>".to_owned());
            let confidence = reason.confidence.word().to_owned();
            table.push([proposal.dependent.clone(), reason.path.clone(), target, confidence, reason.reason.clone()]);
        }
    }
    table
}
