//! What the testbed plays, shown over the wire.

mod bed;
mod client;
mod fixtures;
mod hook;

mod bindings;
mod claims;
mod deletes;
mod plain;
mod watches;
mod webhooks;
mod workspaces;
