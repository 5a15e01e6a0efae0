//! The controller against the testbed: what it installs, what it leaves, and what it says.

mod bed;
mod flood;
mod hook;
mod kubernetes;
mod liars;
mod locks;
mod owners;
mod removal;
mod rounds;
mod takeover;
mod together;
