//! Locks of an older tool: a `kotas.tech/v1` Lock of an object's name and namespace locks it, whatever its kind.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::decision::{Because, LockDecision, Refusal};
use super::desk::{Ask, Desk};
use super::object::Object;
use crate::answers::{SOMETHING_ELSE, UNANSWERED, object};
use crate::decision::Problem;
use crate::names::GroupResource;
use crate::query::{Answer, QueryId, percent_encode};

/// The read of the one Lock that can lock an object.
#[derive(Debug)]
pub(super) struct Compat {
    object: Object,
    lock: String,
    desk: Desk<()>,
    /// Whether it is there; `None`: not answered.
    there: Option<Result<bool, String>>,
}

impl Compat {
    /// `None`: there can be none.
    pub(super) fn begin(object: Object, kinds: &BTreeSet<GroupResource>) -> Option<Self> {
        let namespace = object.namespace.as_ref().filter(|_| kinds.contains(&object.kind))?;
        let lock = format!("Lock {namespace}/{}", object.name);
        let name = percent_encode(&object.name);
        let path = format!("/apis/kotas.tech/v1/namespaces/{namespace}/locks/{name}");
        let mut desk = Desk::new(None);
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

    /// Where its kind is not served, there is none either: but it must be an API server that says so.
    fn read(&self, answer: Answer<'_>) -> Result<bool, String> {
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
            _ => Err(SOMETHING_ELSE.to_owned()),
        }
    }

    pub(super) fn decide(self) -> LockDecision {
        let why = match self.there {
            Some(Ok(false)) => return LockDecision::allow(Because::Unlocked, Vec::new()),
            Some(Ok(true)) => {
                let locks = vec![self.lock.clone()];
                return LockDecision::refuse(Refusal::Compat { lock: self.lock }, locks);
            }
            Some(Err(why)) => why,
            None => UNANSWERED.to_owned(),
        };
        let problems = vec![Problem(format!("the read of {} {why}", self.lock))];
        LockDecision::refuse(Refusal::Undecided { object: Some(self.object.to_string()), problems }, Vec::new())
    }
}

/// Whether a 404 is an API server's own: a Status, or the plain words for a path that is not there.
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
