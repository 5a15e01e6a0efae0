//! Decision from the results of the lookups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Bindings, EdgeGroup, InProgress};
use crate::applicability::teardown::TeardownVerdict;
use crate::evaluation::decision::{
    AllowReason, Blocker, Count, Decision, Denial, Reason, Referrers, Subject, Verdict, names,
};
use crate::lookup::Lookup;
use crate::lookup::referrer_set::Referrer;
use crate::model::api::OnDelete;
use crate::model::names::Namespace;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::response_error::unanswered;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};

/// Referrers, each with its edges.
type EdgesByReferrer<'a> = BTreeMap<&'a Referrer, Vec<&'a Arc<CompiledEdge>>>;

impl InProgress {
    pub(super) fn decide(mut self) -> Decision {
        if let Some(refused) = self.outside() {
            return refused;
        }
        let full = self.is_full() && !self.is_idle();
        for reader in std::mem::take(&mut self.readers).into_values() {
            // The referrers found so far count all the same.
            reader.into_lookups().into_iter().for_each(|lookup| self.take_back(lookup));
        }
        self.take_stock(full);
        let subject = Subject::deleted(self.target.kind.clone(), self.target.name.clone());
        let (blocking, let_go) = self.blocking();
        let more = full || self.groups_with(OnDelete::Deny).any(|group| group.found().has_more());
        let by = self.referrers(&blocking, more, &subject);
        let mut named = blocking.keys().copied().collect();
        let warned = self.noticed(OnDelete::Warn, &mut named, &subject);
        let audited = self.noticed(OnDelete::Audit, &mut named, &subject);
        let unread = if self.must_refuse() { Vec::new() } else { self.scopes.unread() };
        let reason = match by {
            Some(by) => Some(Reason::Referenced { by, problems: self.problems, unread }),
            None if self.problems.is_empty() => None,
            None => Some(Reason::Undecided { problems: self.problems }),
        };
        let mut diagnostics = self.diagnostics;
        (diagnostics.warned, diagnostics.audited) = (warned, audited);
        let Some(reason) = reason else {
            let allow_reason = if diagnostics.warned.is_some() {
                AllowReason::Warned
            } else if diagnostics.audited.is_some() {
                AllowReason::Audited
            } else if !(diagnostics.problems.is_empty() && diagnostics.audited_problems.is_empty()) {
                AllowReason::Tolerated
            } else if !self.applies {
                AllowReason::NotBound
            } else if let_go {
                AllowReason::TornDown
            } else {
                AllowReason::Unreferenced
            };
            return Decision::new(Verdict::Allowed(allow_reason), diagnostics);
        };
        Decision::new(Verdict::Denied(Box::new(Denial::new(Some(subject), reason, self.sender))), diagnostics)
    }

    /// Turns everything that is still open into problems.
    fn take_stock(&mut self, full: bool) {
        if !full {
            self.count_unserved();
        }
        let mut troubles = if full { Vec::new() } else { self.unanswered() };
        for EdgeGroup { lookup, on_delete, .. } in &self.groups {
            let doubts = lookup.iter().flat_map(Lookup::doubts);
            troubles.extend(doubts.map(|doubt| (*on_delete, Unresolved::new(Cause::DependentInvalid, doubt))));
        }
        for (on_delete, why) in troubles {
            self.record_failure(on_delete, why);
        }
        for problems in [&mut self.problems, &mut self.diagnostics.problems, &mut self.diagnostics.audited_problems] {
            problems.sort();
            problems.dedup();
        }
        self.diagnostics.misfits = self.groups.iter().filter_map(|group| Some(group.lookup.as_ref()?.misfits())).sum();
        self.diagnostics.lookups = self.groups.iter().map(|group| group.plan.clone()).collect();
    }

