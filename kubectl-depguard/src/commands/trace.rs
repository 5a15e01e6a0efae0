//! `trace`: lists the objects to which an object refers, and their state.

use std::collections::BTreeMap;

use depguard_core::model::Namespace;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::files::FileArgs;
use crate::cluster::named_objects::{NamedObject, NamedObjectsArgs};
use crate::cluster::rules::ReadFailure;
use crate::cluster::source::Source;
use crate::engine::reference_scan::{
    AppliedEdge, Coverage, Follow, MadeObjects, ObjectIdentity, READ_ONE_NAMESPACE, Scope, print_unread,
};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::OutputArgs;
use crate::io::report::{CommandReport, ObjectReport};
use crate::io::terminal::Terminal;
use crate::io::tree::{Line, Repetition};
use crate::options::Global;

mod print;
mod readiness;
mod walk;

use self::readiness::Readiness;
use self::walk::{NodeState, Trace};

/// Show what an object refers to, directly or through others, and whether it is there and ready
///
/// The mirror of `impact`: follows all rules from the object to its targets, from these to their own targets, and so
/// on, and prints a tree. It reads each object by its name, so the right to get is enough; only selectors, and names in
/// any namespace, need a list.
///
/// A target is ready if its condition Ready, or else Available, is True for its present generation, or if its
/// status.phase says so. A target that states nothing of the kind is `there`, and with -f one that every cluster has, or that
/// an object of the files makes. The state of the object itself is shown,
/// and doesn't count for the exit code.
///
/// Several objects get a tree each, and -o json or yaml prints a list of reports.
///
/// Exit code: 1 if a target is missing, being deleted or not ready; 2 if something could not be read, so that it is
/// unknown, if a named object does not exist, or if no rule says what objects of its kind refer to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    objects: NamedObjectsArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    output: OutputArgs,

    /// Depth to follow references to, 1 for direct targets only [default: to the end]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,
}

/// Result of the command. The list of targets is flat, so that it can be of any depth: each target names the object
/// that refers to it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    object: ObjectIdentity,
    #[serde(flatten)]
    state: ObjectState,
    targets: Vec<Target>,
    /// Selectors that select no object.
    empty_selectors: Vec<EmptySelector>,
    unread: Vec<ReadFailure>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TracedTarget")]
struct Target {
    #[serde(flatten)]
    object: ObjectIdentity,
    #[serde(flatten)]
    state: ObjectState,
    /// 1 for a target of the object itself.
    depth: usize,
    referred_to_by: ObjectIdentity,
    by: Vec<RuleField>,
    /// True if the target refers to further objects, which lie deeper than `--depth`.
    is_cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<Repetition>,
}

/// State of an object, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct ObjectState {
    state: StateKind,
    /// Reason, if the object is not ready, its state is unknown, or another object of the files makes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
enum StateKind {
    Ready,
    /// The object is there, and states nothing that tells if it is ready; or it will be, by an object of the files.
    There,
    NotReady,
    Terminating,
    Missing,
    Unknown,
}

/// Rule and field by which one object refers to another.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
struct RuleField {
    rule: String,
    field: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct EmptySelector {
    object: ObjectIdentity,
    #[serde(flatten)]
    by: RuleField,
    /// Kind of the objects that it would select.
    selects: String,
}

/// Targets of one of the objects that the user named.
struct Tree {
    lines: Vec<Line>,
    /// Report, with a target for each line.
    report: Report,
}

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let source = Source::open(global, &args.files, terminal).await?;
    let named = args.objects.read(&source, global).await?;
    let are_several = named.are_several();
    let mut failures = named.missing;
    if let (true, Some(missing)) = (named.found.is_empty(), Failure::joined(failures.clone())) {
        return Err(missing);
    }
    let rules = source.rules().await?;
    let (edges, unread_rules) = AppliedEdge::from_rules(&rules);
    print_unread(&unread_rules, terminal)?;
    if let Some(nothing) = Coverage::of_rules(&rules, &rules.check(), &source).nothing() {
        return Err(nothing);
    }
    let made = match source.is_live() {
        true => MadeObjects::default(),
        false => {
            let scope = Scope::all(Follow::Targets, READ_ONE_NAMESPACE);
            MadeObjects::read(&edges, rules.control_plane, &source, scope, terminal).await?
        }
    };
    let (mut trees, mut noted) = (Vec::new(), unread_rules.clone());
    for named in &named.found {
        let own = named.kind.gvr.group_resource();
        if unread_rules.is_empty() && !edges.iter().any(|applied| applied.dependent() == own) {
            failures.push(
                Failure::new(format!("no rule says what {own} refer to"))
                    .hint("write one: `kubectl depguard suggest` proposes rules from the schemas of kinds"),
            );
            continue;
        }
        let NamedObject { kind, namespace, name, object } = named;
        let within = object.pointer("/metadata/namespace").and_then(Value::as_str);
        let within = within.or(namespace.as_ref().map(Namespace::as_str));
        let depth = args.depth.map(usize::from);
        let trace = Trace::walk(&source, &made, edges.clone(), (kind, within, name), depth, terminal).await?;
        let unread: Vec<_> = trace.unread.iter().filter(|unread| !noted.contains(unread)).cloned().collect();
        print_unread(&unread, terminal)?;
        noted.extend(unread);
        let lines = lines(&trace);
        match Report::from_trace(&trace, &lines) {
            None => failures.push(Failure::new(format!("could not read {} {name}", kind.kind)).hint("run it again")),
            Some(mut report) => {
                report.unread.splice(0..0, unread_rules.iter().cloned());
                trees.push(Tree { lines, report });
            }
        }
    }
    if !trees.is_empty() {
        print::trees(&trees, are_several, args.output.output, terminal)?;
    }
    conclude(&trees, failures)
}

