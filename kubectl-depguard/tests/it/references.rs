//! `dangling` and `impact`: references between objects, in files and on API servers.

mod files;
mod live;
mod passed_over;
pub(crate) mod scene;
