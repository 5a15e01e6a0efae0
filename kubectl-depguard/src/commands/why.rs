//! `why`: shows the objects that block a deletion, and how each lets go.

use serde_json::Value;

use crate::cluster::files::FileArgs;
use crate::cluster::kinds::ObjectArgs;
use crate::cluster::source::Source;
use crate::io::exit::{Failure, Outcome};
use crate::io::output::OutputArgs;
use crate::io::terminal::Terminal;
use crate::options::Global;

mod all;
mod answer;
mod ask;
mod own;
mod print;
mod release;

use self::answer::{Answer, Target};

/// Show what blocks the deletion of an object, and how to release it
///
/// Lists the objects that refer to it, its locks and its finalizers, by the rules, locks and objects that you may read,
/// or by those of the files. If these name no blocker, or if you may not read some of them, the command asks the API
/// server by a dry run of the deletion, which deletes nothing; other webhooks and policies may refuse it, too. The
/// answer names its source.
///
/// Exit code: 0 if nothing blocks the deletion, 1 if something does, 2 if the command could not find out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    object: ObjectArgs,

    /// Name all blockers; by default the search ends at the page of dependents that has enough for a refusal
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
        return Err(Failure::new(format!(
            "-A does not say which object is meant: {} are in namespaces",
            kind.gvr.resource
        ))
        .hint("name its namespace with --namespace instead of --all-namespaces"));
    }
    let namespace = source.namespace(global)?.filter(|_| kind.namespaced != Some(false));
    let object = source.object(&kind, namespace.as_ref(), name).await?.ok_or_else(|| {
        let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        Failure::new(format!("there is no {}/{name}{place}", kind.gvr.group_resource()))
            .hint("check the name, and name the namespace with --namespace")
    })?;
    let target = Target::new(&kind, object);
    let answer = Answer::find(&source, &target, args.all, terminal).await?;
    print::print(&answer, args.all, args.output.output, terminal)?;
    match answer.blocked {
        Some(false) => Ok(Outcome::Well),
        Some(true) => Ok(Outcome::Finding),
        None => Err(answer.failure()),
    }
}

/// Returns a text in an object, unless it is empty.
fn text<'v>(object: &'v Value, pointer: &str) -> Option<&'v str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}