/// Ends the command. A tree that may lack targets is a failure, even if it has some.
fn conclude(trees: &[Tree], mut failures: Vec<Failure>) -> Result<Outcome, Failure> {
    let mut unread: Vec<_> = trees.iter().flat_map(|tree| &tree.report.unread).map(ToString::to_string).collect();
    unread.sort_unstable();
    unread.dedup();
    let hint = "the notes above name them: get the right to read them, or correct the rules";
    match unread.len() {
        0 => {}
        1 => failures.push(Failure::new("incomplete: 1 rule, object or reference could not be read").hint(hint)),
        many => failures.push(
            Failure::new(format!("incomplete: {many} rules, objects or references could not be read")).hint(hint),
        ),
    }
    if let Some(failure) = Failure::joined(failures) {
        return Err(failure);
    }
    let mut targets = trees.iter().flat_map(|tree| &tree.report.targets);
    Ok(if targets.any(Target::is_finding) { Outcome::Finding } else { Outcome::Well })
}

/// Lists the targets of the first object, direct and indirect.
fn lines(trace: &Trace) -> Vec<Line> {
    crate::io::tree::lines(0, |index| {
        let mut targets = BTreeMap::<_, (usize, Vec<usize>)>::new();
        let links = trace.nodes.get(index).map_or(&[][..], |node| node.links.as_slice());
        for (number, link) in links.iter().enumerate() {
            if let Some(target) = trace.nodes.get(link.to) {
                let ObjectIdentity { kind, namespace, name, .. } = &target.identity;
                targets.entry((kind, namespace, name, link.to)).or_insert((link.to, Vec::new())).1.push(number);
            }
        }
        targets.into_values().rev().collect()
    })
}

impl CommandReport for Report {
    const KIND: &'static str = "TraceReport";
}

impl ObjectReport for Report {
    const LIST_KIND: &'static str = "TraceReportList";
}

impl Report {
    /// Builds the report; `None` if the first object is gone.
    fn from_trace(trace: &Trace, lines: &[Line]) -> Option<Self> {
        let field = |edge: usize| {
            let applied = trace.edges.get(edge)?;
            Some(RuleField { rule: applied.rule().name.clone(), field: applied.edge.field() })
        };
        let targets = lines.iter().filter_map(|line| {
            let (target, parent) = (trace.nodes.get(line.object)?, trace.nodes.get(line.parent)?);
            let links = || line.references.iter().filter_map(|number| parent.links.get(*number));
            let mut by: Vec<_> = links().filter_map(|link| field(link.edge)).collect();
            by.sort();
            by.dedup();
            // If one of several references means an object with another UID, that one has no target.
            let states = || links().map(|link| trace.state(link));
            let state = states().find(|state| *state == NodeState::Missing).or_else(|| states().next())?;
            Some(Target {
                object: target.identity.clone(),
                state: ObjectState::new(state),
                depth: line.depth,
                referred_to_by: parent.identity.clone(),
                by,
                is_cut: target.is_cut,
                again: line.again,
            })
        });
        let empty = trace.empty.iter().filter_map(|empty| {
            let object = trace.nodes.get(empty.from)?.identity.clone();
            Some(EmptySelector { object, by: field(empty.edge)?, selects: empty.kind.clone() })
        });
        let root = trace.nodes.first().filter(|root| root.state != NodeState::Missing)?;
        Some(Self {
            object: root.identity.clone(),
            state: ObjectState::new(root.state.clone()),
            targets: targets.collect(),
            empty_selectors: empty.collect(),
            unread: trace.unread.clone(),
        })
    }
}

impl Target {
    /// Returns true if the target keeps those that refer to it from working.
    fn is_finding(&self) -> bool {
        matches!(self.state.state, StateKind::Missing | StateKind::NotReady | StateKind::Terminating)
    }
}

impl ObjectState {
    fn new(state: NodeState) -> Self {
        let (state, reason) = match state {
            NodeState::There(Readiness::Ready) => (StateKind::Ready, None),
            NodeState::There(Readiness::Unstated) => (StateKind::There, None),
            NodeState::There(Readiness::NotReady(why)) => (StateKind::NotReady, Some(why)),
            NodeState::There(Readiness::Terminating) => (StateKind::Terminating, None),
            NodeState::Made(maker) => (StateKind::There, Some(format!("{maker} makes it"))),
            NodeState::Missing => (StateKind::Missing, None),
            NodeState::Unread(why) => (StateKind::Unknown, Some(why)),
        };
        Self { state, reason }
    }
}
