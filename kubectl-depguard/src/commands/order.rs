//! `order`: computes the order in which objects can be deleted, and deletes them.

use std::time::Duration;

use depguard_core::model::{Namespace, parse_duration};
use depguard_core::{ControlPlane, WorkspacePath};
use depguard_kcp::Endpoint;
use tokio::sync::watch;

use crate::cluster::files::FileArgs;
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::engine::locks::Locks;
use crate::engine::reference_scan::{Follow, READ_ONE_NAMESPACE, Scan, Scope};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::{Format, OutputArgs};
use crate::io::terminal::Terminal;
use crate::options::{DryRun, Global};

mod delete;
mod dry_run;
mod owner;
mod plan;
mod print;
mod request;

use delete::PlanExecutor;
use plan::Plan;
pub(crate) use plan::PlanReport;
use request::Requests;

/// Show the order in which objects can be deleted, or delete them in that order
///
/// Dependents go before their targets. Once the waves before it are gone, nothing blocks the objects of a wave. Only
/// kinds that rules name are ordered, and only rules that refuse (onDelete: Deny) count. Objects that protect each
/// other are in no wave; the command says how to end such a cycle. Locked objects, and the objects that they refer to,
/// are in no wave either. With -l or --field-selector, only selected objects go; the others stay, and so do the objects
/// to which they refer.
///
/// With GlobalOwner NAME instead of a place, the command shows in which waves that GlobalOwner would remove its groups,
/// by its spec.order, and how many objects each group has.
///
/// Exit code: 0 if every object has a wave, or is gone; 1 if an object can't be deleted, or is left; 2 if the plan is
/// incomplete, because a rule can't be used or something could not be read, or if there was nothing to read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace, or in kcp the path of a workspace, as root:acme [default: the namespace of -n]
    #[arg(value_name = "NAMESPACE|WORKSPACE|GlobalOwner")]
    place: Option<String>,

    /// Name of a GlobalOwner, after that word
    #[arg(value_name = "NAME", requires = "place", conflicts_with = "delete")]
    name: Option<String>,

    #[command(flatten)]
    files: FileArgs,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    output: OutputArgs,

    /// Delete the objects wave by wave, each gone before the next begins; can be interrupted and run again
    #[arg(long, conflicts_with = "filename")]
    delete: bool,

    /// Print what would be deleted (client), or let the server try the first wave (server)
    #[arg(long, value_enum, requires = "delete", value_name = "MODE")]
    dry_run: Option<DryRun>,

    /// Time limit of a wave, including finalizers, as 90s or 1h30m [default: 30m]
    #[arg(long, requires = "delete", value_parser = duration)]
    timeout: Option<Duration>,

    /// Delete without a question
    #[arg(short, long, requires = "delete")]
    yes: bool,
}

