//! Whether a provider has withdrawn: it had bound depguard, and has unbound it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::presence::{Presence, Read, Step};
use crate::names::{ExportName, LogicalCluster};
use crate::query::{Answer, Query, QueryId};
use crate::review::Review;

/// Proof that the provider of a review's kind has unbound depguard.
///
/// A provider that unbinds depguard takes its consent back, but what was installed in its workspace may stay there, and
/// API servers go on asking. Two things are proved, each by the logical cluster that it is about: that the object's kind
/// is bound from the provider, and that the provider is there and has no APIBinding of depguard. An APIBinding that is
/// being deleted is one still. Whatever is not answered, or otherwise than expected, proves nothing.
#[derive(Debug)]
pub struct Withdrawal {
    own: (LogicalCluster, ExportName),
    suspects: Arc<BTreeSet<LogicalCluster>>,
    kind: (String, String),
    consumer: Presence,
    providers: BTreeSet<LogicalCluster>,
    provider: Option<Presence>,
    reads: Reads,
    outcome: Option<bool>,
}

#[derive(Debug, Default)]
struct Reads {
    open: BTreeMap<QueryId, (bool, Read)>,
    ready: VecDeque<(bool, Read)>,
    next: usize,
}

impl Withdrawal {
    /// Begins for a review. `own` is depguard's APIExport; `suspects` are the logical clusters that had bound it, and
    /// show no APIBinding of it any more. `None`: none of them can matter.
    pub fn of(
        review: &Review<'_>,
        own: (LogicalCluster, ExportName),
        suspects: &Arc<BTreeSet<LogicalCluster>>,
    ) -> Option<Self> {
        let cluster = LogicalCluster::parse(review.old_object()?.cluster()?).ok()?;
        let kind = (review.group().to_owned(), review.resource().to_owned());
        if suspects.is_empty() {
            return None;
        }
        let reads =
            Reads { ready: VecDeque::from([(false, Read::Bindings), (false, Read::Itself)]), ..Reads::default() };
        Some(Self {
            own,
            suspects: Arc::clone(suspects),
            kind,
            consumer: Presence::new(cluster),
            providers: BTreeSet::new(),
            provider: None,
            reads,
            outcome: None,
        })
    }

    /// Queries to ask now, each once.
    pub fn queries(&mut self) -> Vec<Query> {
        let mut queries = Vec::new();
        while let Some((of_provider, read)) = self.reads.ready.pop_front() {
            let id = QueryId(self.reads.next);
            let presence = if of_provider { self.provider.as_ref() } else { Some(&self.consumer) };
            if let Some(presence) = presence {
                self.reads.next += 1;
                queries.push(presence.query(id, read));
                self.reads.open.insert(id, (of_provider, read));
            }
        }
        queries
    }

    /// Takes the answer to a query.
    pub fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        let Some((of_provider, read)) = self.reads.open.remove(&id) else { return };
        let step = if of_provider {
            let Some(provider) = &mut self.provider else { return };
            provider.answer(read, &self.own, answer, |_| {})
        } else {
            let (kind, providers) = ((self.kind.0.as_str(), self.kind.1.as_str()), &mut self.providers);
            self.consumer.answer(read, &self.own, answer, |binding| {
                if binding.bound().any(|bound| bound == kind) {
                    let provider = binding.provider().and_then(|provider| LogicalCluster::parse(provider).ok());
                    providers.extend(provider);
                }
            })
        };
        match step {
            Err(_) => self.outcome = Some(false),
            Ok(Step::Done) => self.go_on(),
            Ok(step) => {
                if step == Step::Restart && !of_provider {
                    self.providers.clear();
                }
                self.reads.ready.push_back((of_provider, read));
            }
        }
    }

    /// Tells if nothing more can be proved.
    pub fn is_settled(&self) -> bool {
        self.outcome.is_some()
    }

    /// Tells if the withdrawal is proved.
    pub fn is_proved(&self) -> bool {
        self.outcome == Some(true)
    }

    fn go_on(&mut self) {
        if let Some(provider) = &self.provider {
            self.outcome = provider.binds().map(|binds| !binds).or(self.outcome);
        } else if self.consumer.binds().is_some() {
            // Bound from two, nobody knows whose the object is.
            match (self.providers.pop_first(), self.providers.is_empty()) {
                (Some(provider), true) if self.suspects.contains(&provider) => {
                    self.provider = Some(Presence::new(provider));
                    self.reads.ready.extend([(true, Read::Bindings), (true, Read::Itself)]);
                }
                _ => self.outcome = Some(false),
            }
        }
    }
}
