//! Removals in order while the controller is killed at its writes. `DEPGUARD_CRASH_GRAPHS` and `DEPGUARD_CRASH_SEED` draw
//! others.

use std::process::ExitCode;

use depguard_faults::Result;
use depguard_faults::crash::{Mistake, control, run};

/// As many graphs as there is time for on a busy machine.
const GRAPHS: usize = 9;

fn main() -> ExitCode {
    let done = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| runtime.block_on(all()));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("the crash run could not be carried out: {error}");
            ExitCode::from(2)
        }
    }
}

async fn all() -> Result<bool> {
    let number = |name, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let mut is_well = true;
    for mistake in Mistake::ALL {
        let seen = control(mistake).await?;
        println!("control, a {mistake:?} removal: {}", seen.first().map_or("NOT SEEN", String::as_str));
        is_well &= !seen.is_empty();
    }
    let graphs = number("DEPGUARD_CRASH_GRAPHS", GRAPHS);
    let summary = run(number("DEPGUARD_CRASH_SEED", 1) as u64, graphs).await?;
    for violation in &summary.violations {
        println!("violation: {violation}");
    }
    println!("{summary}");
    // That it was hard enough.
    Ok(is_well && summary.violations.is_empty() && summary.kills >= 10 * graphs)
}
