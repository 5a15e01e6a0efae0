mod loaded_rules;

pub mod canary;

pub use loaded_rules::{Loaded, LoadedError, LoadedRule, LoadedRulesRequest};
