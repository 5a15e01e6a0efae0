//! Tests of the controller against the testbed: its configurations, what it leaves alone, and its statuses.

mod bed;
mod dangling;
mod flood;
mod hook;
mod kubernetes;
mod liars;
mod locks;
mod owners;
mod references;
mod registers;
mod removal;
mod rounds;
mod takeover;
mod together;
