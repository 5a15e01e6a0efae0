//! `graph` and `order`: what is drawn, in which order objects go, and that they do.

mod deleting;
mod files;
mod graph;
mod owners;
mod stage;
mod tool;
