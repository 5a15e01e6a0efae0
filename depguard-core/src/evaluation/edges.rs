//! Edges that apply to the target, and their lookups.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Bindings, EdgeGroup, InProgress, PendingQuery};
use crate::applicability::api_bindings::Binding;
use crate::applicability::bindings_list::BindingReader;
use crate::applicability::bound_kinds::BoundKinds;
use crate::applicability::caller_scope::CallerScope;
use crate::applicability::candidates::Candidates;
use crate::applicability::teardown_exemption::{TeardownExemption, Unbinding};
use crate::lookup::Lookup;
use crate::lookup::planner::PlannedEdge;
use crate::model::api::OnDelete;
use crate::model::names::GroupResource;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::response::Answer;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState, Reach};
use crate::rule::cycles::Node;

/// Reader of the bindings for a deletion: the ends of its edges, and the scope of the caller.
struct EndsReader<'p> {
    /// `None` if no edge may lie on a cycle.
    kinds: Option<&'p mut BoundKinds>,
    caller_scope: Option<&'p mut CallerScope>,
    kind: &'p GroupResource,
    candidates: &'p mut Candidates,
}

impl BindingReader for EndsReader<'_> {
    fn observe(&mut self, binding: &Binding<'_>) {
        if let Some(kinds) = &mut self.kinds {
            kinds.see(binding);
        }
        if let Some(caller_scope) = &mut self.caller_scope {
            caller_scope.observe(binding, self.kind);
        }
        self.candidates.observe(binding);
    }

    fn reset(&mut self) {
        if let Some(kinds) = &mut self.kinds {
            kinds.reset();
        }
        if let Some(caller_scope) = &mut self.caller_scope {
            caller_scope.reset();
        }
        self.candidates.reset();
    }
}

impl InProgress {
    /// Takes a page of the bindings. After the last page, begins the lookups of the edges that apply.
    pub(super) fn answer_bindings(&mut self, answer: Answer<'_>) {
        let Self { bindings: Some(bindings), kinds, caller_scope, target, .. } = self else { return };
        let Bindings { list, candidates, cyclic, on_delete } = bindings;
        let mut reader = EndsReader {
            kinds: cyclic.then_some(kinds),
            caller_scope: caller_scope.as_mut(),
            kind: &target.kind,
            candidates,
        };
        let Some(outcome) = list.answer(answer, &mut reader) else {
            return self.queries.push(PendingQuery::Bindings);
        };
        let (candidates, on_delete) = (std::mem::take(candidates), *on_delete);
        self.bindings = None;
        if let Err(why) = outcome {
            let place = self.place(None);
            // Edges that need no binding are looked up all the same: they may yield a blocker.
            self.record_failure(on_delete, why.about(format_args!("the list of apibindings{place}")));
        } else if !self.stays_in_scope() {
            return;
        } else {
            #[cfg(feature = "interlock")]
            self.bearing.observe(&candidates);
        }
        self.begin_lookups(&candidates);
    }

    /// Plans the lookups of edges that apply.
    pub(super) fn begin_lookups(&mut self, candidates: &Candidates) {
        let mut planned = Vec::new();
        let mut reached = HashMap::new();
        for edge in candidates.applying() {
            self.applies = true;
            let in_namespace = match edge.reach(&self.target) {
                Reach::Nowhere => continue,
                Reach::Namespace => true,
                Reach::Everywhere => false,
            };
            if let EdgeState::Invalid(error) = &edge.state {
                let why = format!("rule {} can't be evaluated: {error}; correct or delete the rule", edge.rule);
                self.record_failure(edge.on_delete, Unresolved::new(Cause::RuleInvalid, why));
                continue;
            }
            let exemption = if edge.on_delete != OnDelete::Deny {
                None
            } else if let Some(unbinding) = self.cycle(edge, &mut reached) {
                Some(TeardownExemption::Cycle(unbinding))
            } else {
                edge.is_kept_last(&self.target).then_some(TeardownExemption::KeptLast)
            };
            planned.push(PlannedEdge { edge: Arc::clone(edge), in_namespace, exemption });
        }
        for planned in self.plans.plan(planned).iter() {
            let (on_delete, exemption) = (planned.on_delete, planned.exemption);
            let lookup = Lookup::new(self.groups.len(), &self.target, planned);
            self.groups.push(EdgeGroup { plan: lookup.plan(), on_delete, exemption, lookup: None });
            self.due.push(lookup);
        }
    }

    /// Returns the state of the edge's ends if the edge, which applies, lies on a cycle of edges that all apply here.
    fn cycle(&self, edge: &Arc<CompiledEdge>, reached: &mut HashMap<Node, HashSet<Node>>) -> Option<Unbinding> {
        if !self.graph.may_close(edge) {
            return None;
        }
        let (dependent, target) = (Node::dependent(edge), self.kinds.target(edge)?);
        let reached = (reached.entry(target.clone()))
            .or_insert_with(|| self.graph.reach(target.clone(), |edge| self.kinds.target(edge)));
        reached.contains(&dependent).then(|| Unbinding {
            dependent: self.kinds.is_unbinding(&dependent),
            target: self.kinds.is_unbinding(&target),
        })
    }

    /// Returns true if the edge, between local kinds, may lie on a cycle with exported kinds. Only bindings show such
    /// a cycle.
    pub(super) fn leads_to_exports(&self, edge: &Arc<CompiledEdge>) -> bool {
        let mut exported = false;
        if self.graph.may_close(edge)
            && let Some(target) = self.kinds.target(edge)
        {
            self.graph.reach(target, |edge| {
                exported |= edge.target_export.is_some();
                self.kinds.target(edge)
            });
        }
        exported
    }
}
