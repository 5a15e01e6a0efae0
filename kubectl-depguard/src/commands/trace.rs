//! `trace`: lists the objects to which an object refers, and their state.

use std::collections::BTreeMap;

use depguard_core::model::Namespace;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::files::FileArgs;
use crate::cluster::kinds::ObjectArgs;
use crate::cluster::rules::ReadFailure;
use crate::cluster::source::{NamedObject, Source};
use crate::engine::reference_scan::{AppliedEdge, Coverage, ObjectIdentity, print_unread};
use crate::io::exit::{Failure, Outcome};
use crate::io::output::OutputArgs;
use crate::io::report::CommandReport;
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
/// status.phase says so. A target that states nothing of the kind is `there`. The state of the object itself is shown,
/// and doesn't count for the exit code.
///
/// Exit code: 1 if a target is missing, being deleted or not ready; 2 if something could not be read, so that it is
/// unknown, or if no rule says what objects of this kind refer to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    object: ObjectArgs,
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
    /// Reason, if the object is not ready or its state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
enum StateKind {
    Ready,
    /// The object is there, and states nothing that tells if it is ready.
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

pub(crate) async fn run(args: &Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let named = args.object.named()?;
    let source = Source::open(global, &args.files, terminal).await?;
    let next_step = "name the namespace with --namespace";
    let NamedObject { kind, namespace, object } = source.named_object(named, global, next_step).await?;
    let (_, name) = named;
    let rules = source.rules().await?;
    let (edges, unread_rules) = AppliedEdge::from_rules(&rules);
    print_unread(&unread_rules, terminal)?;
    if let Some(nothing) = Coverage::of_rules(&rules, &rules.check(), &source).nothing() {
        return Err(nothing);
    }
    let own = kind.gvr.group_resource();
    if unread_rules.is_empty() && !edges.iter().any(|applied| applied.dependent() == own) {
        return Err(Failure::new(format!("no rule says what {own} refer to"))
            .hint("write one: `kubectl depguard suggest` proposes rules from the schemas of kinds"));
    }
    let within = object.pointer("/metadata/namespace").and_then(Value::as_str);
    let within = within.or(namespace.as_ref().map(Namespace::as_str));
    let depth = args.depth.map(usize::from);
    let trace = Trace::walk(&source, edges, (&kind, within, name), depth, terminal).await?;
    print_unread(&trace.unread, terminal)?;
    let lines = lines(&trace);
    let mut report = Report::from_trace(&trace, &lines)
        .ok_or_else(|| Failure::new(format!("could not read {} {name}", kind.kind)).hint("run it again"))?;
    report.unread.splice(0..0, unread_rules);
    print::report(&report, &lines, args.output.output, terminal)?;
    report.outcome()
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

    /// Ends the command. A tree that may lack targets is a failure, even if it has some.
    fn outcome(&self) -> Result<Outcome, Failure> {
        let message = match self.unread.len() {
            0 if self.targets.iter().any(Target::is_finding) => return Ok(Outcome::Finding),
            0 => return Ok(Outcome::Well),
            1 => "incomplete: 1 rule, object or reference could not be read".to_owned(),
            many => format!("incomplete: {many} rules, objects or references could not be read"),
        };
        Err(Failure::new(message).hint("the notes above name them: get the right to read them, or correct the rules"))
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
            NodeState::Missing => (StateKind::Missing, None),
            NodeState::Unread(why) => (StateKind::Unknown, Some(why)),
        };
        Self { state, reason }
    }
}
