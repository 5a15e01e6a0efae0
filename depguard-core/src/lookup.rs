pub(crate) mod edge_set;
pub(crate) mod list_reader;
pub(crate) mod matcher;
pub(crate) mod planner;
pub(crate) mod reference;
pub(crate) mod reference_reader;
pub(crate) mod referrer_set;
pub(crate) mod required_read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::applicability::teardown_exemption::TeardownExemption;
use crate::lookup::edge_set::EdgeSet;
use crate::lookup::planner::PlannedLookup;
use crate::lookup::reference::Match;
use crate::lookup::referrer_set::{Referrer, ReferrerSet};
use crate::model::api::Strategy;
use crate::protocol::cause::Cause;
use crate::protocol::deletion_target::DeletionTarget;
use crate::protocol::discovery::ServedKind;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::Accept;
use crate::rule::Dependent;
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};
use crate::scan::extract::Item;

pub use list_reader::ListReader;
pub use planner::{Dependents, LookupPlan};
pub use reference::{ObjectReference, ReferenceTarget, ReferencedObject};
pub use reference_reader::ReferenceReader;
pub use required_read::RequiredRead;

/// The most doubts that are kept: one is enough to refuse.
const MAX_DOUBTS: usize = 8;

/// A search among the dependents of one kind, for all edges by which they may refer to one target.
///
/// An [`Evaluation`](crate::Evaluation) hands out a lookup. A [`ListReader`] carries it out, alone or
/// together with other lookups of equal [`dependents`](Self::dependents). The evaluation then takes the lookup back.
#[derive(Debug)]
pub struct Lookup {
    /// Index of the lookup in its evaluation.
    pub(crate) index: usize,
    dependents: Dependents,
    target: Arc<DeletionTarget>,
    edges: Arc<EdgeSet>,
    /// The field by which an API server may select; see [`Self::field`].
    field: Option<String>,
    /// True if a table carries out the lookup.
    tabled: bool,
    found: ReferrerSet,
    /// Objects that refer to the target, unless a version, the first of the key, serves the target by a kind, the second:
    /// then they go with the target. More than one such key makes all of them count.
    unless_served: BTreeMap<(String, String), ReferrerSet>,
    /// Objects that may or may not refer to the target, each with the reason; only the first ones are kept.
    doubts: BTreeSet<String>,
    /// The teardown exemption of these edges. If it covers a doubtful object, the object counts as found: its
    /// namespace then decides about it.
    exemption: Option<TeardownExemption>,
    /// Number of values that have another type than a rule's path asks for: numbers instead of names, for example.
    misfits: usize,
    outcome: Outcome,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Some dependents are still unseen.
    Open,
    /// All dependents were seen, or as many as needed.
    Done,
    /// The dependents could not be read; the end of a sentence that begins with the name of the list.
    Failed(Unresolved),
}

impl Lookup {
    pub(crate) fn new(index: usize, target: &Arc<DeletionTarget>, planned: &PlannedLookup) -> Self {
        let PlannedLookup { edges, exemption, field, .. } = planned;
        Self {
            index,
            dependents: planned.dependents(target),
            target: Arc::clone(target),
            edges: Arc::clone(edges),
            field: field.clone(),
            tabled: false,
            found: ReferrerSet::default(),
            unless_served: BTreeMap::new(),
            doubts: BTreeSet::new(),
            exemption: *exemption,
            misfits: 0,
            outcome: Outcome::Open,
        }
    }

    /// Returns the objects to search.
    pub fn dependents(&self) -> &Dependents {
        &self.dependents
    }

    /// Returns the field by which an API server may select the dependents that refer to the target, if its schema
    /// allows that: `spec.vpcRef.name`. `None` if all dependents must be read.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Returns the fields that hold the names, if an API server may print them, so that a table shows the referrers.
    /// These are plain fields of dependents in one namespace, because a table shows no namespaces. See
    /// [`ListReader::by_table`].
    pub fn columns(&self) -> Option<BTreeSet<String>> {
        let plain = |edge: &Arc<CompiledEdge>| match &edge.state {
            EdgeState::Usable { edge, .. } => edge.selected_by(),
            EdgeState::Invalid(_) => None,
        };
        let fits = self.dependents.namespace.is_some() && self.dependents.accept == Accept::Json;
        if fits { self.edges.edges().iter().map(plain).collect() } else { None }
    }

    /// Returns true if each dependent refers to the target: as many as a message names are enough.
    pub(crate) fn finds_each(&self) -> bool {
        self.edges.edges().iter().any(|edge| match &edge.state {
            EdgeState::Usable { dependent, edge } => {
                let Dependent { export: _, gvr: _, kind: _, selector } = &**dependent;
                selector.is_none() && edge.is_of_each()
            }
            EdgeState::Invalid(_) => false,
        })
    }

    /// Returns the strategy of the search.
    pub fn strategy(&self) -> Strategy {
        match (&self.field, self.tabled) {
            (Some(_), _) => Strategy::FieldSelector,
            (None, true) => Strategy::Table,
            (None, false) => self.dependents.strategy(),
        }
    }

