pub(crate) mod active_rules;
pub(crate) mod bound_since;
pub(crate) mod rule_watcher;
