//! Which edges bear on the target, and what is looked up for those that do.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Asked, Asking, Bindings, Search};
use crate::api::OnDelete;
use crate::bearing::Candidate;
use crate::bindings;
use crate::graph::Node;
use crate::listing::Progress;
use crate::lookup::Lookup;
use crate::plan::{self, Wanted};
use crate::query::Answer;
use crate::ruleset::{Check, IndexedEdge, Reach};
use crate::scopes::{Release, Unbinding};

impl Asking {
    /// Takes a page of the bindings; after the last one, looks for dependents of the edges that bear.
    pub(super) fn answer_bindings(&mut self, answer: Answer<'_>) {
        let Some(Bindings { listing, candidates, cyclic, on_delete }) = &mut self.bindings else { return };
        let progress = listing.answer(answer, |body| {
            bindings::read_page(body, |binding| {
                if *cyclic {
                    self.kinds.see(binding);
                }
                if let Some(bounds) = &mut self.bounds {
                    bounds.see(binding, &self.target.kind);
                }
                for candidate in candidates.iter_mut() {
                    candidate.see(binding);
                }
            })
        });
        let failed = match progress {
            Progress::More => return self.ready.push_back(Asked::Bindings),
            Progress::Restart => {
                self.kinds.reset();
                if let Some(bounds) = &mut self.bounds {
                    bounds.reset();
                }
                for candidate in candidates {
                    candidate.reset();
                }
                return self.ready.push_back(Asked::Bindings);
            }
            Progress::Complete => None,
            Progress::NotFound => {
                Some("failed with HTTP 404; make sure that this is a kcp, or run with --home kubernetes".to_owned())
            }
            Progress::Failed(why) => Some(why),
        };
        let (candidates, on_delete) = (std::mem::take(candidates), *on_delete);
        self.bindings = None;
        match failed {
            None if !self.keeps_bounds() => {}
            None => self.begin_lookups(candidates.into_iter().filter(Candidate::bears).collect()),
            Some(why) => {
                let place = self.place(None);
                self.trouble(on_delete, format!("the list of apibindings{place} {why}"));
                // What needs no binding is looked up all the same: it may name a blocker.
                self.begin_lookups(candidates.into_iter().filter(Candidate::bears).collect());
            }
        }
    }

    /// Plans who is looked for, for edges that bear.
    pub(super) fn begin_lookups(&mut self, candidates: Vec<Candidate>) {
        let mut wanted = Vec::new();
        let mut reached = HashMap::new();
        self.bears |= !candidates.is_empty();
        for candidate in candidates {
            let edge = &candidate.edge;
            let namespace = match edge.reach(&self.target) {
                Reach::Nowhere => continue,
                Reach::Namespace => self.target.namespace.clone(),
                Reach::Everywhere => None,
            };
            if let Check::Broken(error) = &edge.check {
                let why = format!("rule {} can't be evaluated: {error}; correct or delete the rule", edge.rule);
                self.trouble(edge.on_delete, why);
                continue;
            }
            let provider = edge.dependent_export.clone().and_then(|export| Some((edge.rule.cluster.clone()?, export)));
            let release = match self.cycle(edge, &mut reached) {
                _ if edge.on_delete != OnDelete::Deny => None,
                Some(unbinding) => Some(Release::Cycle(unbinding)),
                None => candidate.is_kept_last(&self.target).then_some(Release::KeptLast),
            };
            wanted.push(Wanted { export: provider, namespace, edge: Arc::clone(edge), release });
        }
        for step in plan::plan(self.target.cluster.as_ref(), wanted) {
            let (on_delete, release) = (step.on_delete, step.release);
            let lookup = Lookup::new(self.searches.len(), &self.target, step);
            self.searches.push(Search { planned: lookup.planned(), on_delete, release, lookup: None });
            self.due.push(lookup);
        }
    }

    /// Whether the edge, which bears, lies on a cycle of edges that all bear here.
    fn cycle(&self, edge: &Arc<IndexedEdge>, reached: &mut HashMap<Node, HashSet<Node>>) -> Option<Unbinding> {
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

    /// Whether the edge, between local kinds, may lie on a cycle with exported ones, of which only bindings tell.
    pub(super) fn leads_to_exports(&self, edge: &Arc<IndexedEdge>) -> bool {
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
