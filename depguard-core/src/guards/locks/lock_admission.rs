//! Decision about a lock itself: the users who may change or delete it, and its record in the tables before it is
//! stored.

use super::access;
use super::change::Change;
use super::decision::{AllowReason, LockDecision, Refusal};
use super::lock::{DuringTeardown, Lock, LockKind, tables_of};
use super::object_scope::{Around, ObjectScope};
use super::parse;
use super::request_queue::RequestQueue;
use super::table::TableName;
use super::timestamp::Timestamp;
use super::writing::{TableNote, TableWrite};
use crate::applicability::overrides::is_control_plane;
use crate::model::api;
use crate::model::control_plane::ControlPlane;
use crate::model::names::{Group, GroupResource, LogicalCluster, Resource};
use crate::protocol::admission_review::{Operation, Requester};
use crate::protocol::deletion_target::cluster_of;
use crate::protocol::object_review::ObjectReview;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Ask, QueryId, Verb};
use crate::protocol::response::Answer;
use crate::protocol::response_error::unanswered;
use crate::protocol::reviewed_object::ReviewedObject;

/// A review about a lock: first the permission of the requester, then the writes of the tables.
#[derive(Debug)]
pub(super) struct LockAdmission<'a> {
    lock: String,
    old: Option<Lock>,
    new: Option<Lock>,
    requester: Requester<'a>,
    dry_run: bool,
    permission: Permission,
    around: ObjectScope,
    desk: RequestQueue<PendingRequest>,
    step: Step,
    writings: Vec<Recording>,
}

/// Permission of the requester.
#[derive(Debug)]
enum Permission {
    Given(AllowReason),
    /// The requester needs the right to unlock the lock; `None` until the answer arrives.
    Pending(Option<Result<bool, Unresolved>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Begun,
    Permission,
    Writes,
    Done,
}

/// Record of the lock in one table.
#[derive(Debug)]
enum Recording {
    Own(TableWrite),
    /// Another writer writes the table, and reports the outcome.
    Handed(TableName, Option<Result<(), Unresolved>>),
}

#[derive(Debug)]
enum PendingRequest {
    Around(Around),
    Unlock,
    Write(usize),
}

impl<'a> LockAdmission<'a> {
    /// Begins to decide. An error is a decision that needs no request.
    pub(super) fn begin(
        control_plane: ControlPlane,
        kind: LockKind,
        review: &ObjectReview<'a>,
        now: Timestamp,
    ) -> Result<Self, LockDecision> {
        let about = review.review();
        if about.sub_resource().is_some() || about.operation() == Operation::Connect {
            return Err(LockDecision::allow(AllowReason::NotGuarded, Vec::new()));
        }
        let read = |state: Option<&str>| {
            let value = state.map(parse::tree).transpose();
            value.map_err(|error| unreadable(kind, &error.to_string()))
        };
        let is_new = about.operation() == Operation::Create;
        let old = if is_new { None } else { read(review.old_object())?.map(|old| Lock::read(kind, &old)) };
        if old.is_none() && !is_new {
            return Err(unreadable(kind, "the review has no oldObject"));
        }
        if about.operation() == Operation::Delete && about.old_object().is_some_and(ReviewedObject::is_terminating) {
            return Err(LockDecision::allow(AllowReason::Terminating, Vec::new()));
        }
        if let (Operation::Update, Some(was), Some(is)) = (about.operation(), review.old_object(), review.object())
            && Change::between(control_plane, was, is).is_exempt()
        {
            return Err(LockDecision::allow(AllowReason::Exempt, Vec::new()));
        }
        let new = match about.operation() {
            Operation::Delete => None,
            _ => Some(read(review.object())?.ok_or_else(|| unreadable(kind, "the review has no object"))?),
        };
        let new = new.map(|new| Lock::read(kind, &new));
        let Some(shown) = old.as_ref().or(new.as_ref()) else {
            return Err(unreadable(kind, "the review has no object"));
        };
        let lock = shown.to_string();
        if let Some(why) = new.as_ref().and_then(|new| unusable(control_plane, new)) {
            return Err(LockDecision::refuse(Refusal::Invalid { lock: lock.clone(), why }, vec![lock]));
        }
        let new_metadata = review.new_metadata();
        let cluster = about.old_object().or(new_metadata.as_ref()).and_then(ReviewedObject::cluster);
        let cluster = cluster_of(control_plane, cluster);
        let cluster = cluster.map_err(|why| unreadable(kind, &why))?;
        let requester = about.requester().clone();
        let permission = match &old {
            None => Permission::Given(AllowReason::Recorded),
            Some(old) if !old.holds_at(now) => Permission::Given(AllowReason::Expired),
            Some(old) if old.holder().is(&requester, control_plane, cluster.as_ref()) => {
                Permission::Given(AllowReason::Holder)
            }
            Some(_) => Permission::Pending(None),
        };
        let (Ok(group), Ok(resource)) = (Group::parse(api::GROUP), Resource::parse(kind.plural())) else {
            return Err(unreadable(kind, "its group or resource is invalid"));
        };
        let namespace = shown.namespace().cloned();
        Ok(Self {
            lock,
            requester,
            dry_run: about.dry_run(),
            permission,
            around: ObjectScope::new(GroupResource { group, resource }, cluster.clone(), namespace),
            desk: RequestQueue::new(cluster),
            step: Step::Begun,
            writings: Vec::new(),
            old,
            new,
        })
    }

