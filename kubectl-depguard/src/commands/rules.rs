//! `rules`: lists, prints and applies the packs of ready-made rules.

mod former;
mod weakened;

use clap::Subcommand;
use depguard_controller::manifests;
use depguard_controller::packs::RulePack;
use depguard_core::ControlPlane;
use schemars::JsonSchema;
use serde::Serialize;

use self::former::FormerRules;
use crate::cluster::api_server::ApiServer;
use crate::cluster::resource_path::text;
use crate::commands::install::objects::{Item, Place};
use crate::commands::install::{Applier, Targets};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::{Format, OutputArgs};
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::Terminal;
use crate::options::{DryRun, Global};

/// List, show or apply ready-made rules
///
/// The command has packs of rules about the kinds of Kubernetes, of kcp and of well-known products. docs/packs.md says
/// for each pack what it protects, and what it leaves to others.
///
/// A rule about kinds that the cluster does not have refuses nothing until they exist.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Show(Show),
    Apply(Apply),
}

/// List the packs
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    output: OutputArgs,
}

/// Print the objects of packs, as YAML with comments
///
/// Prints the rules, and in plain Kubernetes the ClusterRole that lets the webhook list their dependents.
#[derive(Debug, clap::Args)]
struct Show {
    #[command(flatten)]
    packs: Packs,
}

/// Apply packs to the cluster or workspace of the kubeconfig
///
/// Applies the objects that `rules show` prints, and prints one line per object. If the API server would refuse one, such
/// as a rule of which somebody else owns a field, none is applied. You can run the command again at any time. Afterwards `kubectl depguard status` shows whether each rule is enforced.
///
/// If a rule had another name in a former version, the rule of that name is deleted once the new one is applied. A rule
/// of that name that you wrote or changed stays, and a note says so. With --strict, a default rule that the strict ones do
/// without goes in the same way.
///
/// A note names each reference of a stored rule for which the new rule refuses less.
#[derive(Debug, clap::Args)]
struct Apply {
    #[command(flatten)]
    packs: Packs,

    /// Change nothing: `client` prints the objects, `server` lets the API server check them
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    dry_run: Option<DryRun>,

    /// Take over fields that another manager set
    #[arg(long)]
    force_conflicts: bool,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct Packs {
    /// Names of packs, as `rules list` prints them
    #[arg(value_name = "PACK", required = true, value_parser = pack)]
    names: Vec<&'static RulePack>,

    /// Take the strict rules: they also refuse deletions that the default rules leave to Kubernetes or to a Deployment
    #[arg(long)]
    strict: bool,
}

impl Packs {
    fn packs(self) -> Vec<&'static RulePack> {
        let chosen = |pack: &'static RulePack| if self.strict { pack.strict() } else { pack };
        self.names.into_iter().map(chosen).collect()
    }
}

/// Packs, for programs.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PackList {
    packs: Vec<PackSummary>,
}

/// Pack of rules.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PackSummary {
    name: &'static str,
    /// `kcp` or `kubernetes`.
    control_plane: &'static str,
    protects: &'static str,
    notes: &'static [String],
    held_against: &'static str,
    /// Names of the rules.
    rules: Vec<String>,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    match args.command {
        Command::List(args) => list(args.output.output, terminal)?,
        Command::Show(args) => show(&args.packs.packs(), terminal)?,
        Command::Apply(args) => apply(args, global, terminal).await?,
    }
    Ok(Outcome::Well)
}

fn pack(name: &str) -> Result<&'static RulePack, String> {
    RulePack::by_name(name).ok_or_else(|| {
        let names: Vec<_> = RulePack::all().iter().map(|pack| pack.name).collect();
        format!("no such pack; there are {}", names.join(", "))
    })
}

fn list(output: Option<Format>, terminal: &mut Terminal) -> Result<(), Failure> {
    match output {
        Some(Format::Json) => print_json(&PackList::new(), terminal),
        Some(Format::Yaml) => print_yaml(&PackList::new(), terminal),
        Some(Format::Name) => {
            let names = RulePack::all().iter().map(|pack| format!("{}\n", pack.name)).collect::<String>();
            Ok(terminal.out().write_all(names.as_bytes())?)
        }
        Some(Format::Wide) | None => {
            let is_wide = output.is_some();
            let more = is_wide.then_some(["HELD AGAINST", "PROTECTS"]);
            let mut table = Table::new(["NAME", "RULES", "FOR"].into_iter().chain(more.into_iter().flatten()));
            for pack in RulePack::all() {
                let RulePack { name, control_plane, protects, held_against, .. } = pack;
                let row = [(*name).to_owned(), pack.rules().len().to_string(), said(*control_plane).to_owned()];
                let more = is_wide.then(|| [held_against.to_owned(), protects.to_owned()]);
                table.push(row.into_iter().chain(more.into_iter().flatten()));
            }
            table.print(terminal)
        }
    }
}

impl CommandReport for PackList {
    const KIND: &'static str = "RulesReport";
}

impl PackList {
    fn new() -> Self {
        let packs = RulePack::all().iter().map(|pack| PackSummary {
            name: pack.name,
            control_plane: said(pack.control_plane),
            protects: &pack.protects,
            notes: &pack.notes,
            held_against: &pack.held_against,
            rules: pack.rules().iter().map(|rule| text(rule, "/metadata/name").to_owned()).collect(),
        });
        Self { packs: packs.collect() }
    }
}

/// Returns the value of `--control-plane`.
fn said(control_plane: ControlPlane) -> &'static str {
    match control_plane {
        ControlPlane::Kcp => "kcp",
        ControlPlane::Kubernetes => "kubernetes",
    }
}

fn show(packs: &[&RulePack], terminal: &mut Terminal) -> Result<(), Failure> {
    let files =
        packs.iter().map(|pack| manifests::rule_file(pack).map(|file| file.text)).collect::<Result<Vec<_>, _>>();
    Ok(terminal.out().write_all(files.map_err(Failure::new)?.join("---\n").as_bytes())?)
}

async fn apply(args: Apply, global: &Global, terminal: &mut Terminal) -> Result<(), Failure> {
    let live = ApiServer::open(global).await?;
    let packs = args.packs.packs();
    if let Some(pack) = packs.iter().find(|pack| pack.control_plane != live.control_plane()) {
        return Err(Failure::new(format!(
            "pack {} is for {}, and this is {}",
            pack.name,
            said(pack.control_plane),
            said(live.control_plane())
        ))
        .hint("`kubectl depguard rules list` shows for which control plane each pack is"));
    }
    let place = Targets { cluster: Some(live.endpoint()), ..Targets::default() };
    let mut applier = Applier::new(place, args.dry_run, args.force_conflicts, args.output.output);
    let objects = packs.iter().flat_map(|pack| manifests::pack_objects(pack));
    let items: Vec<_> = objects.map(|object| Item { place: Place::Cluster, object }).collect();
    let former = FormerRules::new(&live, &packs, args.dry_run);
    applier.try_all(&items).await?;
    former.try_deletions().await?;
    weakened::tell(&live, &items, &former, terminal).await?;
    applier.apply(&items, terminal).await?;
    former.delete(terminal).await?;
    applier.finish(terminal)?;
    if args.dry_run.is_none() {
        terminal.note("`kubectl depguard status` shows whether each rule is enforced")?;
    }
    Ok(())
}
