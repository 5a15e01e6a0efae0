//! Rules in force, as one value that is replaced as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use depguard_core::freshness::KnownRules;
use depguard_core::{ControlPlane, ExportName, LogicalCluster, RuleSet, Workspaces};
use depguard_kcp::{Allowance, Connection, Snapshot};

use crate::rules::rule_watcher::{self, RuleWatch};

/// Rules in force. Clones share them: rules that are loaded through one clone count for all.
#[derive(Debug, Clone)]
pub struct Rules {
    current: Arc<ArcSwap<RulesState>>,
}

/// State of the rules at one moment.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one state at a time, behind an Arc")]
pub(crate) enum RulesState {
    /// All rules are loaded.
    Loaded(Loaded),
    /// Some rules are missing, for this reason. Nothing can be decided: a missing rule may forbid it.
    NotLoaded { why: String },
}

/// Loaded rules, with the known facts about their workspaces.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) rules: RuleSet,
    pub(crate) workspaces: Workspaces,
    pub(crate) doubt: Option<Doubt>,
    pub(crate) departed: Option<Departed>,
}

/// Doubt about the rules: not all can be followed any more. For a single deletion, the rules that matter may be proved
/// to be unchanged.
#[derive(Debug)]
pub(crate) struct Doubt {
    pub(crate) why: String,
    pub(crate) known: Arc<KnownRules>,
}

/// Workspaces that had bound depguard, and show no APIBinding of it any more.
#[derive(Debug)]
pub(crate) struct Departed {
    /// APIExport of depguard.
    pub(crate) own: (LogicalCluster, ExportName),
    pub(crate) clusters: Arc<BTreeSet<LogicalCluster>>,
}

impl Rules {
    /// Makes a value without rules: until they are loaded, every review is refused with the reason `why`.
    pub fn not_loaded_yet(why: impl Into<String>) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(RulesState::NotLoaded { why: why.into() })) }
    }

    /// Puts a complete set of rules in force, with the workspace paths that the rules may name (none in plain
    /// kubernetes).
    pub fn load(&self, rules: RuleSet, workspaces: Workspaces) {
        self.put(Loaded { rules, workspaces, doubt: None, departed: None });
    }

    pub(crate) fn put(&self, loaded: Loaded) {
        self.current.store(Arc::new(RulesState::Loaded(loaded)));
    }

    /// Takes the rules out of force: until they are loaded again, every review is refused with the reason `why`.
    pub fn lose(&self, why: impl Into<String>) {
        self.current.store(Arc::new(RulesState::NotLoaded { why: why.into() }));
    }

    /// Follows the rules that the API server holds, as the stock webhook does: in kcp the rules of every workspace
    /// that has bound `export_name`, which plain Kubernetes doesn't use.
    ///
    /// Never ends. When it is dropped, no rules are left: rules that nobody follows must not decide.
    pub async fn follow(self, connection: Connection, control_plane: ControlPlane, export_name: ExportName) {
        let reflector = rule_watcher::watch(&connection, control_plane, export_name.clone(), Allowance::DEFAULT);
        let following = RuleWatch { reflector, connection, control_plane, export_name, patience: Snapshot::PATIENCE };
        rule_watcher::run(following, self).await;
    }

    /// Returns the reason why nothing can be decided; `None` if all rules are loaded.
    pub fn not_loaded(&self) -> Option<String> {
        match &*self.current.load_full() {
            RulesState::Loaded(_) => None,
            RulesState::NotLoaded { why } => Some(why.clone()),
        }
    }

    /// Returns the reason why not all rules can be followed, while rules are proved one deletion at a time.
    pub(crate) fn doubt(&self) -> Option<String> {
        match &*self.current.load_full() {
            RulesState::Loaded(loaded) => loaded.doubt.as_ref().map(|doubt| doubt.why.clone()),
            RulesState::NotLoaded { .. } => None,
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<RulesState> {
        self.current.load_full()
    }
}
