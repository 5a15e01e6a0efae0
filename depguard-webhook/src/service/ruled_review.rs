//! Reviews that rules decide, by the path at which they were posted.

use depguard_core::protocol::ObjectReview;
use depguard_core::{Context, Evaluation, Review, ReviewError, RuleSet};

use crate::service::routes::Route;

/// Review that rules decide.
pub(crate) enum RuledReview<'a> {
    /// Review of a deletion.
    Deletion(Review<'a>),
    /// Review of a creation or an update, by the references that it makes.
    References(ObjectReview<'a>),
}

impl<'a> RuledReview<'a> {
    /// Reads the review that was posted to a route of rules.
    pub(crate) fn parse(route: Route, bytes: &'a [u8]) -> Result<Self, ReviewError> {
        match route {
            Route::References(_) => ObjectReview::parse(bytes).map(Self::References),
            Route::Rules(_) | Route::Locks | Route::CompatLocks | Route::Owners | Route::SpecAdmission => {
                Review::parse(bytes).map(Self::Deletion)
            }
        }
    }

    /// Returns the review without the states of the object.
    pub(crate) fn review(&self) -> &Review<'a> {
        match self {
            Self::Deletion(review) => review,
            Self::References(review) => review.review(),
        }
    }

    /// Begins to decide the review.
    pub(crate) fn evaluate(&self, rules: &RuleSet, context: &Context<'_>) -> Evaluation {
        match self {
            Self::Deletion(review) => rules.evaluate(review, context),
            Self::References(review) => rules.evaluate_references(review, context),
        }
    }
}