/// Default time limit of a wave.
const TIME: Duration = Duration::from_secs(30 * 60);
/// Upper bound of the time limit of a wave.
const MAX_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    // clap doesn't enforce `requires = "delete"` beside `-f`, as `--delete` excludes `-f`.
    if !args.delete && (args.yes || args.timeout.is_some() || args.dry_run.is_some()) {
        return Err(
            Failure::new("--yes, --timeout and --dry-run need --delete").hint("add --delete, or leave them out")
        );
    }
    if let Some(name) = owner::named(args.place.as_deref(), args.name.as_deref())? {
        if args.delete {
            return Err(Failure::new("a GlobalOwner removes its objects itself")
                .hint(format!("delete it: kubectl delete globalowner {name}")));
        }
        if !args.selection.is_empty() {
            return Err(Failure::new(
                "-l and --field-selector have no effect on a GlobalOwner, which names its objects",
            )
            .hint("leave them out"));
        }
        let source = Source::open(global, &args.files, terminal).await?;
        return owner::run(name, &source, args.output.output, terminal).await;
    }
    let (source, namespace) = place(&args, global, terminal).await?;
    let rules = source.rules().await?;
    let locks = Locks::read(&source, namespace.as_ref(), terminal).await?;
    let fallback = namespace.as_ref();
    let scope = Scope {
        namespace: fallback,
        fallback,
        labels: !locks.is_empty(),
        selection: Some(&args.selection),
        ..Scope::all(Follow::Dependents, READ_ONE_NAMESPACE)
    };
    let scan = Scan::read(&source, &rules, scope, &[], terminal).await?;
    scan.print_unread(terminal)?;
    let plan = Plan::new(rules.control_plane, scan, &locks);
    let endpoint = match &source {
        Source::ApiServer(live) if args.delete => live.endpoint(),
        _ => {
            print::plan(&plan, args.output.output, terminal)?;
            return plan.outcome(true);
        }
    };
    if matches!(args.output.output, Some(Format::Json | Format::Yaml)) {
        return Err(
            Failure::new("with --delete the output can't be json or yaml").hint("leave out -o, or write -o name")
        );
    }
    if rules.control_plane == ControlPlane::Kubernetes && namespace.is_none() {
        return Err(Failure::new("order deletes no whole cluster, because that would include the cluster's own parts")
            .hint("name a namespace"));
    }
    match args.dry_run {
        Some(DryRun::Client) => dry_run::client(&plan, terminal),
        Some(DryRun::Server) => dry_run::server(&plan, &Requests::new(&endpoint), terminal).await,
        None => delete(&args, &plan, &endpoint, terminal).await,
    }
}

async fn delete(args: &Args, plan: &Plan, endpoint: &Endpoint, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    if !args.yes {
        if !terminal.is_interactive() {
            return Err(Failure::new("nothing was deleted: without a terminal, order can't ask for confirmation")
                .hint("add --yes to delete without a question, or --dry-run=client to see the deletions"));
        }
        print::plan(plan, None, terminal)?;
        let question = format!("Delete {} in {} waves?", print::objects(plan.count()), plan.waves.len());
        if plan.count() > 0 && !terminal.ask(&question)? {
            terminal.note("nothing was deleted")?;
            return Ok(Outcome::Finding);
        }
    }
    let (stopping, stop) = watch::channel(false);
    let interrupt = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stopping.send_replace(true);
        }
    });
    let requests = Requests::new(endpoint);
    let executor = PlanExecutor {
        plan,
        requests,
        timeout: args.timeout.unwrap_or(TIME),
        stop,
        names_only: args.output.output.is_some(),
    };
    let left = executor.execute(terminal).await;
    interrupt.abort();
    executor.conclude(&left?, terminal)
}

/// Opens the place to read, and returns it with the namespace.
async fn place(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<(Source, Option<Namespace>), Failure> {
    let mut source = Source::open(global, &args.files, terminal).await?;
    let Some(place) = &args.place else {
        let namespace = source.scope(global)?;
        return Ok((source, namespace));
    };
    let is_workspace = place == "root" || place.contains(':');
    if is_workspace {
        let path = WorkspacePath::parse(place).map_err(Failure::new)?;
        source = match source {
            Source::ApiServer(live) => Source::ApiServer(Box::new(live.in_workspace(&path)?)),
            Source::Manifests(_) => {
                return Err(Failure::new(format!("`{place}` is a workspace, but files have no workspace"))
                    .hint("name a namespace, or leave out -f"));
            }
        };
        return Ok((source, global.namespace.clone()));
    }
    if global.namespace.is_some() || global.all_namespaces {
        return Err(Failure::new(format!("`{place}` and -n or -A both name namespaces")).hint("use only one of them"));
    }
    Namespace::parse(place).map(|namespace| (source, Some(namespace))).map_err(Failure::new)
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).filter(|duration| *duration <= MAX_TIME);
    duration.ok_or_else(|| "write it as `90s` or `1h30m`, at most 168h".to_owned())
}
