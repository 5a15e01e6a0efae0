//! Tests of the interlock: registers and their wire form, the evaluations of both sides step by step, and the cleaner.
//! All interleavings of small worlds are in the crate `depguard-proof`.

mod cast;
mod cleaner;
mod evaluations;
mod notes;
mod wire;
mod writes;
