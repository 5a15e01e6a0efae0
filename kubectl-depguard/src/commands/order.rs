//! `order`: computes the order in which objects can be deleted, and deletes them.

use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_core::model::parse_duration;
use depguard_kcp::Endpoint;
use tokio::sync::watch;

use crate::cluster::api_server::ApiServer;
use crate::cluster::files::FileArgs;
use crate::cluster::selection::Selection;
use crate::cluster::source::Source;
use crate::io::exit::{Failure, Outcome};
use crate::io::output::{Format, OutputArgs};
use crate::io::terminal::Terminal;
use crate::options::{DryRun, Global};

mod delete;
mod dry_run;
mod leftover;
mod of_files;
mod owner;
mod plan;
mod planner;
mod print;
mod request;
mod subject;
mod wait;
mod wave;

use delete::{Deletion, FirstPlan};
use plan::Plan;
pub(crate) use plan::PlanReport;
use planner::Planner;
use request::Requests;
use subject::{Subject, Words};

/// Show the order in which objects can be deleted, or delete them in that order
///
/// Dependents go before their targets. Once the waves before it are gone, nothing blocks the objects of a wave. Only
/// kinds that rules name are ordered, and only rules that refuse (onDelete: Deny) count. Objects that protect each
/// other are in no wave; the command says how to end such a cycle. Locked objects, and the objects that they refer to,
/// are in no wave either. With -l or --field-selector, only selected objects go; the others stay, and so do the objects
/// to which they refer.
///
/// With objects instead of a place, the command orders these objects and all that block their deletion, directly or
/// through others, in every namespace. Dependents by rules that only warn or audit stay. With --delete, nothing is
/// deleted unless all of these can go and everything that may depend on them could be read.
///
/// With --delete -f, the command deletes the objects on the cluster that have the kinds and names of those in the files,
/// by the rules on the cluster. Nothing is deleted while a file can't be read. Objects of kinds that no rule names stay. Objects that are in no file and block the
/// deletion keep the command from it; with --dependents they go, too.
///
/// --delete makes a new plan after each wave. It deletes no object that the first plan does not have in a wave: if a new
/// object, or an object under a new rule, blocks one of them, the command stops and names it. While objects terminate,
/// the command watches them.
///
/// With GlobalOwner NAME instead of a place, the command shows in which waves that GlobalOwner would remove its groups,
/// by its spec.order, and how many objects each group has.
///
/// Exit code: 0 if every object has a wave, or is gone; 1 if an object can't be deleted, or is left; 2 if the plan is
/// incomplete, because a rule can't be used or something could not be read, or if there was nothing to read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace; in kcp the path of a workspace, as root:acme; objects, as KIND NAME..., KIND,KIND NAME... or
    /// KIND/NAME...; or GlobalOwner NAME [default: the namespace of -n]
    #[arg(value_name = "NAMESPACE|WORKSPACE|OBJECT")]
    subject: Vec<String>,

    #[command(flatten)]
    files: FileArgs,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    output: OutputArgs,

    /// Delete the objects wave by wave, each gone before the next begins; can be interrupted and run again
    #[arg(long)]
    delete: bool,

    /// With --delete and -f, also delete the objects that block the deletion of those in the files
    #[arg(long, requires = "delete")]
    dependents: bool,

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
    if args.dependents && args.files.is_empty() {
        return Err(
            Failure::new("--dependents needs -f: the dependents of a named object go anyway").hint("leave it out")
        );
    }
    let words = Words::new(&args.subject)?;
    if let Words::GlobalOwner(name) = words {
        if args.delete {
            return Err(Failure::new("a GlobalOwner removes its objects itself")
                .hint(format!("delete it: kubectl delete globalowner {name}")));
        }
        refuse_selection(&args.selection, "a GlobalOwner, which names its objects")?;
        let source = Source::open(global, &args.files, terminal).await?;
        return owner::run(name, &source, args.output.output, terminal).await;
    }
    if words == Words::Objects {
        refuse_selection(&args.selection, "objects that are named")?;
    }
    let (source, subject) = if args.delete && !args.files.is_empty() {
        if words != Words::Here {
            return Err(Failure::new("-f and the command line both name what to delete").hint("use only one of them"));
        }
        refuse_selection(&args.selection, "objects that are named")?;
        let source = Source::ApiServer(Box::new(ApiServer::open(global).await?));
        let subject = of_files::read(&args.files, args.dependents, &source, global, terminal).await?;
        (source, subject)
    } else {
        let source = Source::open(global, &args.files, terminal).await?;
        Subject::read(words, &args.subject, source, global).await?
    };
    let endpoint = match &source {
        Source::ApiServer(live) if args.delete => Some(live.endpoint()),
        Source::ApiServer(_) | Source::Manifests(_) => None,
    };
    let planner = Planner { source, subject, selection: args.selection.clone() };
    let plan = planner.plan(|_| true, terminal).await?;
    let Some(plan) = plan else {
        return Err(Failure::new("the named objects are gone meanwhile").hint("nothing is left to do"));
    };
    plan.print_unread(terminal)?;
    let Some(endpoint) = endpoint else {
        print::plan(&plan, args.output.output, terminal)?;
        return plan.outcome(true);
    };
    if matches!(args.output.output, Some(Format::Json | Format::Yaml)) {
        return Err(
            Failure::new("with --delete the output can't be json or yaml").hint("leave out -o, or write -o name")
        );
    }
    if plan.control_plane() == ControlPlane::Kubernetes && matches!(planner.subject, Subject::Place(None)) {
        return Err(Failure::new("order deletes no whole cluster, because that would include the cluster's own parts")
            .hint("name a namespace"));
    }
    match args.dry_run {
        Some(DryRun::Client) => dry_run::client(&plan, terminal),
        Some(DryRun::Server) => dry_run::server(&plan, &Requests::new(&endpoint), terminal).await,
        None => delete(&args, planner, plan, &endpoint, terminal).await,
    }
}

