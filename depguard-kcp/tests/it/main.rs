//! Tests of the adapters against servers: a scripted one, and the testbed.

mod caller;
mod connection;
mod overrides;
mod reflector;
mod server;
mod testbed;
mod transport;
mod views;
