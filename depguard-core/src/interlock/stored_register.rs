//! Register as a [`SharedObject`]: how it is read and written at the API server that stores it.

use super::note::{Note, Outcome};
use super::object_key::RegisterName;
use super::register::Register;
use super::wire::{KIND, PLURAL};
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::shared_object::{SharedObject, SharedWrite};

/// Write of notes to one register, in the cluster or in kcp in depguard's own workspace.
pub type RegisterWrite = SharedWrite<Register>;

impl SharedObject for Register {
    type Name = RegisterName;
    type Note = Note;
    type Outcome = Outcome;

    const KIND: &'static str = KIND;
    const PLURAL: &'static str = PLURAL;
    const RIGHTS: &'static str = "get and update referenceregisters of dependencies.opendefense.cloud";
    const NOT_SERVED: &'static str =
        "failed: the API server does not serve referenceregisters; apply the manifests of the interlock";

    fn collection() -> String {
        RegisterName::collection()
    }

    fn from_stored(body: &[u8]) -> Result<Self, Unresolved> {
        Self::parse(body).map_err(|error| {
            let why = format!("was answered with something that is {error}; delete it, and depguard makes it anew");
            Unresolved::new(Cause::ReadUnusable, why)
        })
    }

    fn absent(_: &RegisterName) -> Result<Self, Unresolved> {
        Err(Unresolved::new(Cause::ReadFailed, "found no such register; the controller makes one anew"))
    }

    fn name(&self) -> &RegisterName {
        &self.name
    }

    fn is_stored(&self) -> bool {
        self.stored.is_some()
    }

    fn with_notes(&self, notes: &[Note]) -> (Option<Self>, Vec<Outcome>) {
        self.with(notes)
    }

    fn to_body(&self) -> Vec<u8> {
        self.to_text().into_bytes()
    }

    fn failed(why: Unresolved, is_unknown: bool) -> Outcome {
        if is_unknown { Outcome::Unknown(why) } else { Outcome::Failed(why) }
    }

    fn about(outcome: Outcome, sentence: impl FnOnce(Unresolved) -> Unresolved) -> Outcome {
        match outcome {
            Outcome::Failed(why) => Outcome::Failed(sentence(why)),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interlock::ObjectKey;
    use crate::interlock::mark::Nonce;
    use crate::interlock::note::{Note, Outcome};
    use crate::interlock::object_key::{Buckets, Revision};
    use crate::interlock::{Ask, Delete, Listing};
    use crate::model::names::{Group, GroupResource, Resource};
    use crate::protocol::request::{Ask as Request, Verb};
    use crate::protocol::response::Answer;

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
            let Some(Request::Get(get)) = write.request(None) else { panic!("no read") };
            write.answer(body(&stored(version)));
            let Some(Request::Send(put)) = write.request(None) else { panic!("no write") };
            assert_eq!((get.path, put.verb, put.path), (name.path(), Verb::Replace, name.path()));
            let put: serde_json::Value = serde_json::from_slice(&put.body).unwrap();
            assert_eq!(put["metadata"]["resourceVersion"].as_str(), Some(version));
            assert_eq!(put["spec"]["targets"][0]["flags"].as_array().unwrap().len(), 1);
            write.answer(status(409));
        }
        write.answer(body(&stored("5")));
        write.answer(status(200));
        assert_eq!((write.request(None), write.outcome(0)), (None, Outcome::Recorded));
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
            assert_eq!(write.request(None).is_none(), is_definite, "{code}");
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
            assert_eq!(write.request(None), None);
        }
    }
}
