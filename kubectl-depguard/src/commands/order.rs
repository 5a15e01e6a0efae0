//! `order`: in which order objects can be deleted, and their deletion.

use std::time::Duration;

use depguard_core::{Home, Namespace, WorkspacePath, parse_duration};
use depguard_kcp::Endpoint;
use tokio::sync::watch;

use crate::cli::{DryRun, Global};
use crate::files::FileArgs;
use crate::locks::Locks;
use crate::outcome::{Failure, Outcome};
use crate::output::{Format, OutputArgs};
use crate::scan::{Follow, Scan, Scope};
use crate::source::Source;
use crate::terminal::Terminal;

mod delete;
mod dry_run;
mod owner;
mod plan;
mod print;
mod request;

use delete::Carrier;
use plan::Plan;
use request::Requests;

/// Tell in which order objects can be deleted, or delete them so
///
/// Whatever refers to an object must go before it. Objects of a wave are held by nobody once the waves before it are gone.
/// Only kinds that rules name are ordered, and only rules that refuse (onDelete: Deny) count. Objects that protect each
/// other are in no wave: it is told what ends them.
///
/// GlobalOwner NAME instead of a place: in which waves that GlobalOwner's groups would be removed, and how many objects of
/// each, by its spec.order.
///
/// What a lock keeps is in no wave either, nor is what it refers to.
///
/// Exit code: 0 where all has a wave, or is gone; 1 where something can't go, or is left; 2 where the plan is incomplete,
/// since a rule can't be used or something could not be looked at, or there was nothing to look at.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A namespace, or in kcp a workspace by its path, as root:acme [default: the namespace of -n]
    #[arg(value_name = "NAMESPACE|WORKSPACE|GlobalOwner")]
    place: Option<String>,

    /// The name of a GlobalOwner, after that word
    #[arg(value_name = "NAME", requires = "place", conflicts_with = "delete")]
    name: Option<String>,

    #[command(flatten)]
    files: FileArgs,

    #[command(flatten)]
    output: OutputArgs,

    /// Delete the objects, wave by wave, each gone before the next begins; may be interrupted and run again
    #[arg(long, conflicts_with = "filename")]
    delete: bool,

    /// Only say what would be deleted (client), or have the server try the first wave (server)
    #[arg(long, value_enum, requires = "delete", value_name = "WHO")]
    dry_run: Option<DryRun>,

    /// How long a wave may take, finalizers and all, as 90s or 1h30m [default: 30m]
    #[arg(long, requires = "delete", value_parser = duration)]
    timeout: Option<Duration>,

    /// Don't ask
    #[arg(short, long, requires = "delete")]
    yes: bool,
}

/// How long a wave may take unless told otherwise.
const TIME: Duration = Duration::from_secs(30 * 60);
/// The longest that a wave may take.
const MOST_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    // Beside -f, which --delete excludes, nobody else says that they need it.
    if !args.delete && (args.yes || args.timeout.is_some() || args.dry_run.is_some()) {
        return Err(Failure::new("--yes, --timeout and --dry-run are about a deletion, and none was asked for")
            .hint("say --delete too, or leave them out"));
    }
    if let Some(name) = owner::named(args.place.as_deref(), args.name.as_deref())? {
        if args.delete {
            return Err(Failure::new("a GlobalOwner removes its objects itself")
                .hint(format!("delete it: kubectl delete globalowner {name}")));
        }
        let source = Source::open(global, &args.files, terminal).await?;
        return owner::run(name, &source, args.output.output, terminal).await;
    }
    let (source, namespace) = place(&args, global, terminal).await?;
    let rules = source.rules().await?;
    let locks = Locks::read(&source, namespace.as_ref(), terminal).await?;
    let fallback = namespace.as_ref();
    let scope = Scope { namespace: fallback, follow: Follow::Dependents, labels: !locks.is_empty(), fallback };
    let scan = Scan::read(&source, &rules, scope, None, terminal).await?;
    scan.tell_unread(terminal)?;
    let plan = Plan::new(rules.home, scan, &locks);
    let endpoint = match &source {
        Source::Live(live) if args.delete => live.endpoint(),
        _ => {
            print::plan(&plan, args.output.output, terminal)?;
            return plan.outcome(true);
        }
    };
    if matches!(args.output.output, Some(Format::Json | Format::Yaml)) {
        return Err(Failure::new("with --delete the output can't be json or yaml").hint("leave out -o, or say -o name"));
    }
    if rules.home == Home::Kubernetes && namespace.is_none() {
        return Err(Failure::new("of a whole cluster nothing is deleted, its own parts would be among it")
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
            return Err(Failure::new("nothing was deleted, since nobody is there to be asked")
                .hint("say --yes to delete without being asked, or --dry-run=client to see what would be"));
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
    let carrier = Carrier {
        plan,
        requests,
        timeout: args.timeout.unwrap_or(TIME),
        stop,
        names_only: args.output.output.is_some(),
    };
    let left = carrier.carry_out(terminal).await;
    interrupt.abort();
    carrier.conclude(&left?, terminal)
}

/// Where to look, and in which namespace.
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
            Source::Live(live) => Source::Live(Box::new(live.in_workspace(&path)?)),
            Source::Disk(_) => {
                return Err(Failure::new(format!("`{place}` is a workspace, and files are in none"))
                    .hint("name a namespace, or leave out -f"));
            }
        };
        return Ok((source, global.namespace.clone()));
    }
    if global.namespace.is_some() || global.all_namespaces {
        return Err(Failure::new(format!("besides `{place}`, -n or -A says which namespaces")).hint("say it once"));
    }
    Namespace::parse(place).map(|namespace| (source, Some(namespace))).map_err(Failure::new)
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).filter(|duration| *duration <= MOST_TIME);
    duration.ok_or_else(|| "write it as `90s` or `1h30m`, at most 168h".to_owned())
}
