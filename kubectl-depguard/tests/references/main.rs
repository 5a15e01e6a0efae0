//! `dangling` and `impact`: what refers to what, in files and on API servers.

#[path = "../lifecycle/bed.rs"]
#[allow(dead_code, reason = "each binary uses what it needs")]
mod bed;
mod files;
mod live;
mod scene;
#[path = "../order/tool.rs"]
mod tool;
