//! Start and end of a program that plays several roles.

use std::process::ExitCode;

use crate::Result;

/// Allocator of the stock programs, which the roles run.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the work and returns its exit code: a failure if the work could not be done, or had a wrong result.
pub(crate) fn run(name: &str, work: impl Future<Output = Result<bool>>) -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(work);
    // A role reads its standard input in a thread that would not end by itself.
    runtime.shutdown_background();
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
