//! Proofs by reads at the moment of a decision, where what is watched does not tell.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::{Query, Review, RuleCurrency, Withdrawal};
use tokio::time::Instant;

use crate::driver::{Asking, Reads, answer, drive};
use crate::port::Port;
use crate::rules::{Departed, Doubt};
use crate::source::Page;

/// Time limit of a proof: a shard that says nothing shall not hold on to what others wait for. A kcp that is well takes
/// milliseconds.
const PROOF_TIME: Duration = Duration::from_secs(4);

/// Proves that the rules which could forbid this are loaded as they are now; or says why that can't be told.
pub(crate) async fn rules_are_current<P: Port>(
    reads: &Reads<P>,
    Doubt { why, known }: &Doubt,
    review: &Review<'_>,
    deadline: Instant,
) -> Result<(), String> {
    let Some(currency) = RuleCurrency::of(Arc::clone(known), review) else {
        return Err(format!("the review does not say its logical cluster; {why}"));
    };
    let currency = prove(reads, currency, deadline).await;
    currency.outcome().map_err(|unproved| format!("{unproved} ({why})"))
}

/// Proves that the provider of the object's kind has unbound depguard, where that may be.
pub(crate) async fn provider_has_withdrawn<P: Port>(
    reads: &Reads<P>,
    Departed { own, clusters }: &Departed,
    review: &Review<'_>,
    deadline: Instant,
) -> bool {
    let Some(withdrawal) = Withdrawal::of(review, own.clone(), clusters) else { return false };
    let is_proved = prove(reads, withdrawal, deadline).await.is_proved();
    if is_proved {
        let (group, resource) = (review.group(), review.resource());
        tracing::info!(
            group,
            resource,
            "not protected any more, since the provider has unbound depguard: delete its ValidatingWebhookConfiguration \
             dependency-controller"
        );
    }
    is_proved
}

async fn prove<P: Port, C>(reads: &Reads<P>, mut proof: C, deadline: Instant) -> C
where
    C: Asking<Due = Query, Done = (Query, Option<Arc<Page>>)>,
{
    let until = Instant::now().checked_add(PROOF_TIME).map_or(deadline, |end| end.min(deadline));
    drive(&mut proof, until, |query| async move {
        let page = reads.gets.get(&query).await;
        (query, page)
    })
    .await;
    proof
}

impl Asking for RuleCurrency {
    type Due = Query;
    type Done = (Query, Option<Arc<Page>>);

    fn is_settled(&self) -> bool {
        self.is_settled()
    }

    fn due(&mut self) -> Vec<Query> {
        self.queries()
    }

    fn take(&mut self, (query, page): Self::Done) {
        self.answer(query.id, answer(page.as_ref()));
    }
}

impl Asking for Withdrawal {
    type Due = Query;
    type Done = (Query, Option<Arc<Page>>);

    fn is_settled(&self) -> bool {
        self.is_settled()
    }

    fn due(&mut self) -> Vec<Query> {
        self.queries()
    }

    fn take(&mut self, (query, page): Self::Done) {
        self.answer(query.id, answer(page.as_ref()));
    }
}
