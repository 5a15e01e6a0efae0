//! Writes of notes to registers, by the replicas.

use std::collections::BTreeSet;
use std::sync::Arc;

use depguard_core::interlock::{Ask, Note, Outcome, Register, RegisterName, RegisterWrite};

use depguard_core::protocol::{StoredRead, WriteResult, WriteStep};

use crate::careless;
use crate::guard::Guard;
use crate::model::Interlock;
use crate::review::lost;
use crate::state::{Batch, Phase, State};

impl Interlock {
    /// Returns the lane of a request, whose notes are written together.
    pub(crate) fn lane(&self, index: usize) -> u8 {
        match self.world.merges {
            true => self.world.requests[index].replica,
            false => u8::try_from(index).unwrap_or(u8::MAX),
        }
    }

    /// Returns the notes that reviews of a lane ask to record, with their requests.
    pub(crate) fn pending(&self, state: &State, lane: u8, register: RegisterName) -> Vec<(usize, Note)> {
        let mut pending = Vec::new();
        for (index, request) in state.requests.iter().enumerate().filter(|(index, _)| self.lane(*index) == lane) {
            let Phase::Review(review) = &request.phase else { continue };
            for ask in &review.asks {
                match ask {
                    Ask::Record(name, note) if *name == register => pending.push((index, note.clone())),
                    _ => {}
                }
            }
        }
        pending
    }

    pub(crate) fn begin_batch(&self, state: &mut State, lane: u8, register: RegisterName, is_descending: bool) {
        let mut pending = self.pending(state, lane, register);
        if is_descending {
            pending.reverse();
        }
        let (members, notes): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
        let writes = match self.world.lacks(Guard::JudgedAsWritten) {
            true => notes.into_iter().map(|note| RegisterWrite::new(register, vec![note])).collect(),
            false => vec![RegisterWrite::new(register, notes)],
        };
        state.batches.insert((lane, register), Arc::new(Batch { writes, members }));
    }

    /// Reads or writes the register for a batch.
    pub(crate) fn step(&self, state: &mut State, lane: u8, name: RegisterName, mode: StepMode) {
        let mut batch = (*state.batches[&(lane, name)]).clone();
        let current = state.registers[&name].clone();
        match to_write(&batch) {
            None => {
                let read = match (mode, current) {
                    (StepMode::Lost, _) => StoredRead::Unknown(lost()),
                    (StepMode::Stale, _) => match &state.stale {
                        Some(stale) => StoredRead::Stored(Box::new((**stale).clone())),
                        None => return,
                    },
                    (StepMode::Plain, Some(register)) => StoredRead::Stored(Box::new((*register).clone())),
                    (StepMode::Plain, None) => StoredRead::Absent,
                };
                for write in &mut batch.writes {
                    write.read(read.clone());
                }
            }
            Some(register) => {
                let result = match mode {
                    StepMode::Lost => {
                        state.late.insert(Arc::new(register));
                        WriteResult::Unknown(lost())
                    }
                    StepMode::Plain | StepMode::Stale => match self.put(state, &register, Guard::WriteByVersion) {
                        true => WriteResult::Stored,
                        false => WriteResult::Conflict,
                    },
                };
                for write in &mut batch.writes {
                    write.written(result.clone());
                }
            }
        }
        if batch.writes.iter().any(|write| write.step().is_some()) {
            let is_read = to_write(&batch).is_some();
            state.batches.insert((lane, name), Arc::new(batch));
            // A write after which the register has changed would begin anew, so nothing is lost if both are one step.
            if is_read && self.world.is_coarse {
                self.step(state, lane, name, mode);
            }
            return;
        }
        state.batches.remove(&(lane, name));
        for (note, index) in batch.members.iter().enumerate() {
            let Phase::Review(review) = &mut Arc::make_mut(&mut state.requests[*index]).phase else { continue };
            let outcome = batch.outcome(note);
            review.is_marked |= outcome == Outcome::Recorded;
            review.advance(|evaluation| evaluation.recorded(name, outcome));
        }
    }

    /// Writes a register, if its version is the stored one.
    pub(crate) fn put(&self, state: &mut State, register: &Register, guard: Guard) -> bool {
        let Some(current) = state.registers[&register.name()].clone() else { return false };
        if !is_same_version(&current, register) && !self.world.lacks(guard) {
            return false;
        }
        let version = free_version(state);
        let stored = careless::restamped(register, &version);
        let has_open_mark =
            |register: &Register| register.marks().any(|(_, marks)| marks.shared.is_some_and(|it| it.is_open));
        if self.world.lacks(Guard::SharedReadAfterReview) && has_open_mark(&current) {
            state.stale = Some(current);
        }
        state.registers.insert(register.name(), Some(Arc::new(stored)));
        if self.world.is_coarse {
            self.see(state, register.name());
        }
        true
    }
}

/// Fate of a read or a write of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepMode {
    /// It is answered.
    Plain,
    /// A read is answered with an earlier state of the register.
    Stale,
    /// The answer is lost.
    Lost,
}

/// Returns the register that a batch writes next; `None` if the batch reads.
pub(crate) fn to_write(batch: &Batch) -> Option<Register> {
    let registers: Vec<_> = batch
        .writes
        .iter()
        .filter_map(|write| match write.step() {
            Some(WriteStep::Write(register)) => Some(register),
            Some(WriteStep::Read(_)) | None => None,
        })
        .collect();
    match registers[..] {
        [only] => Some(only.clone()),
        _ => careless::union(&registers),
    }
}

pub(crate) fn is_same_version(one: &Register, other: &Register) -> bool {
    (one.uid(), one.resource_version()) == (other.uid(), other.resource_version())
}

/// Returns a version that nobody holds. Versions that nobody holds tell states apart for no reason, so they are used
/// again.
pub(crate) fn free_version(state: &State) -> String {
    let mut used: BTreeSet<String> = BTreeSet::new();
    let mut use_of = |register: &Register| used.extend(register.resource_version().map(str::to_owned));
    state.registers.values().flatten().for_each(|register| use_of(register));
    state.late.iter().chain(&state.cleaning).chain(&state.stale).for_each(|register| use_of(register));
    for write in state.batches.values().flat_map(|batch| &batch.writes) {
        if let Some(WriteStep::Write(register)) = write.step() {
            use_of(register);
        }
    }
    (0..=used.len()).map(|number| number.to_string()).find(|version| !used.contains(version)).unwrap_or_default()
}