async fn delete(
    args: &Args,
    planner: Planner,
    plan: Plan,
    endpoint: &Endpoint,
    terminal: &mut Terminal,
) -> Result<Outcome, Failure> {
    // Without the objects that the user named, their dependents need not go.
    if planner.has_named_objects() {
        match plan.outcome(true) {
            Ok(Outcome::Well) => {}
            Ok(Outcome::Finding) => {
                print::plan(&plan, None, terminal)?;
                terminal.note("nothing was deleted, as not all of these objects can go")?;
                if !args.files.is_empty() && !args.dependents {
                    terminal.note("with --dependents, objects in no file go with those that they block")?;
                }
                return Ok(Outcome::Finding);
            }
            Err(failure) => {
                let hint = failure.what_to_do().unwrap_or_default().to_owned();
                return Err(Failure::new(format!("nothing was deleted: {}", failure.message())).hint(hint));
            }
        }
    }
    if !args.yes {
        if !terminal.is_interactive() {
            return Err(Failure::new("nothing was deleted: without a terminal, order can't ask for confirmation")
                .hint("add --yes to delete without a question, or --dry-run=client to see the deletions"));
        }
        print::plan(&plan, None, terminal)?;
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
    let mut deletion = Deletion {
        planner,
        requests: Requests::new(endpoint),
        timeout: args.timeout.unwrap_or(TIME),
        stop,
        names_only: args.output.output.is_some(),
        known: FirstPlan::new(&plan),
    };
    // The answer to the question may have taken any time.
    let ended = deletion.execute(plan, args.yes, terminal).await;
    interrupt.abort();
    let (plan, stop) = ended?;
    deletion.conclude(&plan, stop, terminal)
}

/// Refuses -l and --field-selector. `what` ends the sentence "… have no effect on".
fn refuse_selection(selection: &Selection, what: &str) -> Result<(), Failure> {
    match selection.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("-l and --field-selector have no effect on {what}")).hint("leave them out")),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).filter(|duration| *duration <= MAX_TIME);
    duration.ok_or_else(|| "write it as `90s` or `1h30m`, at most 168h".to_owned())
}
