pub(crate) mod answers;
pub(crate) mod built_in_fields;
pub(crate) mod kind_facts;
pub(crate) mod kind_reader;
pub(crate) mod local_target;
pub(crate) mod openapi;
pub mod rule_check;
