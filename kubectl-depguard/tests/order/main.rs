//! `graph` and `order`: what is drawn, in which order objects go, and that they do.

mod graph;
mod tool;
