//! `bench`: measures how fast the API server decides deletions, without deleting anything.

mod times;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use depguard_core::model::{GroupResource, Namespace};
use depguard_kcp::Endpoint;
use futures::stream::{self, StreamExt};
use serde_json::Value;

use self::times::{Times, Verdict};

use crate::cluster::api_server::ApiServer;
use crate::cluster::named_objects::{NamedObject, NamedObjectsArgs};
use crate::cluster::source::Source;
use crate::io::exit::{Failure, Outcome};
use crate::io::output::some_of;
use crate::io::terminal::Terminal;
use crate::options::Global;

/// Measure how fast deletions are decided, without deleting anything
///
/// Sends dry runs of deletions to the API server, many at once, and prints how they ended and how long they took. Each
/// request says dryRun=All: the API server asks depguard and all other webhooks, and stores nothing. Run it before you
/// trust depguard with a cluster, and after you change rules or limits.
///
/// Without objects, the command takes up to --objects objects of the kinds that are targets in rules: those in the
/// namespace of the context, or all objects with -A, also those without a namespace. To see what depguard adds, name
/// objects of a kind that no rule names, and compare.
///
/// The caller needs the right to delete the objects. The load is real: API server and webhook decide each request, so begin
/// with few at once on a cluster that others use.
///
/// Exit code: 0 if each request was decided; 1 if some were not, because of HTTP 429, an error or no answer.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Objects: KIND NAME..., KIND,KIND NAME... or KIND/NAME... [default: objects of the rules' target kinds]
    #[arg(value_name = "OBJECT")]
    words: Vec<String>,

    /// Number of requests
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,

    /// Number of requests at once
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    at_once: u16,

    /// Maximum number of different objects
    #[arg(long, value_name = "NUMBER", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    objects: u16,
}

/// Time limit of one request: longer than an API server waits for a webhook.
const REQUEST: Duration = Duration::from_secs(45);

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let source = Source::ApiServer(Box::new(ApiServer::open(global).await?));
    let mut paths = if args.words.is_empty() {
        samples(args, &source, global, terminal).await?
    } else {
        named(args, &source, global).await?
    };
    paths.truncate(usize::from(args.objects));
    let Source::ApiServer(live) = &source else { return Err(Failure::new("bench needs an API server")) };
    let begun = Instant::now();
    let times = measure(args, &live.endpoint().within(REQUEST), &paths, terminal).await;
    let took = begun.elapsed();
    times.print(terminal)?;
    let (requests, at_once, objects) = (args.requests, args.at_once, paths.len());
    let rate = f64::from(requests) / took.as_secs_f64().max(f64::EPSILON);
    writeln!(
        terminal.out(),
        "{requests} requests about {objects} objects, {at_once} at once, in {:.1} s: {rate:.0} a second",
        took.as_secs_f64()
    )?;
    Ok(if times.has_undecided() { Outcome::Finding } else { Outcome::Well })
}

/// Returns the paths of the objects that the user named.
async fn named(args: &Args, source: &Source, global: &Global) -> Result<Vec<String>, Failure> {
    let named = NamedObjectsArgs::from_words(&args.words).read(source, global).await?;
    if let Some(missing) = Failure::joined(named.missing) {
        return Err(missing);
    }
    let path =
        |named: &NamedObject| named.kind.path(named.namespace.as_ref().map(Namespace::as_str), Some(&named.name));
    Ok(named.found.iter().map(path).collect())
}

/// Returns the paths of some objects of the rules' target kinds, as many of each kind.
async fn samples(
    args: &Args,
    source: &Source,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<Vec<String>, Failure> {
    let (namespace, kinds) = (source.scope(global)?, target_kinds(source).await?);
    let each = usize::from(args.objects).div_ceil(kinds.len().max(1));
    let mut paths = Vec::new();
    for name in &kinds {
        let Some(kind) = source.kind_of(name).await? else { continue };
        let mut sampled = 0;
        let unread = source.objects(&kind, namespace.as_ref(), terminal, |object| {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            if let Some(name) = text("/metadata/name").filter(|_| sampled < each) {
                paths.push(kind.path(text("/metadata/namespace"), Some(name)));
                sampled = sampled.saturating_add(1);
            }
        });
        if let Some(unread) = unread.await? {
            terminal.note(&format!("could not read {}: {}", unread.what, unread.why))?;
        }
    }
    if paths.is_empty() {
        let kinds = some_of(kinds.iter().map(ToString::to_string), ", ");
        return Err(Failure::new(format!("there is no object of a kind that is a target in a rule: {kinds}"))
            .hint("-A takes those of all namespaces; or name objects"));
    }
    Ok(paths)
}

/// Returns the kinds that are targets in rules that apply here.
async fn target_kinds(source: &Source) -> Result<BTreeSet<GroupResource>, Failure> {
    let rules = source.rules().await?;
    let checked = rules.check();
    let edges = checked.usable.iter().flat_map(|(_, rule)| rule.edges().iter().map(move |edge| (rule, edge)));
    let kinds: BTreeSet<_> = edges
        .filter(|(rule, edge)| rules.applies(rule, edge))
        .map(|(_, edge)| edge.target.gvr.group_resource())
        .collect();
    if kinds.is_empty() {
        return Err(Failure::new("no rule applies here").hint("name objects, or write a rule first"));
    }
    Ok(kinds)
}

/// Sends the requests: dry runs of deletions, and nothing else.
async fn measure(args: &Args, endpoint: &Endpoint, paths: &[String], terminal: &Terminal) -> Times {
    let progress = terminal.progress("requests");
    let count = usize::try_from(args.requests).unwrap_or(usize::MAX);
    let mut answers = stream::iter(paths.iter().cycle().take(count))
        .map(|path| async move {
            let begun = Instant::now();
            let answer = endpoint.delete_dry_run(path).await;
            (Verdict::of(&answer), begun.elapsed())
        })
        .buffer_unordered(usize::from(args.at_once));
    let mut times = Times::default();
    while let Some((verdict, took)) = answers.next().await {
        progress.inc(1);
        times.add(verdict, took);
    }
    times
}
