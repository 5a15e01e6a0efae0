//! Which locks forbid what is to be done with an object.

use std::collections::BTreeMap;

use crate::answers::{SOMETHING_ELSE, UNANSWERED, object};
use crate::decision::Problem;
use crate::locks::access;
use crate::locks::decision::{Because, LockDecision, MOST_NAMED, Refusal, Shown};
use crate::locks::desk::{Ask, Desk, Verb};
use crate::locks::lock::{DuringTeardown, Lock, LockKind};
use crate::locks::object::Aim;
use crate::locks::reading::{self, Locks, Read, TableState};
use crate::locks::standing::{Attempt, Standing};
use crate::locks::surroundings::{Around, Surroundings};
use crate::names::LogicalCluster;
use crate::query::{Answer, QueryId};

/// The search for locks, step by step: tables, what a review doesn't say of its object, locks, what lies around the
/// object, and what the requester may know.
#[derive(Debug)]
pub(super) struct Search<'a> {
    attempt: Attempt<'a>,
    desk: Desk<Asked>,
    step: Step,
    tables: Vec<Read>,
    /// The locks that are not aside, each once.
    found: BTreeMap<(LockKind, String), (Lock, Standing)>,
    /// What the looks before the present one showed.
    looks: Vec<Look>,
    around: Surroundings,
    /// What the requester may know of those that forbid it.
    shown: Vec<Shown>,
    problems: Vec<Problem>,
}

/// The locks that may be about the object: when admission wrote so last, and what each says.
type Look = BTreeMap<(LockKind, String), (u64, Option<Standing>)>;

/// Locks that change at each of so many looks are not waited for any longer.
const MOST_LOOKS: usize = 4;

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
enum Asked {
    Table(usize),
    Discovery,
    Object,
    Locks(Locks),
    Around(Around),
    Access(LockKind, String),
}

impl<'a> Search<'a> {
    pub(super) fn new(attempt: Attempt<'a>) -> Self {
        let object = &attempt.object;
        let around = Surroundings::new(object.kind.clone(), object.cluster.clone(), object.namespace.clone());
        let mut search = Self {
            desk: Desk::new(object.cluster.clone()),
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
            self.desk.get(Asked::Table(index), table.name.path());
        }
    }

