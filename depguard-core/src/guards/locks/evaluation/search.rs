//! Search for the locks that forbid an operation on an object.

use std::collections::BTreeMap;

use crate::guards::locks::access;
use crate::guards::locks::decision::{AllowReason, LockDecision, LockText, MAX_NAMED, Refusal};
use crate::guards::locks::lock::{DuringTeardown, Lock, LockKind};
use crate::guards::locks::lock_match::{Attempt, LockMatch};
use crate::guards::locks::object::Aim;
use crate::guards::locks::object_scope::{Around, ObjectScope};
use crate::guards::locks::reading::{self, Locks, Read, TableState};
use crate::guards::locks::request_queue::RequestQueue;
use crate::model::names::LogicalCluster;
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Ask, QueryId, Verb};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{object, something_else, unanswered};

/// The search for locks, step by step: the tables, the object if the review doesn't show its labels, the locks, the
/// surroundings of the object, and the access rights of the requester.
#[derive(Debug)]
pub(super) struct LockSearch<'a> {
    attempt: Attempt<'a>,
    desk: RequestQueue<PendingRequest>,
    step: Step,
    tables: Vec<Read>,
    /// The locks whose standing is not `Aside`, each once.
    found: BTreeMap<(LockKind, String), (Lock, LockMatch)>,
    /// The results of the previous looks.
    looks: Vec<Look>,
    around: ObjectScope,
    /// The forbidding locks that the requester may see.
    shown: Vec<LockText>,
    problems: Vec<Unresolved>,
}

/// The locks that may be about the object: the revision at which admission last wrote that, and the standing of each
/// lock.
type Look = BTreeMap<(LockKind, String), (u64, Option<LockMatch>)>;

/// The most looks at locks that change each time.
const MAX_LOOKS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Tables,
    Object,
    Locks,
    Around,
    Access,
    Done,
}

#[derive(Debug)]
enum PendingRequest {
    Table(usize),
    Discovery,
    Object,
    Locks(Locks),
    Around(Around),
    Access(LockKind, String),
}

impl<'a> LockSearch<'a> {
    pub(super) fn new(attempt: Attempt<'a>) -> Self {
        let object = &attempt.object;
        let around = ObjectScope::new(object.kind.clone(), object.cluster.clone(), object.namespace.clone());
        let mut search = Self {
            desk: RequestQueue::new(object.cluster.clone()),
            step: Step::Tables,
            tables: Vec::new(),
            found: BTreeMap::new(),
            looks: Vec::new(),
            around,
            shown: Vec::new(),
            problems: Vec::new(),
            attempt,
        };
        search.ask_tables();
        search
    }

    fn ask_tables(&mut self) {
        self.step = Step::Tables;
        self.found.clear();
        self.tables = reading::tables(&self.attempt.object);
        for (index, table) in self.tables.iter().enumerate() {
            self.desk.get(PendingRequest::Table(index), table.name.path());
        }
    }

    /// Returns true if another look is needed. The requests of a look are sent one after the other: one lock may end
    /// before it is read, and another one may be stored after its table was read. The look then shows no lock,
    /// although there was one at every moment. If two looks in a row show the same result, then that result was true
    /// at one moment.
    fn must_look_again(&mut self) -> bool {
        let named = reading::candidates(&self.tables, &self.attempt.object);
        if named.is_empty() || !self.problems.is_empty() || self.forbidding().next().is_some() {
            return false;
        }
        let lock_match = |key: &_| self.found.get(key).map(|(_, lock_match)| lock_match.clone());
        let look: Look = named.into_iter().map(|(key, revision)| (key.clone(), (revision, lock_match(&key)))).collect();
        if self.looks.last() == Some(&look) {
            return false;
        }
        self.looks.push(look);
        if self.looks.len() < MAX_LOOKS {
            return true;
        }
        self.problems.push(Unresolved::new(Cause::Contended, "its locks changed at each read; retry later"));
        false
    }

    pub(super) fn within(&mut self, scope: Option<&LogicalCluster>) {
        self.around.within(scope);
    }

    pub(super) fn asks(&mut self) -> Vec<Ask> {
        self.desk.hand_out()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.step == Step::Done && self.desk.is_clear()
    }

