//! `dangling`, `impact`, `trace` and `unused`: references between objects, in files and on API servers.

mod beside_a_server;
pub(crate) mod completed;
pub(crate) mod files;
mod flawed;
mod given;
mod live;
mod members;
mod namespace_user;
mod passed_over;
pub(crate) mod scene;
mod selection;
mod several;
mod trace;
mod unused;
