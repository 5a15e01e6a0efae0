//! `kubectl depguard`.

use std::process::ExitCode;

use kubectl_depguard::{Terminal, run};

#[tokio::main]
async fn main() -> ExitCode {
    run(std::env::args_os(), &mut Terminal::stdio()).await.into()
}