    /// Returns true if the search has ended, successfully or not. Otherwise it must still be carried out.
    pub fn has_ended(&self) -> bool {
        self.outcome != Outcome::Open
    }

    /// Fails the search: its result is unknown. `why` is shown to the user who is refused because of the failure, and
    /// ends with advice.
    pub fn fail(&mut self, why: Unresolved) {
        if !self.has_ended() {
            self.outcome = Outcome::Failed(why);
        }
    }

    pub(crate) fn plan(&self) -> LookupPlan {
        LookupPlan {
            dependents: self.dependents.clone(),
            strategy: self.strategy(),
            field: self.field.clone(),
            rules: Arc::clone(self.edges.rules()),
        }
    }

    pub(crate) fn target(&self) -> &Arc<DeletionTarget> {
        &self.target
    }

    pub(crate) fn edges(&self) -> &EdgeSet {
        &self.edges
    }

    pub(crate) fn failure(&self) -> Option<&Unresolved> {
        match &self.outcome {
            Outcome::Failed(why) => Some(why),
            Outcome::Open | Outcome::Done => None,
        }
    }

    pub(crate) fn referrers(&self) -> &ReferrerSet {
        &self.found
    }

    /// Returns the doubts about single objects, each with advice.
    pub(crate) fn doubts(&self) -> &BTreeSet<String> {
        &self.doubts
    }

    /// Returns the number of values that have another type than a rule's path asks for.
    pub(crate) fn misfits(&self) -> usize {
        self.misfits
    }

    // === Results of a reading ===

    pub(crate) fn take(&mut self, item: &Item<'_, '_>, edge: &Arc<CompiledEdge>, refers: Match) {
        let EdgeState::Usable { dependent, .. } = &edge.state else { return };
        let kind = dependent.kind.as_str().to_owned();
        let namespace = item.namespace();
        let found = Referrer { kind, namespace: namespace.map(str::to_owned), name: item.name().to_owned() };
        match refers {
            Match::No => {}
            Match::Unclear(why) if !self.exemption.is_some_and(|exemption| exemption.covers(namespace)) => {
                if self.doubts.len() < MAX_DOUBTS {
                    self.doubts.insert(format!("{found} {why}"));
                }
            }
            Match::YesUnlessServed { version, kind } => {
                let key = (version, kind);
                let is_kept = self.unless_served.len() < 2 || self.unless_served.contains_key(&key);
                let set = if is_kept { self.unless_served.entry(key).or_default() } else { &mut self.found };
                set.insert(found, edge);
            }
            Match::Yes | Match::Unclear(_) => self.found.insert(found, edge),
        }
    }

    /// Returns the version of the target's group that decides if some of the objects count.
    pub(crate) fn version_to_read(&self) -> Option<&str> {
        let only = self.unless_served.keys().next().filter(|_| self.unless_served.len() == 1);
        only.map(|(version, _)| version.as_str())
    }

    /// Counts the objects that don't go with the target, by the versions that were read. Returns the reason why a version
    /// is unknown.
    pub(crate) fn count_unserved(&mut self, served: &BTreeMap<String, ServedKind>) -> Option<Unresolved> {
        let known = self.version_to_read().and_then(|version| served.get(version)).cloned();
        for ((_, kind), set) in std::mem::take(&mut self.unless_served) {
            if !matches!(&known, Some(Ok(Some(served))) if *served == kind) {
                self.found.extend(set);
            }
        }
        known?.err()
    }

    pub(crate) fn count_misfits(&mut self, misfits: usize) {
        self.misfits += misfits;
    }

    /// Forgets all results, because the list begins again.
    pub(crate) fn forget(&mut self) {
        self.found.clear();
        self.unless_served.clear();
        self.doubts.clear();
        self.misfits = 0;
    }

    /// Searches all dependents, because their kind has no namespaces.
    pub(crate) fn widen(&mut self) {
        self.dependents.namespace = None;
    }

    /// Changes the strategy: all dependents are read.
    pub(crate) fn scan(&mut self) {
        (self.field, self.tabled) = (None, false);
    }

    /// Changes the strategy: the printed columns of all dependents are read.
    pub(crate) fn tabulate(&mut self) {
        if self.columns().is_none() {
            let why = "can't be decided from a table; this is a bug in the webhook, report it";
            self.fail(Unresolved::new(Cause::ReadUnusable, why));
        }
        (self.field, self.tabled) = (None, true);
    }

    /// Ends the search: all dependents were seen.
    pub(crate) fn complete(&mut self) {
        if !self.has_ended() {
            self.outcome = Outcome::Done;
        }
    }

    /// Ends the search early if it found as many referrers as a message can show, and if at least one of them blocks
    /// whatever is torn down.
    pub(crate) fn see_enough(&mut self) {
        if !self.has_ended() && self.found.is_enough() && self.found.blocks_despite(self.exemption) {
            self.found.cut();
            self.outcome = Outcome::Done;
        }
    }
}
