//! The eviction of a Pod: a deletion that admission sees as the creation of something else, which doesn't show the Pod.

use super::{Case, Evaluation, State};
use crate::answers::{SOMETHING_ELSE, UNANSWERED, object};
use crate::decision::{Decision, Problem, Subject};
use crate::names::{GroupResource, LogicalCluster, Namespace};
use crate::query::{Accept, Answer, Query, QueryId, percent_encode};
use crate::review::{Review, ReviewedObject};
use crate::target::stored_name;

/// The id of the one query.
const POD: QueryId = QueryId(0);

/// An eviction whose Pod is read.
#[derive(Debug)]
pub(super) struct Eviction {
    case: Case,
    kind: GroupResource,
    namespace: Namespace,
    name: String,
    asked: bool,
    /// Where the webhook configuration lies by which the review came, if that counts.
    scope: Option<Option<LogicalCluster>>,
}

impl Case {
    /// Begins to decide the eviction of the Pod that a review names.
    pub(crate) fn begin_eviction(self, review: &Review<'_>) -> Evaluation {
        let Some(kind) = self.kind() else { return self.begin(None) };
        let namespace = review.asked_namespace().and_then(|namespace| Namespace::parse(namespace).ok());
        let name = review.asked_name().and_then(|name| stored_name(name).ok());
        let (Some(namespace), Some(name)) = (namespace, name) else {
            return self.unreadable(kind, "it names no Pod that an API server would have stored");
        };
        let name = name.to_owned();
        let eviction = Eviction { case: self, kind, namespace, name, asked: false, scope: None };
        Evaluation(State::Evicting(Box::new(eviction)))
    }
}

impl Eviction {
    /// Decides only about what lies in `scope`, once it is known what the Pod is.
    pub(super) fn within(&mut self, scope: Option<&LogicalCluster>) {
        self.scope = Some(scope.cloned());
    }

    /// The read of the Pod, once.
    pub(super) fn hand_out(&mut self) -> Option<Query> {
        if std::mem::replace(&mut self.asked, true) {
            return None;
        }
        let path = format!("/api/v1/namespaces/{}/pods/{}", self.namespace, percent_encode(&self.name));
        Some(Query { id: POD, cluster: None, export: None, path, accept: Accept::Json })
    }

    /// The evaluation of the deletion, now that the Pod was read. `None`: that was not asked for.
    pub(super) fn answer(&self, id: QueryId, answer: Answer<'_>) -> Option<Evaluation> {
        if id != POD || !self.asked {
            return None;
        }
        let mut evaluation = match object(answer, "get pods") {
            Ok(Some(body)) => match serde_json::from_slice::<ReviewedObject<'_>>(body) {
                Ok(pod) if self.is(&pod) => self.case.begin(Some(&pod)),
                _ => Evaluation::settled(self.undecided(SOMETHING_ELSE)),
            },
            // Another one of its name may be there by the time it is deleted.
            Ok(None) => Evaluation::settled(self.undecided("found none of that name; retry later")),
            Err(why) => Evaluation::settled(self.undecided(&why)),
        };
        if let State::Asking(asking) = &mut evaluation.0 {
            asking.next_id = POD.0 + 1;
        }
        Some(match &self.scope {
            Some(scope) => evaluation.within(scope.as_ref()),
            None => evaluation,
        })
    }

    /// The decision where the Pod was not read in time.
    pub(super) fn unanswered(&self) -> Decision {
        self.undecided(UNANSWERED)
    }

    fn is(&self, pod: &ReviewedObject<'_>) -> bool {
        pod.name() == Some(&self.name) && pod.namespace() == Some(self.namespace.as_str())
    }

    fn undecided(&self, why: &str) -> Decision {
        let subject = Subject { kind: self.kind.clone(), name: self.name.clone() };
        self.case.undecided(subject, Problem(format!("the read of Pod {}/{} {why}", self.namespace, self.name)))
    }
}
