//! Eviction of a Pod: a deletion that admission sees as the creation of an Eviction, without the Pod itself.

use super::{Evaluation, RequestedDeletion, State};
use crate::evaluation::decision::{Decision, Subject};
use crate::model::names::{GroupResource, Namespace};
use crate::model::percent_encoding::percent_encode;
use crate::protocol::admission_review::Review;
use crate::protocol::cause::Cause;
use crate::protocol::deletion_target::stored_name;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{object, something_else, unanswered};
use crate::protocol::reviewed_object::ReviewedObject;

/// The id of the only query.
const POD: QueryId = QueryId(0);

/// An eviction whose Pod is being read.
#[derive(Debug)]
pub(super) struct Eviction {
    deletion: RequestedDeletion,
    kind: GroupResource,
    namespace: Namespace,
    name: String,
    asked: bool,
}

impl RequestedDeletion {
    /// Begins to decide the eviction of the Pod that a review names.
    pub(crate) fn begin_eviction(self, review: &Review<'_>) -> Evaluation {
        let Some(kind) = self.kind() else { return self.begin(None) };
        let namespace = review.asked_namespace().and_then(|namespace| Namespace::parse(namespace).ok());
        let name = review.asked_name().and_then(|name| stored_name(name).ok());
        let (Some(namespace), Some(name)) = (namespace, name) else {
            return self.unreadable(kind, "it names no valid Pod");
        };
        let name = name.to_owned();
        let eviction = Eviction { deletion: self, kind, namespace, name, asked: false };
        Evaluation(State::Evicting(Box::new(eviction)))
    }
}

impl Eviction {
    /// Returns the query for the Pod, once.
    pub(super) fn hand_out(&mut self) -> Option<Query> {
        if std::mem::replace(&mut self.asked, true) {
            return None;
        }
        let path = format!("/api/v1/namespaces/{}/pods/{}", self.namespace, percent_encode(&self.name));
        Some(Query { id: POD, cluster: None, export: None, path, accept: Accept::Json })
    }

    /// Returns the evaluation of the deletion, now that the Pod is read. `None` if the answer belongs to no query.
    pub(super) fn answer(&self, id: QueryId, answer: Answer<'_>) -> Option<Evaluation> {
        if id != POD || !self.asked {
            return None;
        }
        let mut evaluation = match object(answer, "get pods") {
            Ok(Some(body)) => match serde_json::from_slice::<ReviewedObject<'_>>(body) {
                Ok(pod) if self.is(&pod) => self.deletion.begin(Some(&pod)),
                _ => Evaluation::settled(self.undecided(something_else())),
            },
            // Another Pod of that name may exist by the time of the deletion.
            Ok(None) => Evaluation::settled(
                self.undecided(Unresolved::new(Cause::ReadFailed, "found no Pod of that name; retry later")),
            ),
            Err(why) => Evaluation::settled(self.undecided(why)),
        };
        if let State::InProgress(progress) = &mut evaluation.0 {
            progress.queries.begin_after(POD);
        }
        Some(evaluation)
    }

    /// Returns the decision if the Pod was not read in time.
    pub(super) fn unanswered(&self) -> Decision {
        self.undecided(unanswered())
    }

    fn is(&self, pod: &ReviewedObject<'_>) -> bool {
        pod.name() == Some(&self.name) && pod.namespace() == Some(self.namespace.as_str())
    }

    fn undecided(&self, why: Unresolved) -> Decision {
        let subject = Subject::deleted(self.kind.clone(), self.name.clone());
        let read = format!("the read of Pod {}/{}", self.namespace, self.name);
        self.deletion.undecided(subject, why.about(read))
    }
}
