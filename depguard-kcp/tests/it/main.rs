//! The adapters against servers: one that answers what a test says, and the testbed.

mod caller;
mod connection;
mod mirror;
mod server;
mod testbed;
mod transport;
mod views;
