//! Evaluation of a creation or an update: are the targets of the references there that begin to count?

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

#[cfg(feature = "interlock")]
use self::interlocked::Marking;
use self::new_references::{Holder, NewReferences};
use self::pod_binding::PodBinding;
use self::target_read::{Found, FoundObject, TargetKey, TargetRead};
use crate::applicability::api_bindings::Binding;
use crate::applicability::bindings_list::{BindingReader, BindingsList};
use crate::applicability::bound_kinds::BoundKinds;
use crate::applicability::constraint_ends::{ConstraintEnds, TargetKind};
use crate::evaluation::decision::{AllowReason, Decision, Diagnostics, Sender, Subject};
use crate::model::api::{FailurePolicy, OnMissing};
use crate::model::names::LogicalCluster;
use crate::model::ownership::{Collected, Owner, OwnerReference};
use crate::protocol::cause::Cause;
use crate::protocol::discovery::{KindRead, ServedKind};
use crate::protocol::problem::Unresolved;
use crate::protocol::query_queue::QueryQueue;
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::response_error::unanswered;
use crate::rule::compiled_edge::CompiledEdge;
use crate::rule::cycles::{Graph, Node};
use crate::rule::reference_constraint::ConstraintState;

mod begin;
#[cfg(feature = "interlock")]
mod interlocked;
mod new_references;
mod pod_binding;
mod target_read;
mod verdict;

/// The most targets of one review that are read.
const MAX_TARGETS: usize = 500;

/// A creation or an update whose new references are being checked.
#[derive(Debug)]
pub(super) struct ReferenceCheck {
    cluster: Option<LogicalCluster>,
    subject: Subject,
    holder: Holder,
    failure_policy: FailurePolicy,
    graph: Arc<Graph>,
    kinds: BoundKinds,
    /// Constraints that may apply, each with the new references by its edges.
    constraints: Vec<(ConstraintEnds, NewReferences)>,
    /// The binding of a Pod, until the Pod is read.
    pod_binding: Option<PodBinding>,
    /// The list of bindings that is being read, if bindings show which constraints apply.
    bindings: Option<BindingsList>,
    /// The part in the interlock.
    #[cfg(feature = "interlock")]
    marking: Marking,
    /// The reason why nothing is checked.
    exemption: Option<AllowReason>,
    /// True if any constraint applies to the object.
    applies: bool,
    targets: Vec<CheckedTarget>,
    /// Versions of terminating targets' groups, which the object's ownerReferences name.
    served: BTreeMap<KindRead, ServedKind>,
    sender: Sender,
    /// Problems that lead to a refusal.
    problems: Vec<Unresolved>,
    /// Problems that don't lead to a refusal, and other diagnostics.
    diagnostics: Diagnostics,
    queries: QueryQueue<PendingQuery>,
}

/// A target, and the references that mean it.
#[derive(Debug)]
struct CheckedTarget {
    read: TargetRead,
    references: Vec<CheckedReference>,
}

/// A reference to a target.
#[derive(Debug)]
struct CheckedReference {
    edge: Arc<CompiledEdge>,
    uid: Option<String>,
    /// See [`NewReference::is_old`](new_references::NewReference).
    is_old: bool,
    /// The outcome if the target is not there.
    on_missing: OnMissing,
}

/// Purpose of a query without an answer.
#[derive(Debug, Clone)]
enum PendingQuery {
    Pod,
    Bindings,
    Target(usize),
    Served(KindRead),
}

/// Reader of the bindings: the ends of constraints.
struct EndsReader<'p> {
    kinds: &'p mut BoundKinds,
    constraints: &'p mut [(ConstraintEnds, NewReferences)],
}

impl ReferenceCheck {
    pub(super) fn hand_out(&mut self) -> Vec<Query> {
        let Self { queries, pod_binding, bindings, targets, cluster, .. } = self;
        queries.hand_out(|id, asked| match asked {
            PendingQuery::Pod => pod_binding.as_ref().map(|binding| binding.query(id)),
            PendingQuery::Bindings => bindings.as_ref().map(|list| {
                let cluster = cluster.clone();
                Query { id, cluster, export: None, path: list.next(), accept: Accept::Json }
            }),
            PendingQuery::Target(index) => targets.get(*index).map(|target| target.read.query(id, cluster.as_ref())),
            PendingQuery::Served(read) => {
                Some(Query { id, cluster: cluster.clone(), export: None, path: read.path(), accept: Accept::Json })
            }
        })
    }

