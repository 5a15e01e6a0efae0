//! Commands, one file or folder each.

pub(crate) mod completion;
pub(crate) mod dangling;
pub(crate) mod graph;
pub(crate) mod impact;
pub(crate) mod import;
pub(crate) mod install;
pub(crate) mod lint;
pub(crate) mod order;
pub(crate) mod rules;
pub(crate) mod status;
pub(crate) mod suggest;
pub(crate) mod test;
pub(crate) mod trace;
pub(crate) mod ui;
pub(crate) mod uninstall;
pub(crate) mod unused;
pub(crate) mod version;
pub(crate) mod why;

mod reports;

pub use self::reports::report_schema;
