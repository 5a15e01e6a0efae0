//! Requests of a [`RegisterWrite`] to the API server that stores the registers, and its answers.

use super::object_key::RegisterName;
use super::register::Register;
use super::register_write::{RegisterRead, RegisterStep, RegisterWrite, WriteResult};
use super::wire::PLURAL;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, is_object_missing, response};

/// A request to the cluster, or in kcp to depguard's own workspace. A GET must be a consistent read, and is never shared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller sends each of them")]
pub enum RegisterRequest {
    /// GET of this path.
    Get(String),
    /// PUT of this JSON at this path.
    Put(String, Vec<u8>),
}

impl RegisterWrite {
    /// Returns the request without an answer; `None` if the write has ended.
    pub fn request(&self) -> Option<RegisterRequest> {
        Some(match self.step()? {
            RegisterStep::Read(name) => RegisterRequest::Get(name.path()),
            RegisterStep::Write(register) => {
                RegisterRequest::Put(register.name().path(), register.to_value().to_string().into_bytes())
            }
        })
    }

    /// Takes the answer to the request.
    pub fn answer(&mut self, answer: Answer<'_>) {
        match self.step() {
            Some(RegisterStep::Read(name)) => self.read(read(name, answer)),
            Some(RegisterStep::Write(_)) => self.written(written(answer)),
            None => {}
        }
    }
}

fn read(name: RegisterName, answer: Answer<'_>) -> RegisterRead {
    match response(answer) {
        Ok((200, body)) => match Register::parse(body) {
            Ok(register) => RegisterRead::Stored(Box::new(register)),
            Err(error) => {
                let why = format!("was answered with something that is {error}; delete it, and depguard makes it anew");
                RegisterRead::Unknown(Unresolved::new(Cause::ReadUnusable, why))
            }
        },
        Ok((404, body)) if is_object_missing(body, PLURAL, &name.to_string()) => RegisterRead::Absent,
        Ok((404, _)) => {
            let why = "failed: the API server does not serve referenceregisters; apply the manifests of the interlock";
            RegisterRead::Unknown(Unresolved::new(Cause::KindNotServed, why))
        }
        Ok((status, body)) => RegisterRead::Unknown(failure(status, body, RIGHTS)),
        Err(why) => RegisterRead::Unknown(why),
    }
}

fn written(answer: Answer<'_>) -> WriteResult {
    match response(answer) {
        Ok((200 | 201, _)) => WriteResult::Stored,
        // Another version is stored, or none: the next read shows which.
        Ok((404 | 409, _)) => WriteResult::Conflict,
        Ok((status @ (400 | 401 | 403 | 405 | 413 | 415 | 422), body)) => {
            WriteResult::Refused(failure(status, body, RIGHTS))
        }
        Ok((status, body)) => WriteResult::Unknown(failure(status, body, RIGHTS)),
        Err(why) => WriteResult::Unknown(why),
    }
}

/// The rights that the webhook's user needs.
const RIGHTS: &str = "get and update referenceregisters of dependencies.opendefense.cloud";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interlock::ObjectKey;
    use crate::interlock::mark::Nonce;
    use crate::interlock::note::{Note, Outcome};
    use crate::interlock::object_key::{Buckets, Revision};
    use crate::interlock::{Ask, Delete, Listing};
    use crate::model::names::{Group, GroupResource, Resource};

    fn flag() -> (RegisterName, Note) {
        let kind = GroupResource { group: Group::CORE, resource: Resource::parse("vpcs").unwrap() };
        let target = ObjectKey { cluster: None, kind, namespace: None, name: "a".into() };
        let revision = Revision::parse("u", "1").unwrap();
        let mut delete = Delete::begin(Buckets::new(1).unwrap(), Nonce::new(7), target, revision);
        delete.listed(Listing::Empty);
        match delete.asks().remove(0) {
            Ask::Record(name, note) => (name, note),
            other => panic!("{other:?}"),
        }
    }

    fn stored(version: &str) -> Vec<u8> {
        let (name, _) = flag();
        Register::new(name).stored_as("r", version).opened().to_value().to_string().into_bytes()
    }

    fn body(body: &[u8]) -> Answer<'_> {
        Answer::Response { status: 200, body }
    }

    fn status(status: u16) -> Answer<'static> {
        Answer::Response { status, body: b"{}" }
    }

    #[test]
    fn a_flag_is_written_by_the_version_that_was_read_last() {
        let (name, note) = flag();
        let mut write = RegisterWrite::new(name, vec![note]);
        for version in ["3", "4"] {
            assert_eq!(write.request(), Some(RegisterRequest::Get(name.path())));
            write.answer(body(&stored(version)));
            let Some(RegisterRequest::Put(path, put)) = write.request() else { panic!("no write") };
            let put: serde_json::Value = serde_json::from_slice(&put).unwrap();
            assert_eq!((path, put["metadata"]["resourceVersion"].as_str()), (name.path(), Some(version)));
            assert_eq!(put["spec"]["targets"][0]["flags"].as_array().unwrap().len(), 1);
            write.answer(status(409));
        }
        write.answer(body(&stored("5")));
        write.answer(status(200));
        assert_eq!((write.request(), write.outcome(0)), (None, Outcome::Recorded));
    }

    #[test]
    fn only_a_definite_refusal_of_a_write_means_that_nothing_is_recorded() {
        let (name, note) = flag();
        for (code, is_definite) in [(403, true), (413, true), (422, true), (429, false), (500, false), (504, false)] {
            let mut write = RegisterWrite::new(name, vec![note.clone()]);
            write.answer(body(&stored("3")));
            write.answer(status(code));
            let outcome = write.outcome(0);
            assert_eq!(matches!(outcome, Outcome::Failed(_)), is_definite, "{code} {outcome:?}");
            assert_eq!(write.request().is_none(), is_definite, "{code}");
        }
    }

    #[test]
    fn a_register_that_can_not_be_read_records_nothing_and_says_what_to_do() {
        let missing = br#"{"details":{"kind":"referenceregisters","name":"bucket-0-of-1"}}"#;
        for (answer, advice) in [
            (Answer::Response { status: 404, body: missing }, "the controller makes one anew"),
            (status(404), "apply the manifests of the interlock"),
            (status(403), "the right to get and update referenceregisters"),
            (status(200), "delete it, and depguard makes it anew"),
            (Answer::Failed("no route"), "no route; retry later"),
        ] {
            let (name, note) = flag();
            let mut write = RegisterWrite::new(name, vec![note]);
            write.answer(answer);
            let Outcome::Failed(why) = write.outcome(0) else { panic!("{:?}", write.outcome(0)) };
            assert!(why.to_string().contains(advice), "{why}");
            assert_eq!(write.request(), None);
        }
    }
}
