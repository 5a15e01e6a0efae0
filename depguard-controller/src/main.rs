//! The stock controller.

use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::Parser;
use depguard_controller::cli::Cli;
use tokio::runtime::Builder;

/// An allocator that gives memory back soon, so that a flood leaves room for the next one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Two threads at least: a round that computes for long on one of them keeps nobody from renewing the Lease.
    let threads = available_parallelism().map_or(2, |cores| cores.get().max(2));
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let ran = match runtime {
        Ok(runtime) => runtime.block_on(Cli::parse().run()).map_err(|why| why.to_string()),
        Err(why) => Err(format!("could not start its threads: {why}")),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("depguard-controller: {why}");
            ExitCode::FAILURE
        }
    }
}
