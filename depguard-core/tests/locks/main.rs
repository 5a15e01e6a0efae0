//! Tests of locks: each refusal has a twin one edit away that is allowed; properties; and a search through events that
//! may happen at the same time.

mod changes;
mod compat;
mod expiry;
mod guard;
mod holders;
mod kcp;
mod never;
mod race;
mod refused;
mod tables;
mod world;