    pub(super) fn within(&mut self, scope: Option<&LogicalCluster>) {
        self.around.within(scope);
    }

    pub(super) fn take_notes(&mut self) -> Vec<TableNote> {
        self.advance();
        self.desk.withdraw(|asked| matches!(asked, PendingRequest::Write(_)));
        let mut notes = Vec::new();
        for writing in &mut self.writings {
            let Recording::Own(write) = writing else { continue };
            let Some((table, entries)) = write.unread() else { continue };
            let (table, entries) = (table.clone(), entries.concat());
            *writing = Recording::Handed(table.clone(), None);
            notes.push(TableNote { cluster: self.desk.cluster().cloned(), table, entries });
        }
        notes
    }

    pub(super) fn noted(&mut self, table: &TableName, outcome: &Result<(), Unresolved>) {
        for writing in &mut self.writings {
            match writing {
                Recording::Handed(name, reported) if name == table => *reported = Some(outcome.clone()),
                Recording::Handed(..) | Recording::Own(_) => {}
            }
        }
        self.advance();
    }

    pub(super) fn is_writing(&self) -> bool {
        self.step == Step::Writes
    }

    pub(super) fn asks(&mut self) -> Vec<Ask> {
        self.advance();
        self.desk.hand_out()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.step == Step::Done && self.desk.is_clear()
    }

    pub(super) fn answer(&mut self, id: QueryId, answer: Answer<'_>) {
        match self.desk.take(id) {
            None => return,
            Some(PendingRequest::Around(around)) => {
                self.around.answer(around, answer, &mut self.desk, PendingRequest::Around);
            }
            Some(PendingRequest::Unlock) => self.permission = Permission::Pending(Some(access::read(answer))),
            Some(PendingRequest::Write(index)) => {
                if let Some(Recording::Own(write)) = self.writings.get_mut(index) {
                    write.answer(answer);
                }
                self.send_write(index);
            }
        }
        self.advance();
    }

    /// Takes the next steps, as long as all requests are answered.
    fn advance(&mut self) {
        while self.desk.is_clear() && self.step != Step::Done {
            match self.step {
                Step::Begun => {
                    self.step = Step::Permission;
                    self.ask_permission();
                }
                Step::Permission => {
                    self.step = Step::Writes;
                    if !self.dry_run && self.around.is_out_of_bounds().is_none() && self.permitted().is_some() {
                        self.ask_writes();
                    }
                }
                Step::Writes | Step::Done => self.step = Step::Done,
            }
        }
    }

    fn ask_permission(&mut self) {
        let mut around = self.around.ask_bounds();
        if let (Permission::Pending(_), Some(old)) = (&self.permission, &self.old) {
            if self.releases() {
                around.extend(self.around.ask_teardown());
            }
            // The rights of the control plane don't count: a tenant can make it act, for example by an
            // ownerReference.
            let name = self.requester.username();
            if !name.is_empty() && !is_control_plane(name) {
                let body = access::question(&self.requester, access::UNLOCK, old.kind(), old.namespace(), old.name());
                self.desk.send(PendingRequest::Unlock, Verb::Create, access::PATH.to_owned(), body);
            }
        }
        self.around.send(around, &mut self.desk, PendingRequest::Around);
    }

