//! The rules that are in force, as one value that is exchanged whole.

use std::sync::Arc;

use arc_swap::ArcSwap;
use depguard_core::{ExportName, Home, Inquiry, RuleSet, Workspaces};
use depguard_kcp::Connection;

use crate::registry;

/// The rules in force. Clones share them: what is loaded through one, all decide by from then on.
#[derive(Debug, Clone)]
pub struct Rules {
    current: Arc<ArcSwap<Snapshot>>,
}

/// What is known of the rules at one moment.
#[derive(Debug)]
pub(crate) enum Snapshot {
    /// All of them.
    Loaded { rules: RuleSet, workspaces: Workspaces },
    /// Not all of them, and what is missing. Nothing can be decided: the missing one may forbid it.
    NotLoaded { why: String },
}

impl Rules {
    /// No rules yet: until they are loaded, every review is refused, and `why` is said.
    pub fn not_loaded_yet(why: impl Into<String>) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(Snapshot::NotLoaded { why: why.into() })) }
    }

    /// Puts a complete set of rules in force, with the workspace paths that they may name (none in home kubernetes).
    pub fn load(&self, rules: RuleSet, workspaces: Workspaces) {
        self.current.store(Arc::new(Snapshot::Loaded { rules, workspaces }));
    }

    /// The rules can't be relied on any more: until they are loaded again, every review is refused, and `why` is said.
    pub fn lose(&self, why: impl Into<String>) {
        self.current.store(Arc::new(Snapshot::NotLoaded { why: why.into() }));
    }

    /// Keeps the rules those that the API server holds, as the stock webhook does: in home kcp those of every workspace
    /// that has bound `export_name`, which home kubernetes doesn't use.
    ///
    /// It never ends. Dropped, it leaves no rules: what nobody follows must not decide.
    pub async fn follow(self, connection: Connection, home: Home, export_name: ExportName) {
        let mirror = registry::watch(&connection, home, export_name);
        registry::run(mirror, connection, home, self).await;
    }

    /// Why nothing can be decided; `None` where all rules are loaded.
    pub fn not_loaded(&self) -> Option<String> {
        match &*self.current.load_full() {
            Snapshot::Loaded { .. } => None,
            Snapshot::NotLoaded { why } => Some(why.clone()),
        }
    }

    /// Answers a controller that asks which rules are in force.
    pub(crate) fn tell(&self, inquiry: &Inquiry) -> Vec<u8> {
        match &*self.snapshot() {
            Snapshot::Loaded { rules, .. } => inquiry.answer(Ok(rules)),
            Snapshot::NotLoaded { why } => inquiry.answer(Err(why)),
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }
}
