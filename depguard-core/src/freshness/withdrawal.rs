//! Proof that a provider has withdrawn: it had bound depguard, and has unbound depguard.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Proof;
use super::presence::{Presence, Read, Step};
use crate::model::names::{ExportName, LogicalCluster};
use crate::protocol::admission_review::Review;
use crate::protocol::query_queue::QueryQueue;
use crate::protocol::request::{Query, QueryId};
use crate::protocol::response::Answer;

/// Proof that the provider of a review's kind has unbound depguard.
///
/// A provider that unbinds depguard withdraws its consent, but the installed objects may stay in its workspace, and
/// API servers go on asking. Two facts are proved, each by the logical cluster concerned: the object's kind is bound
/// from the provider, and the provider exists and has no APIBinding of depguard. An APIBinding that is being deleted
/// still counts. A missing or unexpected answer proves nothing.
#[derive(Debug)]
pub struct Withdrawal {
    own: (LogicalCluster, ExportName),
    suspects: Arc<BTreeSet<LogicalCluster>>,
    kind: (String, String),
    consumer: Presence,
    providers: BTreeSet<LogicalCluster>,
    provider: Option<Presence>,
    /// Each read, with `true` for a read of the provider and `false` for a read of the consumer.
    reads: QueryQueue<(bool, Read)>,
    outcome: Option<bool>,
}

impl Withdrawal {
    /// Begins a proof for a review. `own` is depguard's APIExport; `suspects` are the logical clusters that had bound
    /// it, and show no APIBinding of it any more. `None` if there are no suspects, or if the review doesn't name its
    /// logical cluster.
    pub fn new(
        review: &Review<'_>,
        own: (LogicalCluster, ExportName),
        suspects: &Arc<BTreeSet<LogicalCluster>>,
    ) -> Option<Self> {
        let cluster = LogicalCluster::parse(review.cluster()?).ok()?;
        let kind = (review.group().to_owned(), review.resource().to_owned());
        if suspects.is_empty() {
            return None;
        }
        let mut reads = QueryQueue::new();
        reads.push((false, Read::Bindings));
        reads.push((false, Read::Itself));
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

    /// Returns true if the withdrawal is proved.
    pub fn is_proved(&self) -> bool {
        self.outcome == Some(true)
    }

    fn advance(&mut self) {
        if let Some(provider) = &self.provider {
            self.outcome = provider.binds().map(|binds| !binds).or(self.outcome);
        } else if self.consumer.binds().is_some() {
            // If two providers are bound, the owner of the object is unknown.
            match (self.providers.pop_first(), self.providers.is_empty()) {
                (Some(provider), true) if self.suspects.contains(&provider) => {
                    self.provider = Some(Presence::new(provider));
                    self.reads.push((true, Read::Bindings));
                    self.reads.push((true, Read::Itself));
                }
                _ => self.outcome = Some(false),
            }
        }
    }
}

impl Proof for Withdrawal {
    fn queries(&mut self) -> Vec<Query> {
        let Self { reads, consumer, provider, .. } = self;
        reads.hand_out(|id, (of_provider, read)| {
            let presence = if *of_provider { provider.as_ref()? } else { &*consumer };
            Some(presence.query(id, *read))
        })
    }

    fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        let Some((of_provider, read)) = self.reads.take(id) else { return };
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
            Ok(Step::Done) => self.advance(),
            Ok(step) => {
                if step == Step::Restart && !of_provider {
                    self.providers.clear();
                }
                self.reads.push((of_provider, read));
            }
        }
    }

    fn is_settled(&self) -> bool {
        self.outcome.is_some()
    }
}