    pub(super) fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        match self.desk.take(id) {
            None => return,
            Some(PendingRequest::Table(index)) => {
                if let Some(table) = self.tables.get_mut(index) {
                    table.state = Some(TableState::from_answer(&table.name, answer));
                }
            }
            Some(PendingRequest::Discovery) => self.answer_discovery(answer),
            Some(PendingRequest::Object) => self.answer_object(answer),
            Some(PendingRequest::Locks(locks)) => self.answer_locks(locks, answer),
            Some(PendingRequest::Around(around)) => {
                self.around.answer(around, answer, &mut self.desk, PendingRequest::Around);
            }
            Some(PendingRequest::Access(kind, name)) => self.answer_access(kind, name, answer),
        }
        while self.desk.is_clear() && self.step != Step::Done {
            self.advance();
        }
    }

    /// Takes the next step, now that all requests are answered.
    fn advance(&mut self) {
        match self.step {
            Step::Tables => {
                self.step = Step::Object;
                for Read { name, state } in &self.tables {
                    let why = match state {
                        Some(TableState::Unread(why)) => why.clone(),
                        Some(TableState::Broken(error)) => {
                            let why = "delete the table, and the controller creates it again";
                            Unresolved::new(Cause::LockTableUnusable, format!("was answered with {error}; {why}"))
                        }
                        _ => continue,
                    };
                    self.problems.push(why.about(format_args!("the read of LockTable {name}")));
                }
                if self.tables.iter().any(|table| matches!(table.state, Some(TableState::NotServed))) {
                    self.desk.get(PendingRequest::Discovery, reading::DISCOVERY.to_owned());
                }
                self.ask_object();
            }
            Step::Object => {
                self.step = Step::Locks;
                self.ask_locks();
            }
            Step::Locks => {
                if self.must_look_again() {
                    return self.ask_tables();
                }
                self.step = Step::Around;
                let forbids = self.forbidding().next().is_some();
                let mut around = Vec::new();
                if forbids || !self.problems.is_empty() {
                    around.extend(self.around.ask_bounds());
                }
                if forbids && self.may_be_released() {
                    around.extend(self.around.ask_teardown());
                }
                self.around.send(around, &mut self.desk, PendingRequest::Around);
            }
            Step::Around => {
                self.step = Step::Access;
                if self.around.is_out_of_bounds().is_none() && !self.is_released() {
                    self.ask_access();
                }
            }
            Step::Access | Step::Done => self.step = Step::Done,
        }
    }

    /// Reads the object if labels matter and the review doesn't show them.
    fn ask_object(&mut self) {
        let selects = |table: &Read| match &table.state {
            Some(TableState::Known(table)) => table.entries().any(|entry| !entry.selectors.is_empty()),
            _ => false,
        };
        if self.attempt.object.labels.is_none()
            && self.tables.iter().any(selects)
            && let Some(path) = self.attempt.object.path()
        {
            self.desk.get(PendingRequest::Object, path);
        }
    }

    fn answer_object(&mut self, answer: Answer<'_>) {
        #[derive(serde::Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(serde::Deserialize)]
        struct Metadata {
            name: String,
            #[serde(default)]
            labels: Option<BTreeMap<String, String>>,
        }
        let subject = &mut self.attempt.object;
        let right = format!("get {}", subject.kind);
        let read = object(answer, right).and_then(|body| match body.map(serde_json::from_slice::<Object>) {
            // A missing object has no labels.
            None => Ok(BTreeMap::new()),
            Some(Ok(Object { metadata })) if metadata.name == subject.name => Ok(metadata.labels.unwrap_or_default()),
            Some(_) => Err(something_else()),
        });
        match read {
            Ok(labels) => subject.labels = Some(labels),
            // Each lock with a selector then counts as selecting the object.
            Err(why) => self.problems.push(why.about(format_args!("the read of {}/{}", subject.kind, subject.name))),
        }
    }

    fn answer_discovery(&mut self, answer: Answer<'_>) {
        let why = match reading::serves_locks(answer) {
            Ok(false) => return,
            Ok(true) => {
                Unresolved::new(Cause::KindNotServed, "lists locks, but no locktables; apply the manifests of locks")
            }
            Err(why) => why,
        };
        self.problems.push(why.about("the discovery of dependencies.opendefense.cloud"));
    }

    fn ask_locks(&mut self) {
        let namespace = self.attempt.object.namespace.as_ref();
        let named = reading::candidates(&self.tables, &self.attempt.object);
        for locks in reading::plan(named.into_keys(), namespace) {
            let path = locks.path(namespace);
            self.desk.get(PendingRequest::Locks(locks), path);
        }
    }

    fn answer_locks(&mut self, mut locks: Locks, answer: Answer<'_>) {
        let attempt = &self.attempt;
        let namespace = attempt.object.namespace.as_ref();
        let found = &mut self.found;
        let more = locks.answer(namespace, answer, |lock| {
            let lock_match = attempt.match_lock(&lock);
            if lock_match != LockMatch::Aside {
                found.insert((lock.kind(), lock.name().to_owned()), (lock, lock_match));
            }
        });
        match more {
            Ok(true) => {
                let path = locks.path(namespace);
                self.desk.get(PendingRequest::Locks(locks), path);
            }
            Ok(false) => {}
            Err(why) => self.problems.push(why),
        }
    }

    fn ask_access(&mut self) {
        let locks: Vec<_> = self.forbidding().take(MAX_NAMED).map(|(lock, _)| lock.clone()).collect();
        // A SubjectAccessReview needs a user name.
        if self.attempt.requester.username().is_empty() {
            return;
        }
        for lock in locks {
            let (kind, name) = (lock.kind(), lock.name());
            let body = access::question(&self.attempt.requester, "get", kind, lock.namespace(), name);
            self.desk.send(PendingRequest::Access(kind, name.to_owned()), Verb::Create, access::PATH.to_owned(), body);
        }
    }

    fn answer_access(&mut self, kind: LockKind, name: String, answer: Answer<'_>) {
        // Without a positive answer, the requester may not see the lock.
        if let (Ok(true), Some((lock, LockMatch::Forbids(field)))) =
            (access::read(answer), self.found.get(&(kind, name)))
        {
            self.shown.push(LockText::new(lock, field.as_deref()));
        }
    }

    fn forbidding(&self) -> impl Iterator<Item = (&Lock, Option<&str>)> {
        self.found.values().filter_map(|(lock, lock_match)| match lock_match {
            LockMatch::Forbids(field) => Some((lock, field.as_deref())),
            _ => None,
        })
    }

    /// Returns true if no forbidding lock would forbid the deletion of an object that is torn down.
    fn may_be_released(&self) -> bool {
        self.attempt.aim == Aim::Delete
            && self.forbidding().all(|(lock, _)| lock.during_teardown() == DuringTeardown::Release)
    }

    fn is_released(&self) -> bool {
        self.may_be_released() && self.around.is_going()
    }

    pub(super) fn decide(mut self) -> LockDecision {
        let open: Vec<_> = self.desk.unanswered().filter_map(|asked| self.not_answered(asked)).collect();
        self.problems.extend(open);
        let names = |selects: fn(&LockMatch) -> bool| -> Vec<String> {
            self.found
                .values()
                .filter(|(_, lock_match)| selects(lock_match))
                .map(|(lock, _)| lock.to_string())
                .collect()
        };
        let forbidding = names(|lock_match| matches!(lock_match, LockMatch::Forbids(_)));
        let tells = !forbidding.is_empty() || !self.problems.is_empty();
        if let Some(problem) = self.around.is_out_of_bounds().filter(|_| tells) {
            return self.undecided(vec![problem]);
        }
        if !self.problems.is_empty() && forbidding.is_empty() {
            let problems = std::mem::take(&mut self.problems);
            return self.undecided(problems);
        }
        if !forbidding.is_empty() {
            if self.problems.is_empty() && self.is_released() {
                return LockDecision::allow(AllowReason::Teardown, forbidding);
            }
            if self.may_be_released() {
                self.problems.extend(self.around.unread());
            }
            self.shown.sort();
            let (shown, count, problems) = (self.shown, forbidding.len(), self.problems);
            return LockDecision::refuse(Refusal::Locked { shown, count, problems }, forbidding);
        }
        if self.step != Step::Done {
            return self.undecided(vec![unanswered().about("the read of its locks")]);
        }
        let (held, expired) = (names(|it| *it == LockMatch::Held), names(|it| *it == LockMatch::Expired));
        match (held.is_empty(), expired.is_empty()) {
            (false, _) => LockDecision::allow(AllowReason::Holder, held),
            (true, false) => LockDecision::allow(AllowReason::Expired, expired),
            (true, true) => LockDecision::allow(AllowReason::Unlocked, Vec::new()),
        }
    }

    fn undecided(&self, problems: Vec<Unresolved>) -> LockDecision {
        let object = Some(self.attempt.object.to_string());
        LockDecision::refuse(Refusal::Undecided { object, problems }, Vec::new())
    }

    /// Returns the problem of a request without an answer. (The surroundings report their own problems. Without an
    /// answer about access, the requester may not see the lock.)
    fn not_answered(&self, asked: &PendingRequest) -> Option<Unresolved> {
        let what = match asked {
            PendingRequest::Table(index) => format!("the read of LockTable {}", self.tables.get(*index)?.name),
            PendingRequest::Discovery => "the discovery of dependencies.opendefense.cloud".to_owned(),
            PendingRequest::Object => {
                format!("the read of {}/{}", self.attempt.object.kind, self.attempt.object.name)
            }
            PendingRequest::Locks(locks) => locks.what(),
            PendingRequest::Around(_) | PendingRequest::Access(..) => return None,
        };
        Some(unanswered().about(what))
    }
}
