//! `graph` and `order`: drawings, the order of deletion, and the deletion itself.

mod deleting;
mod files;
mod graph;
mod owners;
mod stage;
