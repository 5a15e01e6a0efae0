//! How a program that plays several roles begins and ends.

use std::process::ExitCode;

use crate::Result;

/// Does the work and tells how it went: failed where it could not be done, or was not as it should be.
pub(crate) fn run(name: &str, work: impl Future<Output = Result<bool>>) -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(work);
    // A role reads its standard input in a thread that nothing else would end.
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
