//! `dangling` and `impact`: references between objects, in files and on API servers.

pub(crate) mod files;
mod live;
mod passed_over;
pub(crate) mod scene;
mod selection;
mod trace;
mod unused;
