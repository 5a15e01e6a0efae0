//! Commands as users run them: in files, and against the testbed.

mod bed;
mod built_in_kinds;
mod ci;
mod command_line;
mod completion;
mod foreign_files;
mod import;
mod lifecycle;
mod lint;
#[cfg(target_os = "linux")]
mod memory;
mod order;
mod packs;
mod page;
mod pages;
mod reference;
mod references;
mod reports;
mod server_flags;
mod suggest;
mod suites;
mod tool;
mod ui;
mod why;
