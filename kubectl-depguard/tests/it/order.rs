//! `graph` and `order`: drawings, the order of deletion, and the deletion itself.

mod between_waves;
mod deleting;
mod files;
mod graph;
mod named;
mod owners;
mod stage;
mod unguarded;
mod waiting;
