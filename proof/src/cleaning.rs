//! The controller: it looks at registers, and writes them without the marks that nobody needs any more.

use std::sync::Arc;
use std::time::Duration;

use depguard_core::interlock::{AgingPart, Cleaner, Dependent, Register, RegisterName};

use crate::careless;
use crate::guard::Guard;
use crate::model::Interlock;
use crate::review::uid;
use crate::state::State;

impl Interlock {
    pub(crate) fn new_cleaner(&self) -> Arc<Cleaner> {
        Arc::new(Cleaner::new(Duration::from_secs(self.keep().into())))
    }

    /// Looks at a register. Returns false if nothing is to be written, and nothing was seen for the first time.
    pub(crate) fn look(&self, state: &mut State, name: RegisterName, time: Duration, has_news: bool) -> bool {
        let before = self.ages(state);
        let without_news = has_news.then(|| self.looked(&mut state.clone(), name, time, false));
        let cleaned = self.looked(state, name, time, has_news);
        // News that change nothing are no news.
        if without_news.is_some_and(|without_news| without_news == cleaned) {
            return false;
        }
        let sees_news = cleaned.is_some() || (!self.world.is_timeless && !has_news && self.ages(state) != before);
        state.cleaning = cleaned.map(Arc::new);
        sees_news
    }

    /// Has the cleaner see the marks of a register at once. If it saw them later, it would only keep them longer.
    pub(crate) fn see(&self, state: &mut State, name: RegisterName) {
        self.looked(state, name, state.time(), false);
    }

    /// Writes the register that the cleaner has decided upon.
    pub(crate) fn clean(&self, state: &mut State) {
        if let Some(register) = state.cleaning.take() {
            self.put(state, &register, Guard::CleanByVersion);
        }
    }

    fn looked(&self, state: &mut State, name: RegisterName, time: Duration, has_news: bool) -> Option<Register> {
        let register = state.registers[&name].clone()?;
        let by_name = self.world.lacks(Guard::StoredByUid);
        let is_stored = |dependent: &Dependent| {
            let name = self.dependents.iter().position(|key| key == dependent.key());
            let is_there =
                name.and_then(|name| u8::try_from(name).ok()).is_some_and(|name| state.dependents.contains_key(&name));
            let is_created = || state.created.iter().any(|(index, attempt)| uid(*index, *attempt) == dependent.uid());
            has_news && ((by_name && is_there) || is_created())
        };
        let mut cleaner = (*state.cleaner).clone();
        let mut cleaned = cleaner.clean(&register, time, is_stored);
        if self.world.lacks(Guard::SharedKeptClosed) {
            cleaned = cleaned.map(|register| careless::without_closed_marks(&register));
        }
        if self.world.lacks(Guard::UpdateNotByUid) && has_news {
            let stored = |uid: &str| state.dependents.values().any(|dependent| dependent.uid == uid);
            let edited = careless::without_updates(cleaned.as_ref().unwrap_or(&register), stored);
            cleaned = cleaned.or_else(|| (edited != *register).then_some(edited));
        }
        state.cleaner = Arc::new(cleaner);
        cleaned
    }

    fn ages(&self, state: &State) -> Vec<(AgingPart, Duration)> {
        state.cleaner.ages(state.time()).map(|(_, part, age)| (part.clone(), age)).collect()
    }
}
