//! From what was found to a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Asking, Bindings, Search};
use crate::answers::UNANSWERED;
use crate::api::OnDelete;
use crate::decision::{Because, Blocker, Count, Decision, Denial, Reason, Referrers, Ruling, Subject, names};
use crate::found::Found;
use crate::lookup::Lookup;
use crate::names::Namespace;
use crate::ruleset::{Check, IndexedEdge};
use crate::scopes::Verdict;

/// What was found, and by which edges.
type Referring<'a> = BTreeMap<&'a Found, Vec<&'a Arc<IndexedEdge>>>;

impl Asking {
    pub(super) fn decide(mut self) -> Decision {
        if let Some(refused) = self.outside() {
            return refused;
        }
        let full = self.is_full() && !self.is_idle();
        for reading in std::mem::take(&mut self.readings).into_values() {
            // What they found so far is true all the same.
            reading.into_lookups().into_iter().for_each(|lookup| self.take_back(lookup));
        }
        self.take_stock(full);
        let subject = Subject { kind: self.target.kind.clone(), name: self.target.name.clone() };
        let (blocking, let_go) = self.blocking();
        let more = full || self.of(OnDelete::Deny).any(|search| search.found().has_more());
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
        let mut notes = self.notes;
        (notes.warned, notes.audited) = (warned, audited);
        let Some(reason) = reason else {
            let because = if notes.warned.is_some() {
                Because::Warned
            } else if notes.audited.is_some() {
                Because::Audited
            } else if !(notes.problems.is_empty() && notes.audited_problems.is_empty()) {
                Because::Tolerated
            } else if !self.bears {
                Because::NotBound
            } else if let_go {
                Because::TornDown
            } else {
                Because::Unreferenced
            };
            return Decision::new(Ruling::Allowed(because), notes);
        };
        Decision::new(Ruling::Denied(Box::new(Denial::new(Some(subject), reason, self.refusal))), notes)
    }

    /// What is still open can't be found out any more.
    fn take_stock(&mut self, full: bool) {
        let mut troubles = if full { Vec::new() } else { self.unanswered() };
        for Search { lookup, on_delete, .. } in &self.searches {
            let doubts = lookup.iter().flat_map(Lookup::doubts);
            troubles.extend(doubts.map(|doubt| (*on_delete, doubt.clone())));
        }
        for (on_delete, why) in troubles {
            self.trouble(on_delete, why);
        }
        for problems in [&mut self.problems, &mut self.notes.problems, &mut self.notes.audited_problems] {
            problems.sort();
            problems.dedup();
        }
        self.notes.misfits = self.searches.iter().filter_map(|search| Some(search.lookup.as_ref()?.misfits())).sum();
        self.notes.lookups = self.searches.iter().map(|search| search.planned.clone()).collect();
    }

    /// What was found and blocks, and whether something was found that doesn't since it is torn down as well.
    fn blocking(&self) -> (Referring<'_>, bool) {
        let (mut blocking, mut let_go) = (Referring::new(), false);
        let must_refuse = self.must_refuse();
        for search @ Search { release, .. } in self.of(OnDelete::Deny) {
            let found = search.found();
            let mut standing: Vec<_> = found.first().iter().collect();
            if let Some(release) = release.filter(|_| !must_refuse) {
                if !found.is_empty() && self.scopes.judge(release, found) == Verdict::Going {
                    let_go = true;
                    continue;
                }
                let stands = |object: &Found| !self.scopes.is_going(release, object.namespace.as_deref());
                // Of those that were not kept some stand, if none of the others does.
                if standing.iter().any(|(object, _)| stands(object)) {
                    standing.retain(|(object, _)| stands(object));
                }
            }
            for (object, edges) in standing {
                blocking.entry(object).or_default().extend(edges);
            }
        }
        (blocking, let_go)
    }

    /// Who refers to the target by edges that don't refuse, but for those that were `named` for more.
    fn noticed<'a>(
        &'a self,
        on_delete: OnDelete,
        named: &mut BTreeSet<&'a Found>,
        subject: &Subject,
    ) -> Option<Referrers> {
        let mut noticed = Referring::new();
        for search in self.of(on_delete) {
            for (object, edges) in search.found().first().iter().filter(|(object, _)| !named.contains(object)) {
                noticed.entry(object).or_default().extend(edges);
            }
        }
        named.extend(noticed.keys());
        let more = self.of(on_delete).any(|search| search.found().has_more());
        self.referrers(&noticed, more, subject)
    }

    fn referrers(&self, referring: &Referring<'_>, more: bool, subject: &Subject) -> Option<Referrers> {
        if referring.is_empty() {
            return None;
        }
        let count = if more { Count::AtLeast(referring.len()) } else { Count::Exactly(referring.len()) };
        let blockers = referring.iter().filter_map(|(object, edges)| self.blocker(object, edges)).collect();
        let rules: BTreeSet<_> = referring.values().flatten().map(|edge| &edge.rule).collect();
        let rules = rules.into_iter().cloned().collect();
        Some(Referrers { blockers, count, rules, messages: self.messages(referring, subject) })
    }

    /// What the edges want said, each about those that it found.
    fn messages(&self, referring: &Referring<'_>, subject: &Subject) -> Vec<String> {
        let mut by_edge: Vec<(&Arc<IndexedEdge>, Vec<Blocker>)> = Vec::new();
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

    fn blocker(&self, object: &Found, edges: &[&Arc<IndexedEdge>]) -> Option<Blocker> {
        let edge = edges.first()?;
        let own = self.target.namespace.as_ref().map(Namespace::as_str);
        let field = match &edge.check {
            Check::Follow { edge, .. } => edge.field(),
            Check::Broken(_) => String::new(),
        };
        Some(Blocker {
            kind: object.kind.clone(),
            namespace: object.namespace.clone().filter(|namespace| own != Some(namespace)),
            name: object.name.clone(),
            field,
            rule: edge.rule.clone(),
        })
    }

    /// What lists that were not answered leave open. (A scope that was not answered says so itself.)
    fn unanswered(&self) -> Vec<(OnDelete, String)> {
        let bindings = self.bindings.iter().map(|Bindings { on_delete, .. }| {
            (*on_delete, format!("the list of apibindings{} {UNANSWERED}", self.place(None)))
        });
        let open = self.searches.iter().filter(|search| !search.lookup.as_ref().is_some_and(Lookup::has_ended));
        let lists = open.map(|search| (search.on_delete, self.could_not_list(&search.planned.dependents, UNANSWERED)));
        bindings.chain(lists).collect()
    }
}
