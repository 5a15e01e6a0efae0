//! Streams, formats and exit codes of a command.

pub(crate) mod age;
pub(crate) mod ci_formats;
pub(crate) mod exit;
pub(crate) mod graph_formats;
pub(crate) mod output;
pub(crate) mod report;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod tree;
pub(crate) mod xml;
