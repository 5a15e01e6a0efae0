//! The provider on testbeds: all it does, the two commands it is deployed by, kcp in trouble, and its webhook beside
//! depguard's own.

mod guard;
mod play;
mod program;
mod trouble;