    fn ask_writes(&mut self) {
        let tables = self.new.as_ref().map(tables_of).unwrap_or_default();
        let write = |(name, entries)| Recording::Own(TableWrite::new(name, vec![entries]));
        self.writings = tables.into_iter().map(write).collect();
        for index in 0..self.writings.len() {
            self.send_write(index);
        }
    }

    fn send_write(&mut self, index: usize) {
        let Some(Recording::Own(write)) = self.writings.get(index) else { return };
        match write.request(None) {
            Some(Ask::Get(query)) => self.desk.get(PendingRequest::Write(index), query.path),
            Some(Ask::Send(send)) => self.desk.send(PendingRequest::Write(index), send.verb, send.path, send.body),
            None => {}
        }
    }

    /// Returns true if the review deletes a lock that releases its objects during a teardown.
    fn releases(&self) -> bool {
        let is_deletion = self.new.is_none();
        is_deletion && self.old.as_ref().is_some_and(|old| old.during_teardown() == DuringTeardown::Release)
    }

    fn permitted(&self) -> Option<AllowReason> {
        match &self.permission {
            Permission::Given(reason) => Some(*reason),
            Permission::Pending(_) if self.releases() && self.around.is_going() => Some(AllowReason::Teardown),
            Permission::Pending(Some(Ok(true))) => Some(AllowReason::Unlock),
            Permission::Pending(_) => None,
        }
    }

    pub(super) fn decide(self) -> LockDecision {
        let locks = vec![self.lock.clone()];
        let undecided = |problems| Refusal::Undecided { object: Some(self.lock.clone()), problems };
        if let Some(problem) = self.around.is_out_of_bounds() {
            return LockDecision::refuse(undecided(vec![problem]), locks);
        }
        let Some(reason) = self.permitted() else {
            let mut problems = if self.releases() { self.around.unread() } else { Vec::new() };
            let asked = self.desk.unanswered().any(|asked| matches!(asked, PendingRequest::Unlock));
            let why = match &self.permission {
                Permission::Pending(Some(Err(why))) => Some(why.clone()),
                _ => asked.then(unanswered),
            };
            problems.extend(why.map(|why| why.about("the SubjectAccessReview of the verb unlock")));
            return LockDecision::refuse(Refusal::Guarded { lock: self.lock, problems }, locks);
        };
        let mut problems: Vec<_> = self.writings.iter().filter_map(|writing| writing.outcome().err()).collect();
        if self.step != Step::Done && problems.is_empty() {
            problems.push(unanswered().about("the write of its LockTables"));
        }
        if problems.is_empty() {
            LockDecision::allow(reason, locks)
        } else {
            LockDecision::refuse(Refusal::Unrecorded { lock: self.lock, problems }, locks)
        }
    }
}

impl Recording {
    /// Returns `Ok` if the lock is in the table. The error is a whole sentence.
    fn outcome(&self) -> Result<(), Unresolved> {
        match self {
            Self::Own(write) => write.outcome(0),
            Self::Handed(_, Some(reported)) => reported.clone(),
            Self::Handed(table, None) => Err(unanswered().about(format_args!("the write of LockTable {table}"))),
        }
    }
}

/// Returns the error of a lock that can't be used.
fn unusable(control_plane: ControlPlane, lock: &Lock) -> Option<String> {
    let mut targets = lock.targets().iter().enumerate();
    let mut unplaced = || targets.find_map(|(index, target)| Some((index, target.subresource_without_cluster()?)));
    match (lock.problem(), control_plane) {
        (Some(problem), _) => Some(problem.to_string()),
        // A review of such a subresource doesn't name its logical cluster either, so every request to the subresource
        // would be refused, for any object.
        (None, ControlPlane::Kcp) => unplaced().map(|(index, name)| {
            format!(
                "spec.targets[{index}].resource names the subresource {name}, whose reviews name no logical cluster on \
                 kcp: lock the object itself"
            )
        }),
        (None, ControlPlane::Kubernetes) => None,
    }
}

fn unreadable(kind: LockKind, why: &str) -> LockDecision {
    LockDecision::unreadable(Some(kind.kind()), why)
}
