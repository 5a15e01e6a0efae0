//! What the testbed plays, shown over the wire.

mod bed;
mod client;
mod fixtures;
mod hook;

mod admission;
mod bindings;
mod claims;
mod deletes;
mod discovery;
mod disturbed;
mod faults;
mod fill;
mod forms;
mod lists;
mod objects;
mod plain;
mod rbac;
mod shards;
mod stopping;
mod teardown;
mod watches;
mod webhooks;
mod workspaces;
