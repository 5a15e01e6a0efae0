//! Browser of the user's desktop.

use std::process::{Command, Stdio};

/// Opens an address; false if there is no desktop, or no program that opens addresses.
pub(super) fn open(address: &str) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = match cfg!(target_os = "macos") {
        true => "open",
        false if is_set("DISPLAY") || is_set("WAYLAND_DISPLAY") => "xdg-open",
        false => return false,
    };
    let started =
        Command::new(program).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.is_ok()
}
