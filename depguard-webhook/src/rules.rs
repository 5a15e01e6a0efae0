//! The rules that are in force, as one value that is exchanged whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use depguard_core::{ExportName, Home, KnownRules, LogicalCluster, RuleSet, Workspaces};
use depguard_kcp::{Allowance, Connection, MirrorState};

use crate::registry::{self, Following};

/// The rules in force. Clones share them: what is loaded through one, all decide by from then on.
#[derive(Debug, Clone)]
pub struct Rules {
    current: Arc<ArcSwap<Snapshot>>,
}

/// What is known of the rules at one moment.
#[derive(Debug)]
pub(crate) enum Snapshot {
    /// All of them.
    Loaded(Loaded),
    /// Not all of them, and what is missing. Nothing can be decided: the missing one may forbid it.
    NotLoaded { why: String },
}

/// Rules that are loaded, and what is known of the workspaces that they lie in.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) rules: RuleSet,
    pub(crate) workspaces: Workspaces,
    pub(crate) doubt: Option<Doubt>,
    pub(crate) departed: Option<Departed>,
}

/// Not all rules can be followed any more. Those that matter to one deletion may be proved to be what they were.
#[derive(Debug)]
pub(crate) struct Doubt {
    pub(crate) why: String,
    pub(crate) known: Arc<KnownRules>,
}

/// Workspaces that had bound depguard, and show no APIBinding of it any more.
#[derive(Debug)]
pub(crate) struct Departed {
    /// depguard's APIExport.
    pub(crate) own: (LogicalCluster, ExportName),
    pub(crate) clusters: Arc<BTreeSet<LogicalCluster>>,
}

impl Rules {
    /// No rules yet: until they are loaded, every review is refused, and `why` is said.
    pub fn not_loaded_yet(why: impl Into<String>) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(Snapshot::NotLoaded { why: why.into() })) }
    }

    /// Puts a complete set of rules in force, with the workspace paths that they may name (none in home kubernetes).
    pub fn load(&self, rules: RuleSet, workspaces: Workspaces) {
        self.put(Loaded { rules, workspaces, doubt: None, departed: None });
    }

    pub(crate) fn put(&self, loaded: Loaded) {
        self.current.store(Arc::new(Snapshot::Loaded(loaded)));
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
        let mirror = registry::watch(&connection, home, export_name.clone(), Allowance::DEFAULT);
        let following = Following { mirror, connection, home, export_name, patience: MirrorState::PATIENCE };
        registry::run(following, self).await;
    }

    /// Why nothing can be decided; `None` where all rules are loaded.
    pub fn not_loaded(&self) -> Option<String> {
        match &*self.current.load_full() {
            Snapshot::Loaded(_) => None,
            Snapshot::NotLoaded { why } => Some(why.clone()),
        }
    }

    /// Why not all rules can be followed, where those that matter to a deletion are proved one deletion at a time.
    pub(crate) fn doubt(&self) -> Option<String> {
        match &*self.current.load_full() {
            Snapshot::Loaded(loaded) => loaded.doubt.as_ref().map(|doubt| doubt.why.clone()),
            Snapshot::NotLoaded { .. } => None,
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }
}
