//! Tests of the testbed's behaviour over the wire.

mod bed;
mod client;
mod fixtures;
mod hook;

mod access;
mod admission;
mod bindings;
mod claims;
mod collector;
mod deletes;
mod discovery;
mod disturbed;
mod faults;
mod fill;
mod forms;
mod life;
mod lists;
mod objects;
mod patches;
mod plain;
mod rbac;
mod shards;
mod stopping;
mod subresources;
mod teardown;
mod tokens;
mod watches;
mod webhooks;
mod workspaces;
