//! `kubectl depguard suggest`: proposes rules from the schemas of kinds.

mod conventions;
mod definition;
mod description;
mod fields;
mod print;
mod propose;
mod reference;
mod targets;
mod words;

use std::collections::BTreeMap;

use depguard_core::ControlPlane;
use schemars::JsonSchema;
use serde::Serialize;

use self::definition::{Definition, Export, definitions, is_of_definitions};
use self::propose::{Proposal, proposals, proposals_of_definitions};
use self::reference::Confidence;
use crate::cluster::api_server::ApiServer;
use crate::cluster::files::{FileArgs, Needed};
use crate::cluster::rules::{BoundKind, ReadFailure};
use crate::cluster::source::READS_FILES;
use crate::engine::rule_draft::{ExportAt, export_at};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::RulesFormat;
use crate::io::report::{CommandReport, print_json};
use crate::io::table::Table;
use crate::io::terminal::Terminal;
use crate::options::Global;

/// Propose rules from the schemas of kinds
///
/// Reads CustomResourceDefinitions, or APIResourceSchemas and the APIExports that serve them. Finds fields that have
/// the name and shape of a reference, or whose description names a kind, and prints a DependencyRule for each kind with such fields, for you to review.
/// Each reference comes with a reason and a confidence. Fields of status never count as references. References to
/// unknown kinds, and references that a rule can't express, are printed as comments.
///
/// Exit code: 2 if some definitions could not be read, or if there were none.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Read the kinds of the API server, as without -f
    #[arg(long, conflicts_with = "filename")]
    live: bool,

    /// Lowest confidence of the references to print
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = Confidence::Low)]
    min_confidence: Confidence,

    /// Propose instead, for each definition, a rule by which the definition stays while objects of its kind exist, and a
    /// ClusterRole that lets the webhook list them. Not for kcp, whose providers run `kubectl depguard rules apply kcp`
    #[arg(long, conflicts_with_all = ["min_confidence", "exports"])]
    definitions: bool,

    /// Workspace path of an APIExport, if the files lack it, as in network.example.com=root:providers:network
    #[arg(long = "export", value_name = "NAME=PATH", value_parser = export_at)]
    exports: Vec<ExportAt>,

    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: RulesFormat,
}

const DEFINITIONS: Needed =
    Needed { is_needed: is_of_definitions, words: &["CustomResourceDefinition", "APIResourceSchema", "APIExport"] };

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let (definitions, unread, control_plane) = read(args, global, terminal).await?;
    for unread in &unread {
        terminal.note(&format!("could not read {unread}"))?;
    }
    if definitions.is_empty() && unread.is_empty() {
        return Err(Failure::new("found no CustomResourceDefinition and no APIResourceSchema")
            .hint("name files with definitions with -f"));
    }
    let proposals = if args.definitions {
        if control_plane == ControlPlane::Kcp {
            return Err(Failure::new("a kcp has no CustomResourceDefinitions that a rule could protect")
                .hint("run `kubectl depguard rules apply kcp` in the workspace of each provider"));
        }
        proposals_of_definitions(&definitions).map_err(Failure::new)?
    } else {
        proposals(&definitions, control_plane, args.min_confidence)
    };
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
        RulesFormat::Table => table(&proposals).print(terminal)?,
    }
    match unread.is_empty() {
        true => Ok(Outcome::Well),
        false => Err(Failure::new("incomplete: some definitions could not be read, so references may be missing")
            .hint("the notes above name them: get the right to read them, or correct them")),
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Proposals<'p> {
    proposals: &'p [Proposal],
}

impl CommandReport for Proposals<'_> {
    const KIND: &'static str = "SuggestReport";
}

/// Reads the given kinds. Returns them with the parts that could not be read, and with the control plane of the rules: kcp if
/// an APIExport serves one of the kinds.
async fn read(
    args: &Args,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(Vec<Definition>, Vec<ReadFailure>, ControlPlane), Failure> {
    let workspaces: BTreeMap<_, _> =
        args.exports.iter().map(|export| (export.name.to_string(), export.path.to_string())).collect();
    if args.files.is_empty() {
        let live = ApiServer::open(global).await?;
        let (definitions, unread) = of_server(&live, &workspaces).await?;
        return Ok((definitions, unread, live.control_plane()));
    }
    global.refuse_server_flags(READS_FILES)?;
    let (texts, mut missing) = args.files.needed(DEFINITIONS, terminal)?;
    let (definitions, unread) = definitions(texts.iter().map(|text| &*text.document.value), &workspaces);
    missing.extend(unread);
    let exported = definitions.iter().any(|definition| definition.export.is_some());
    let control_plane =
        global.control_plane().unwrap_or(if exported { ControlPlane::Kcp } else { ControlPlane::Kubernetes });
    Ok((definitions, missing, control_plane))
}

/// Reads the kinds that an API server serves; in kcp with the APIExports that the workspace binds.
async fn of_server(
    live: &ApiServer,
    workspaces: &BTreeMap<String, String>,
) -> Result<(Vec<Definition>, Vec<ReadFailure>), Failure> {
    let (objects, mut missing) = live.definitions().await?;
    let (mut definitions, unread) = definitions(objects.iter().map(|object| &**object), workspaces);
    missing.extend(unread);
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
    Ok((definitions, missing))
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
