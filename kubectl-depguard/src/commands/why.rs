//! `why`: shows everything that stands in the way of a deletion, and the next step for each.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use depguard_core::model::{GroupResource, Namespace, Resource};
use depguard_core::{ControlPlane, Group, api};
use serde_json::Value;

use crate::cluster::files::FileArgs;
use crate::cluster::named_objects::{NamedObjects, NamedObjectsArgs};
use crate::cluster::rules::Rules;
use crate::cluster::source::Source;
use crate::engine::locks::Locks;
use crate::io::exit::{Failure, Outcome};
use crate::io::output::{OutputArgs, some_of};
use crate::io::terminal::Terminal;
use crate::options::Global;

mod all;
mod answer;
mod ask;
mod blocker;
mod obstacle;
mod obstacles;
mod own;
mod print;
mod release;
mod target;

use self::answer::{Answer, DeletionState, Protection};
pub(crate) use self::print::WhyReport;
use self::target::Target;

/// Show what stands in the way of a deletion, and what to do about it
///
/// An object can be refused (the API server rejects its deletion), hang (its deletion was accepted, and the object
/// stays), or be free. The command looks at rules, locks, finalizers, owners, Pods that use a claim, conditions and
/// objects of a namespace, other webhooks and policies, and your rights; in the cluster or workspace as far as you may
/// read it, or in files. At last it asks the API server by a dry run of the deletion, which deletes nothing. The answer
/// names its source.
///
/// Exit code: 0 if nothing stands in the way, 1 if something does, 2 if the command could not find out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    objects: NamedObjectsArgs,

    /// Name all blockers and obstacles; by default the search ends at the page of dependents that has enough for a
    /// refusal, and the output has the first of them
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let source = Source::open(global, &args.files, terminal).await?;
    let NamedObjects { found, missing } = args.objects.read(&source, global).await?;
    let targets: Vec<_> = found.into_iter().map(|named| Target::new(&named.kind, named.object)).collect();
    let rules = rules(&source, terminal).await?;
    let protection = Protection { source: &source, rules: &rules, checked: rules.check() };
    let mut locks: BTreeMap<Option<&str>, Locks> = BTreeMap::new();
    let mut answers = Vec::new();
    for target in &targets {
        let namespace = target.namespace.as_deref();
        let locks = match locks.entry(namespace) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let parsed = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
                unknown.insert(Locks::read(&source, parsed.as_ref(), terminal).await?)
            }
        };
        answers.push(Answer::find(&protection, target, locks, args.all, terminal).await?);
    }
    if !answers.is_empty() {
        print::print(&answers, args.all, args.output.output, terminal)?;
    }
    conclude(&answers, missing)
}

/// Returns the rules. A cluster that serves no DependencyRules has none, and other things refuse deletions there.
async fn rules(source: &Source, terminal: &mut Terminal) -> Result<Rules, Failure> {
    if let Source::ApiServer(live) = source
        && live.control_plane() == ControlPlane::Kubernetes
    {
        let group = Group::parse(api::GROUP).map_err(Failure::new)?;
        let resource = Resource::parse(api::PLURAL).map_err(Failure::new)?;
        let kinds = source.kinds().await?;
        if kinds.unread_of(&group).next().is_none() && kinds.of(&GroupResource { group, resource }).is_none() {
            terminal.note("the cluster serves no DependencyRules: depguard is not installed here")?;
            return Ok(Rules::none(ControlPlane::Kubernetes));
        }
    }
    source.rules().await
}

/// Returns the outcome of several answers: an unknown one counts more than a blocked one.
fn conclude(answers: &[Answer<'_>], missing: Vec<Failure>) -> Result<Outcome, Failure> {
    let unknown: Vec<_> = answers.iter().filter(|answer| answer.state == DeletionState::Unknown).collect();
    if let Some(missing) = Failure::joined(missing) {
        return Err(missing);
    }
    if unknown.is_empty() {
        let is_free = answers.iter().all(|answer| answer.state == DeletionState::Free);
        return Ok(if is_free { Outcome::Well } else { Outcome::Finding });
    }
    let shown: Vec<_> = unknown.iter().map(|answer| answer.target.shown()).collect();
    let flawed: BTreeSet<_> = unknown.iter().flat_map(|answer| &answer.flawed_rules).cloned().collect();
    let flawed = if flawed.is_empty() { String::new() } else { format!(": could not read {}", some_of(flawed, ", ")) };
    let failure = Failure::new(format!("could not find out what blocks {}{flawed}", shown.join(", ")));
    let mut rights: Vec<_> = unknown.iter().flat_map(|answer| &answer.missing_rights).map(String::as_str).collect();
    rights.sort_unstable();
    rights.dedup();
    Err(match rights.is_empty() {
        true => failure.hint("the lines above say what to do"),
        false => failure.hint(format!("ask for the right to {}", rights.join(", or to "))),
    })
}

/// Returns a text in an object, unless it is empty.
fn text<'v>(object: &'v Value, pointer: &str) -> Option<&'v str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}
