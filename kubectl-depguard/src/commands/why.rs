//! `why`: who blocks the deletion of an object, and how each lets go.

use serde_json::Value;

use crate::cli::Global;
use crate::files::FileArgs;
use crate::kinds::ObjectArgs;
use crate::outcome::{Failure, Outcome};
use crate::output::OutputArgs;
use crate::source::Source;
use crate::terminal::Terminal;

mod all;
mod answer;
mod ask;
mod own;
mod print;
mod release;

use self::answer::{Answer, Target};

/// Show what blocks the deletion of an object, and how each lets go
///
/// Whoever refers to it, locks, and finalizers, by the rules, locks and objects that you may read, or those of the files.
/// Where these name nothing, or some of them must not be read, the API server is asked by a dry run of the deletion, which
/// deletes nothing: other webhooks and policies may refuse, too. The answer says which of the two it came from.
///
/// Exit code: 0 nothing blocks it, 1 something does, 2 it could not be told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    object: ObjectArgs,

    /// Name all blockers; else the search ends with the page of dependents on which enough for a refusal are found
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let (named, name) = args.object.named()?;
    let source = Source::open(global, &args.files, terminal).await?;
    let kind = source.kind(named).await?;
    if global.all_namespaces && kind.namespaced != Some(false) {
        return Err(Failure::new(format!("{} are in namespaces, and one of them is asked about", kind.gvr.resource))
            .hint("name its namespace with --namespace instead of --all-namespaces"));
    }
    let namespace = source.namespace(global)?.filter(|_| kind.namespaced != Some(false));
    let object = source.object(&kind, namespace.as_ref(), name).await?.ok_or_else(|| {
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        Failure::new(format!("there is no {}/{name}{place}", kind.gvr.group_resource()))
            .hint("look at its name, and name its namespace with --namespace")
    })?;
    let target = Target::new(&kind, object);
    let answer = Answer::find(&source, &target, args.all, terminal).await?;
    print::print(&answer, args.all, args.output.output, terminal)?;
    match answer.blocked {
        Some(false) => Ok(Outcome::Well),
        Some(true) => Ok(Outcome::Finding),
        None => Err(answer.untold()),
    }
}

/// A text in an object.
fn text<'v>(object: &'v Value, pointer: &str) -> Option<&'v str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}