    /// Whether another look is needed. One request after the other, a lock may end before it is read, and another one be
    /// stored after its table was: then none is seen, though at no moment there was none. What two looks show alike was so
    /// at one moment.
    fn must_look_again(&mut self) -> bool {
        let named = reading::candidates(&self.tables, &self.attempt.object);
        if named.is_empty() || !self.problems.is_empty() || self.forbidding().next().is_some() {
            return false;
        }
        let standing = |key: &_| self.found.get(key).map(|(_, standing)| standing.clone());
        let look: Look = named.into_iter().map(|(key, revision)| (key.clone(), (revision, standing(&key)))).collect();
        if self.looks.last() == Some(&look) {
            return false;
        }
        self.looks.push(look);
        if self.looks.len() < MOST_LOOKS {
            return true;
        }
        self.problems.push(Problem("its locks changed each time they were read; retry later".to_owned()));
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
            Some(Asked::Table(index)) => {
                if let Some(table) = self.tables.get_mut(index) {
                    table.state = Some(TableState::of(&table.name, answer));
                }
            }
            Some(Asked::Discovery) => self.answer_discovery(answer),
            Some(Asked::Object) => self.answer_object(answer),
            Some(Asked::Locks(locks)) => self.answer_locks(locks, answer),
            Some(Asked::Around(around)) => self.around.answer(around, answer, &mut self.desk, Asked::Around),
            Some(Asked::Access(kind, name)) => self.answer_access(kind, name, answer),
        }
        while self.desk.is_clear() && self.step != Step::Done {
            self.go_on();
        }
    }

    /// Takes the step that follows, now that all is answered.
    fn go_on(&mut self) {
        match self.step {
            Step::Tables => {
                self.step = Step::Object;
                for Read { name, state } in &self.tables {
                    let why = match state {
                        Some(TableState::Unread(why)) => why.clone(),
                        Some(TableState::Broken(error)) => {
                            format!("was answered with {error}; delete the table, and the controller makes it anew")
                        }
                        _ => continue,
                    };
                    self.problems.push(Problem(format!("the read of LockTable {name} {why}")));
                }
                if self.tables.iter().any(|table| matches!(table.state, Some(TableState::NotServed))) {
                    self.desk.get(Asked::Discovery, reading::DISCOVERY.to_owned());
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
                self.around.send(around, &mut self.desk, Asked::Around);
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

    /// Labels decide, and the review doesn't say them.
    fn ask_object(&mut self) {
        let selects = |table: &Read| match &table.state {
            Some(TableState::Known(table)) => table.entries().any(|entry| !entry.selectors.is_empty()),
            _ => false,
        };
        if self.attempt.object.labels.is_none()
            && self.tables.iter().any(selects)
            && let Some(path) = self.attempt.object.path()
        {
            self.desk.get(Asked::Object, path);
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
        let read = object(answer, &right).and_then(|body| match body.map(serde_json::from_slice::<Object>) {
            // What is not there has no labels.
            None => Ok(BTreeMap::new()),
            Some(Ok(Object { metadata })) if metadata.name == subject.name => Ok(metadata.labels.unwrap_or_default()),
            Some(_) => Err(SOMETHING_ELSE.to_owned()),
        });
        match read {
            Ok(labels) => subject.labels = Some(labels),
            // Then each lock with a selector counts as one that selects it.
            Err(why) => self.problems.push(Problem(format!("the read of {}/{} {why}", subject.kind, subject.name))),
        }
    }

    fn answer_discovery(&mut self, answer: Answer<'_>) {
        let why = match reading::serves_locks(answer) {
            Ok(false) => return,
            Ok(true) => "answered that locks are served, but no locktables: apply the manifests of locks".to_owned(),
            Err(why) => why,
        };
        self.problems.push(Problem(format!("the discovery of dependencies.opendefense.cloud {why}")));
    }

    fn ask_locks(&mut self) {
        let namespace = self.attempt.object.namespace.as_ref();
        let named = reading::candidates(&self.tables, &self.attempt.object);
        for locks in reading::plan(named.into_keys(), namespace) {
            let path = locks.path(namespace);
            self.desk.get(Asked::Locks(locks), path);
        }
    }

    fn answer_locks(&mut self, mut locks: Locks, answer: Answer<'_>) {
        let attempt = &self.attempt;
        let namespace = attempt.object.namespace.as_ref();
        let found = &mut self.found;
        let more = locks.answer(namespace, answer, |lock| {
            let standing = attempt.judge(&lock);
            if standing != Standing::Aside {
                found.insert((lock.kind(), lock.name().to_owned()), (lock, standing));
            }
        });
        match more {
            Ok(true) => {
                let path = locks.path(namespace);
                self.desk.get(Asked::Locks(locks), path);
            }
            Ok(false) => {}
            Err(why) => self.problems.push(Problem(why)),
        }
    }

    fn ask_access(&mut self) {
        let locks: Vec<_> = self.forbidding().take(MOST_NAMED).map(|(lock, _)| lock.clone()).collect();
        // Nobody can be asked about who has no name.
        if self.attempt.requester.username().is_empty() {
            return;
        }
        for lock in locks {
            let (kind, name) = (lock.kind(), lock.name());
            let body = access::question(&self.attempt.requester, "get", kind, lock.namespace(), name);
            self.desk.send(Asked::Access(kind, name.to_owned()), Verb::Create, access::PATH.to_owned(), body);
        }
    }

    fn answer_access(&mut self, kind: LockKind, name: String, answer: Answer<'_>) {
        // Who can't be asked about may not.
        if let (Ok(true), Some((lock, Standing::Forbids(field)))) =
            (access::read(answer), self.found.get(&(kind, name)))
        {
            self.shown.push(Shown::new(lock, field.as_deref()));
        }
    }

    fn forbidding(&self) -> impl Iterator<Item = (&Lock, Option<&str>)> {
        self.found.values().filter_map(|(lock, standing)| match standing {
            Standing::Forbids(field) => Some((lock, field.as_deref())),
            _ => None,
        })
    }

    /// Whether all that forbids it would not, if the object were torn down.
    fn may_be_released(&self) -> bool {
        self.attempt.aim == Aim::Delete
            && self.forbidding().all(|(lock, _)| lock.during_teardown() == DuringTeardown::Release)
    }

    fn is_released(&self) -> bool {
        self.may_be_released() && self.around.is_going()
    }

    pub(super) fn decide(mut self) -> LockDecision {
        let unanswered: Vec<_> = self.desk.unanswered().filter_map(|asked| self.unanswered(asked)).collect();
        self.problems.extend(unanswered);
        let names = |wanted: fn(&Standing) -> bool| -> Vec<String> {
            self.found.values().filter(|(_, standing)| wanted(standing)).map(|(lock, _)| lock.to_string()).collect()
        };
        let forbidding = names(|standing| matches!(standing, Standing::Forbids(_)));
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
                return LockDecision::allow(Because::Teardown, forbidding);
            }
            if self.may_be_released() {
                self.problems.extend(self.around.unread());
            }
            self.shown.sort();
            let (shown, count, problems) = (self.shown, forbidding.len(), self.problems);
            return LockDecision::refuse(Refusal::Locked { shown, count, problems }, forbidding);
        }
        if self.step != Step::Done {
            return self.undecided(vec![Problem(format!("the read of its locks {UNANSWERED}"))]);
        }
        let (held, expired) = (names(|it| *it == Standing::Held), names(|it| *it == Standing::Expired));
        match (held.is_empty(), expired.is_empty()) {
            (false, _) => LockDecision::allow(Because::Holder, held),
            (true, false) => LockDecision::allow(Because::Expired, expired),
            (true, true) => LockDecision::allow(Because::Unlocked, Vec::new()),
        }
    }

    fn undecided(&self, problems: Vec<Problem>) -> LockDecision {
        let object = Some(self.attempt.object.to_string());
        LockDecision::refuse(Refusal::Undecided { object, problems }, Vec::new())
    }

    /// What is not known for want of an answer. (What lies around says so itself; who is not asked about may not know.)
    fn unanswered(&self, asked: &Asked) -> Option<Problem> {
        let why = match asked {
            Asked::Table(index) => format!("the read of LockTable {} {UNANSWERED}", self.tables.get(*index)?.name),
            Asked::Discovery => format!("the discovery of dependencies.opendefense.cloud {UNANSWERED}"),
            Asked::Object => {
                format!("the read of {}/{} {UNANSWERED}", self.attempt.object.kind, self.attempt.object.name)
            }
            Asked::Locks(locks) => locks.unanswered(),
            Asked::Around(_) | Asked::Access(..) => return None,
        };
        Some(Problem(why))
    }
}
