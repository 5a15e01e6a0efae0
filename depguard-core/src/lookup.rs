//! Who refers to one target, among the dependents of one kind: what is searched for, and what was found.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::Strategy;
use crate::extract::Item;
use crate::found::{Findings, Found};
use crate::plan::{Dependents, Planned, Step};
use crate::query::Accept;
use crate::references::Refers;
use crate::ruleset::{Check, IndexedEdge};
use crate::scopes::Release;
use crate::target::Target;

/// The most doubts that are kept: one is enough to refuse.
const MOST_DOUBTS: usize = 8;

/// A search through the dependents of one kind, for all edges by which they may refer to one target.
///
/// An [`Evaluation`](crate::Evaluation) hands it out; a [`Reading`](crate::Reading), alone or together with others' lookups
/// of equal [`dependents`](Self::dependents), carries it out; the evaluation takes it back.
#[derive(Debug)]
pub struct Lookup {
    /// Which of its evaluation's.
    pub(crate) index: usize,
    dependents: Dependents,
    target: Arc<Target>,
    edges: Vec<Arc<IndexedEdge>>,
    /// The field that an API server may be asked for; see [`Self::field`].
    field: Option<String>,
    /// Whether it is carried out by a table.
    tabled: bool,
    found: Findings,
    /// Where it could not be told whether an object refers to the target; the first of them.
    doubts: BTreeSet<String>,
    /// Where this lets go what was found, a doubtful object is one of those: where it lies tells what becomes of it.
    release: Option<Release>,
    /// How many values stood where a name was looked for and were none.
    misfits: usize,
    outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Not all dependents were seen yet.
    Open,
    /// All were, or as many as matter.
    Done,
    /// They could not be; the end of a sentence that begins with what was listed.
    Failed(String),
}

impl Lookup {
    pub(crate) fn new(index: usize, target: &Arc<Target>, step: Step) -> Self {
        let Step { dependents, edges, release, field, .. } = step;
        Self {
            index,
            dependents,
            target: Arc::clone(target),
            edges,
            field,
            tabled: false,
            found: Findings::default(),
            doubts: BTreeSet::new(),
            release,
            misfits: 0,
            outcome: Outcome::Open,
        }
    }

    /// Which objects are looked through.
    pub fn dependents(&self) -> &Dependents {
        &self.dependents
    }

    /// The field by whose value an API server may be asked for those who refer to the target, if it can select by that:
    /// `spec.vpcRef.name`. `None` where all dependents must be read.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// The fields that hold the names, where an API server may print them, so that a table tells who refers to the target:
    /// plain ones, of dependents in one namespace, since a table shows none. See
    /// [`Reading::tabling`](crate::Reading::tabling).
    pub fn columns(&self) -> Option<BTreeSet<String>> {
        let plain = |edge: &Arc<IndexedEdge>| match &edge.check {
            Check::Follow { edge, .. } => edge.selected_by(),
            Check::Broken(_) => None,
        };
        let fits = self.dependents.namespace.is_some() && self.dependents.accept == Accept::Json;
        if fits { self.edges.iter().map(plain).collect() } else { None }
    }

    /// In which way the dependents are searched.
    pub fn strategy(&self) -> Strategy {
        match (&self.field, self.tabled) {
            (Some(_), _) => Strategy::FieldSelector,
            (None, true) => Strategy::Table,
            (None, false) => self.dependents.strategy(),
        }
    }

    /// Whether the search has ended, well or not. One that has not must still be carried out.
    pub fn has_ended(&self) -> bool {
        self.outcome != Outcome::Open
    }

    /// Gives it up: what it was to find out can't be known. `why` is shown to whoever is refused for it, and ends in what
    /// to do.
    pub fn fail(&mut self, why: impl Into<String>) {
        if !self.has_ended() {
            self.outcome = Outcome::Failed(why.into());
        }
    }

    pub(crate) fn planned(&self) -> Planned {
        let rules: BTreeSet<_> = self.edges.iter().map(|edge| edge.rule.clone()).collect();
        Planned {
            dependents: self.dependents.clone(),
            strategy: self.strategy(),
            field: self.field.clone(),
            rules: rules.into_iter().collect(),
        }
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    pub(crate) fn edges(&self) -> &[Arc<IndexedEdge>] {
        &self.edges
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Failed(why) => Some(why),
            Outcome::Open | Outcome::Done => None,
        }
    }

    pub(crate) fn found(&self) -> &Findings {
        &self.found
    }

    /// What could not be told of some objects, and what to do.
    pub(crate) fn doubts(&self) -> &BTreeSet<String> {
        &self.doubts
    }

    /// How many values stood where a name was looked for and were none.
    pub(crate) fn misfits(&self) -> usize {
        self.misfits
    }

    // === What a reading finds ===

    pub(crate) fn take(&mut self, item: &Item<'_, '_>, edge: &Arc<IndexedEdge>, refers: Refers) {
        let Check::Follow { dependent, .. } = &edge.check else { return };
        let kind = dependent.kind.as_str().to_owned();
        let namespace = item.namespace();
        let found = Found { kind, namespace: namespace.map(str::to_owned), name: item.name().to_owned() };
        match refers {
            Refers::No => {}
            Refers::Unclear(why) if !self.release.is_some_and(|release| release.covers(namespace)) => {
                if self.doubts.len() < MOST_DOUBTS {
                    self.doubts.insert(format!("{found} {why}"));
                }
            }
            Refers::Yes | Refers::Unclear(_) => self.found.insert(found, edge),
        }
    }

    pub(crate) fn count_misfits(&mut self, misfits: usize) {
        self.misfits += misfits;
    }

    /// The list begins anew.
    pub(crate) fn forget(&mut self) {
        self.found.clear();
        self.doubts.clear();
        self.misfits = 0;
    }

    /// There are no namespaces to list in: all dependents are listed.
    pub(crate) fn widen(&mut self) {
        self.dependents.namespace = None;
    }

    /// All dependents are read.
    pub(crate) fn scan(&mut self) {
        (self.field, self.tabled) = (None, false);
    }

    /// What is printed of all dependents is read.
    pub(crate) fn tabulate(&mut self) {
        if self.columns().is_none() {
            self.fail("cannot be told from a table; this is a mistake in the webhook, report it");
        }
        (self.field, self.tabled) = (None, true);
    }

    /// All dependents were seen.
    pub(crate) fn complete(&mut self) {
        if !self.has_ended() {
            self.outcome = Outcome::Done;
        }
    }

    /// Some dependents were seen, and there are more; ends where those that were found are as many as anybody is told
    /// of, and block wherever they lie.
    pub(crate) fn see_enough(&mut self) {
        let stays = match self.release {
            None => true,
            Some(Release::KeptLast) => !self.found.lie_in_no_namespace(),
            Some(Release::Cycle(_)) => false,
        };
        if !self.has_ended() && stays && self.found.is_enough() {
            self.found.cut();
            self.outcome = Outcome::Done;
        }
    }
}
