//! `dangling` and `impact`: what refers to what, in files and on API servers.

mod files;
#[path = "../order/tool.rs"]
mod tool;
