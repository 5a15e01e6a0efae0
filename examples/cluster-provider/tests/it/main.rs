//! Tests of the provider on testbeds: the whole play, the two commands of its deployment, kcp in trouble, and its
//! webhook beside depguard's own.

mod guard;
mod play;
mod program;
mod trouble;
