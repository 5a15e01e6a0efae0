//! TLS, servers and connections.

pub(crate) mod listener;
pub(crate) mod pool;
pub(crate) mod ports;
pub(crate) mod tls;
pub(crate) mod webhook_server;
