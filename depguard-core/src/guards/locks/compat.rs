//! Locks of an older tool: a `kotas.tech/v1` Lock locks every object of its name and namespace, whatever the object's
//! kind.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::decision::{AllowReason, LockDecision, Refusal};
use super::object::Object;
use super::request_queue::RequestQueue;
use crate::model::names::GroupResource;
use crate::model::percent_encoding::percent_encode;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Ask, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{object, something_else, unanswered};

/// The read of the only Lock that can lock an object.
#[derive(Debug)]
pub(super) struct Compat {
    object: Object,
    lock: String,
    desk: RequestQueue<()>,
    /// The result: true if the Lock exists. `None` until the answer arrives.
    there: Option<Result<bool, Unresolved>>,
}

impl Compat {
    /// Begins the read; `None` if no Lock can exist.
    pub(super) fn begin(object: Object, kinds: &BTreeSet<GroupResource>) -> Option<Self> {
        let namespace = object.namespace.as_ref().filter(|_| kinds.contains(&object.kind))?;
        let lock = format!("Lock {namespace}/{}", object.name);
        let name = percent_encode(&object.name);
        let path = format!("/apis/kotas.tech/v1/namespaces/{namespace}/locks/{name}");
        let mut desk = RequestQueue::new(None);
        desk.get((), path);
        Some(Self { object, lock, desk, there: None })
    }

    pub(super) fn asks(&mut self) -> Vec<Ask> {
        self.desk.hand_out()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.desk.is_clear()
    }

    pub(super) fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        if self.desk.take(id).is_some() {
            self.there = Some(self.read(answer));
        }
    }

    /// Reads the answer. If the Lock's kind is not served, the Lock doesn't exist either; but an API server must say
    /// so.
    fn read(&self, answer: Answer<'_>) -> Result<bool, Unresolved> {
        #[derive(Deserialize)]
        struct Lock {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            name: String,
        }
        let is_missing = match answer {
            Answer::Response { status: 404, body } => is_said_by_a_server(body),
            _ => false,
        };
        match object(answer, "get locks of kotas.tech")?.map(serde_json::from_slice::<Lock>) {
            None if is_missing => Ok(false),
            Some(Ok(Lock { metadata })) if metadata.name == self.object.name => Ok(true),
            _ => Err(something_else()),
        }
    }

    pub(super) fn decide(self) -> LockDecision {
        let why = match self.there {
            Some(Ok(false)) => return LockDecision::allow(AllowReason::Unlocked, Vec::new()),
            Some(Ok(true)) => {
                let locks = vec![self.lock.clone()];
                return LockDecision::refuse(Refusal::Compat { lock: self.lock }, locks);
            }
            Some(Err(why)) => why,
            None => unanswered(),
        };
        let problems = vec![why.about(format_args!("the read of {}", self.lock))];
        LockDecision::refuse(Refusal::Undecided { object: Some(self.object.to_string()), problems }, Vec::new())
    }
}

/// Returns true if a 404 comes from an API server: it is a Status, or the plain text for an unknown path.
fn is_said_by_a_server(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Status {
        kind: String,
        code: u16,
    }
    let status = serde_json::from_slice::<Status>(body);
    status.is_ok_and(|status| status.kind == "Status" && status.code == 404)
        || body.trim_ascii() == b"404 page not found"
}