    pub(super) fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        match self.queries.take(id) {
            None => {}
            Some(PendingQuery::Pod) => self.answer_pod(answer),
            Some(PendingQuery::Bindings) => self.answer_bindings(answer),
            Some(PendingQuery::Target(index)) => {
                let Some(CheckedTarget { read, .. }) = self.targets.get_mut(index) else { return };
                read.answer(answer);
                match read.found() {
                    None => self.queries.push(PendingQuery::Target(index)),
                    Some(_) => self.ask_served(index),
                }
            }
            Some(PendingQuery::Served(read)) => {
                let served = read.answer(answer).map_err(|why| read.unknown(why));
                self.served.insert(read, served);
            }
        }
    }

    /// Reads the versions that the object's ownerReferences name, and named before the change, if they decide about a
    /// target that is being deleted or gone.
    fn ask_served(&mut self, index: usize) {
        let Some(CheckedTarget { read, references }) = self.targets.get(index) else { return };
        let (key, Holder { owners, old_owners, .. }) = (read.key(), &self.holder);
        let is_old = references.iter().any(|reference| reference.is_old);
        let old = |object| is_old.then(|| self.collects(key, object, old_owners));
        let collected: Vec<_> = match read.found() {
            Some(Found::Objects { objects, .. }) => {
                let terminating = objects.iter().filter(|object| object.is_terminating);
                terminating.flat_map(|object| [Some(self.collects(key, object, owners)), old(object)]).collect()
            }
            Some(Found::Nothing | Found::NoKind) => vec![old(&self.gone_owner())],
            Some(Found::Failed(_)) | None => Vec::new(),
        };
        let unread = collected.into_iter().flatten().filter_map(|collected| match collected {
            Collected::IfServed { version, .. } => Some(key.kind_read(version)),
            Collected::Yes | Collected::No => None,
        });
        for read in unread.collect::<Vec<_>>() {
            if !self.served.contains_key(&read) {
                self.served.insert(read.clone(), Err(read.unknown(unanswered())));
                self.queries.push(PendingQuery::Served(read));
            }
        }
    }

    /// Returns the owner that was lost and is gone. Nobody knows any more if it was in the object's namespace or
    /// cluster-scoped, so it counts as one that the garbage collector finds.
    fn gone_owner(&self) -> FoundObject {
        FoundObject {
            uid: self.holder.lost_owner().map(|owner| owner.uid.clone()),
            namespace: self.holder.namespace.clone(),
            is_terminating: true,
            orphans: false,
        }
    }

    /// Finds out if the garbage collector deletes the reviewed object, with these owners, with this object that is being
    /// deleted.
    fn collects(&self, key: &TargetKey, object: &FoundObject, owners: &[OwnerReference]) -> Collected {
        let kind = key.gvr.group_resource();
        let kinds = self.served.iter().filter(|(read, _)| read.kind == kind);
        let kinds = kinds.filter_map(|(read, served)| Some((read.version.clone(), served.as_ref().ok()?.clone())));
        let owner = Owner {
            group: kind.group.as_str(),
            kinds: &kinds.collect(),
            namespace: object.namespace.as_deref(),
            name: &key.name,
            uid: object.uid.as_deref(),
            orphans: object.orphans,
        };
        owner.collects(self.holder.namespace.as_deref(), owners)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.queries.is_empty()
    }

    /// Begins to read the bindings, or the targets if no binding matters.
    fn begin_reads(&mut self) {
        self.bindings = None;
        // Without the bindings, nobody could tell if an edge lies on a cycle.
        let may_close = |ends: &ConstraintEnds| {
            self.cluster.is_some() && ends.constraint.edges().iter().any(|edge| self.graph.may_close(edge))
        };
        if self.constraints.iter().any(|(ends, _)| ends.need_bindings() || may_close(ends)) {
            self.bindings = Some(BindingsList::new());
            self.queries.push(PendingQuery::Bindings);
        } else {
            self.begin_targets();
        }
    }

    fn answer_bindings(&mut self, answer: Answer<'_>) {
        let Self { bindings: Some(list), kinds, constraints, .. } = self else { return };
        let Some(outcome) = list.answer(answer, &mut EndsReader { kinds, constraints }) else {
            return self.queries.push(PendingQuery::Bindings);
        };
        self.bindings = None;
        #[cfg(feature = "interlock")]
        if self.marking.is_hint() {
            return self.end_hint(outcome.is_ok());
        }
        match outcome {
            Ok(()) => self.begin_targets(),
            Err(why) => {
                let why = why.about("the list of apibindings");
                let strictest = self.strictest();
                self.record_failure(strictest, why);
            }
        }
    }

    /// Returns the strictest outcome of all constraints that may apply.
    fn strictest(&self) -> OnMissing {
        self.constraints.iter().map(|(ends, _)| ends.constraint.on_missing()).max().unwrap_or_default()
    }

    /// Begins to read the targets of the new references, now that the ends of the constraints are known.
    fn begin_targets(&mut self) {
        let mut indices: HashMap<TargetKey, usize> = HashMap::new();
        let mut reached = HashMap::new();
        let constraints = std::mem::take(&mut self.constraints);
        for (ends, references) in &constraints {
            if !ends.applies() {
                continue;
            }
            self.applies = true;
            if let ConstraintState::Invalid(error, on_missing) = &ends.constraint.state {
                let rule = &ends.constraint.rule;
                let why = format!("rule {rule} can't be evaluated: {error}; correct or delete the rule");
                self.record_failure(*on_missing, Unresolved::new(Cause::RuleInvalid, why));
                continue;
            }
            let edges = ends.constraint.edges();
            for (edge, why) in &references.unclear {
                if let Some(edge) = edges.get(*edge).filter(|_| ends.target(*edge) != Some(&TargetKind::Other)) {
                    let on_missing = self.on_missing(edge, &mut reached);
                    self.record_failure(on_missing, Unresolved::new(Cause::DependentInvalid, why).about("the object"));
                }
            }
            for reference in &references.certain {
                let (Some(edge), Some(kind)) = (edges.get(reference.edge), ends.target(reference.edge)) else {
                    continue;
                };
                let (export, is_own_kind) = match kind {
                    TargetKind::Other => continue,
                    TargetKind::Own(export) => (export.clone(), true),
                    TargetKind::Unbound => (None, false),
                };
                let Some(gvr) = edge.target_gvr() else { continue };
                let on_missing = self.on_missing(edge, &mut reached);
                let (name, namespace) = (reference.name.clone(), reference.namespace.clone());
                let key = TargetKey { gvr: gvr.clone(), is_own_kind, export, namespace, name };
                let (uid, is_old) = (reference.uid.clone(), reference.is_old);
                let checked = CheckedReference { edge: Arc::clone(edge), uid, is_old, on_missing };
                if let Some(target) = indices.get(&key).and_then(|index| self.targets.get_mut(*index)) {
                    target.references.push(checked);
                    continue;
                }
                if self.targets.len() >= MAX_TARGETS {
                    self.record_failure(on_missing, too_many_targets());
                    continue;
                }
                let index = self.targets.len();
                let read = TargetRead::new(key.clone());
                if read.found().is_none() {
                    self.queries.push(PendingQuery::Target(index));
                }
                indices.insert(key, index);
                self.targets.push(CheckedTarget { read, references: vec![checked] });
            }
        }
        self.constraints = constraints;
    }

    /// Returns the outcome if the target of a reference by this edge is not there. In a cycle of edges that refuse,
    /// nothing could be made first, so such an edge only warns.
    fn on_missing(&self, edge: &Arc<CompiledEdge>, reached: &mut HashMap<Node, HashSet<Node>>) -> OnMissing {
        let mut is_cyclic = || {
            let target = self.kinds.target(edge).filter(|_| self.graph.may_close(edge))?;
            let reached = (reached.entry(target.clone()))
                .or_insert_with(|| self.graph.reach(target, |edge| self.kinds.target(edge)));
            Some(reached.contains(&Node::dependent(edge)))
        };
        match edge.on_missing() {
            OnMissing::Deny if is_cyclic().unwrap_or_default() => OnMissing::Warn,
            on_missing => on_missing,
        }
    }

    /// Records a problem of edges with this outcome: a reason to refuse, or only a note.
    fn record_failure(&mut self, on_missing: OnMissing, why: Unresolved) {
        let problems = match (on_missing, self.failure_policy) {
            (OnMissing::Ignore, _) => return,
            (OnMissing::Deny, FailurePolicy::Fail) => &mut self.problems,
            (OnMissing::Deny | OnMissing::Warn, _) => &mut self.diagnostics.problems,
            (OnMissing::Audit, _) => &mut self.diagnostics.audited_problems,
        };
        problems.push(why);
    }

    /// Returns the decision if the references can't be read, by the strictest outcome of the constraints.
    fn undecided(mut self, strictest: OnMissing, why: Unresolved) -> Decision {
        self.constraints.clear();
        self.record_failure(strictest, why);
        self.decide()
    }
}

/// Returns the message for an object that begins to have more references than are checked.
fn too_many_targets() -> Unresolved {
    let why = format!(
        "the object begins to refer to more than {MAX_TARGETS} objects, and depguard reads no more of them at once; add the \
         references in several steps"
    );
    Unresolved::new(Cause::DependentInvalid, why)
}

impl BindingReader for EndsReader<'_> {
    fn observe(&mut self, binding: &Binding<'_>) {
        self.kinds.see(binding);
        for (ends, _) in &mut *self.constraints {
            ends.observe(binding);
        }
    }

    fn reset(&mut self) {
        self.kinds.reset();
        for (ends, _) in &mut *self.constraints {
            ends.reset();
        }
    }
}
