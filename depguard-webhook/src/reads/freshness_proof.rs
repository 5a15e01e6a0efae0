//! Proofs by reads at the moment of a decision, if the watches don't tell enough.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::driver::Evaluating;
use depguard_core::freshness::{Proof, RuleCurrency, Withdrawal};
use depguard_core::protocol::{Cause, Unresolved};
use depguard_core::{Query, Review};
use tokio::time::Instant;

use crate::ports::api_reader::ApiReader;
use crate::reads::bounded_reader::Page;
use crate::reads::driver::{Reads, answer, drive};
use crate::rules::active_rules::{Departed, Doubt};

/// Time limit of a proof: a silent shard must not hold up others. A healthy kcp takes milliseconds.
const PROOF_TIME: Duration = Duration::from_secs(4);

/// Proves that the rules which could forbid the review are loaded in their present state; else returns the reason why
/// this is unknown.
pub(crate) async fn rules_are_current<P: ApiReader>(
    reads: &Reads<P>,
    Doubt { why, known }: &Doubt,
    review: &Review<'_>,
    deadline: Instant,
) -> Result<(), Unresolved> {
    let Some(currency) = RuleCurrency::from_review(Arc::clone(known), review) else {
        return Err(Unresolved::new(Cause::ReviewInvalid, format!("the review names no logical cluster; {why}")));
    };
    let currency = prove(reads, currency, deadline).await;
    currency.outcome().map_err(|unproved| Unresolved::new(unproved.cause(), format!("{unproved} ({why})")))
}

/// Proves that the provider of the object's kind has unbound depguard, where that may be.
pub(crate) async fn provider_has_withdrawn<P: ApiReader>(
    reads: &Reads<P>,
    Departed { own, clusters }: &Departed,
    review: &Review<'_>,
    deadline: Instant,
) -> bool {
    let Some(withdrawal) = Withdrawal::new(review, own.clone(), clusters) else { return false };
    let is_proved = prove(reads, withdrawal, deadline).await.is_proved();
    if is_proved {
        let (group, resource) = (review.group(), review.resource());
        tracing::info!(
            group,
            resource,
            "not protected any more: the provider has unbound depguard; delete its ValidatingWebhookConfiguration \
             dependency-controller"
        );
    }
    is_proved
}

async fn prove<P: ApiReader, C: Proof>(reads: &Reads<P>, proof: C, deadline: Instant) -> C {
    let until = Instant::now().checked_add(PROOF_TIME).map_or(deadline, |end| end.min(deadline));
    let mut proof = RunningProof(proof);
    drive(&mut proof, until, |query| async move {
        let page = reads.gets.get(&query).await;
        (query, page)
    })
    .await;
    proof.0
}

/// Proof that is under way.
struct RunningProof<C>(C);

impl<C: Proof> Evaluating for RunningProof<C> {
    type Due = Query;
    type Done = (Query, Option<Arc<Page>>);

    fn is_settled(&self) -> bool {
        self.0.is_settled()
    }

    fn due(&mut self) -> Vec<Query> {
        self.0.queries()
    }

    fn take(&mut self, (query, page): Self::Done) {
        self.0.answer(query.id, answer(page.as_ref()));
    }
}