    /// Returns the referrers that block, and true if other referrers don't block because they are torn down as well.
    fn blocking(&self) -> (EdgesByReferrer<'_>, bool) {
        let (mut blocking, mut let_go) = (EdgesByReferrer::new(), false);
        let must_refuse = self.must_refuse();
        for group @ EdgeGroup { exemption, .. } in self.groups_with(OnDelete::Deny) {
            let found = group.found();
            let mut active: Vec<_> = found.first().iter().collect();
            if let Some(exemption) = exemption.filter(|_| !must_refuse) {
                if !found.is_empty()
                    && self.scopes.scope_verdict(exemption, found.namespaces()) == TeardownVerdict::Terminating
                {
                    let_go = true;
                    continue;
                }
                let stands = |object: &Referrer| !self.scopes.is_terminating(exemption, object.namespace.as_deref());
                // If none of the kept referrers remains, one that was not kept does.
                if active.iter().any(|(object, _)| stands(object)) {
                    active.retain(|(object, _)| stands(object));
                }
            }
            for (object, edges) in active {
                blocking.entry(object).or_default().extend(edges);
            }
        }
        (blocking, let_go)
    }

    /// Returns the referrers by edges that don't refuse, without those already in `named`.
    fn noticed<'a>(
        &'a self,
        on_delete: OnDelete,
        named: &mut BTreeSet<&'a Referrer>,
        subject: &Subject,
    ) -> Option<Referrers> {
        let mut noticed = EdgesByReferrer::new();
        for group in self.groups_with(on_delete) {
            for (object, edges) in group.found().first().iter().filter(|(object, _)| !named.contains(object)) {
                noticed.entry(object).or_default().extend(edges);
            }
        }
        named.extend(noticed.keys());
        let more = self.groups_with(on_delete).any(|group| group.found().has_more());
        self.referrers(&noticed, more, subject)
    }

    fn referrers(&self, referring: &EdgesByReferrer<'_>, more: bool, subject: &Subject) -> Option<Referrers> {
        if referring.is_empty() {
            return None;
        }
        let count = if more { Count::AtLeast(referring.len()) } else { Count::Exactly(referring.len()) };
        let blockers = referring.iter().filter_map(|(object, edges)| self.blocker(object, edges)).collect();
        let rules: BTreeSet<_> = referring.values().flatten().map(|edge| &edge.rule).collect();
        let rules = rules.into_iter().cloned().collect();
        Some(Referrers { blockers, count, rules, messages: self.messages(referring, subject) })
    }

    /// Returns the additional messages of the edges, each about the referrers of its edge.
    fn messages(&self, referring: &EdgesByReferrer<'_>, subject: &Subject) -> Vec<String> {
        let mut by_edge: Vec<(&Arc<CompiledEdge>, Vec<Blocker>)> = Vec::new();
        for (object, edges) in referring {
            for edge in edges.iter().filter(|edge| edge.message().is_some()) {
                let blocker = self.blocker(object, &[edge]);
                match by_edge.iter_mut().find(|(known, _)| Arc::ptr_eq(known, edge)) {
                    Some((_, blockers)) => blockers.extend(blocker),
                    None => by_edge.push((edge, blocker.into_iter().collect())),
                }
            }
        }
        let rendered = by_edge.iter().filter_map(|(edge, blockers)| {
            let names = names(blockers, Count::Exactly(blockers.len()));
            Some(edge.message()?.render(&subject.to_string(), &names, &edge.rule.name))
        });
        let mut messages: Vec<_> = rendered.collect();
        messages.sort();
        messages.dedup();
        messages
    }

    fn blocker(&self, object: &Referrer, edges: &[&Arc<CompiledEdge>]) -> Option<Blocker> {
        let edge = edges.first()?;
        let own = self.target.namespace.as_ref().map(Namespace::as_str);
        let field = match &edge.state {
            EdgeState::Usable { edge, .. } => edge.field(),
            EdgeState::Invalid(_) => String::new(),
        };
        Some(Blocker {
            kind: object.kind.clone(),
            namespace: object.namespace.clone().filter(|namespace| own != Some(namespace)),
            name: object.name.clone(),
            field,
            rule: edge.rule.clone(),
        })
    }

    /// Returns the problems of lists without an answer. (A scope without an answer has a problem of its own.)
    fn unanswered(&self) -> Vec<(OnDelete, Unresolved)> {
        let bindings = self.bindings.iter().map(|Bindings { on_delete, .. }| {
            (*on_delete, unanswered().about(format_args!("the list of apibindings{}", self.place(None))))
        });
        let open = self.groups.iter().filter(|group| !group.lookup.as_ref().is_some_and(Lookup::has_ended));
        let lists = open.map(|group| (group.on_delete, self.could_not_list(&group.plan.dependents, unanswered())));
        bindings.chain(lists).collect()
    }
}
