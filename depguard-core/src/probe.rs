mod loaded_rules;

pub mod dispatch_canary;

pub use loaded_rules::{Loaded, LoadedError, LoadedRule, LoadedRulesRequest};
