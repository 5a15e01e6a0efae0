//! Plays all worlds, and prints the number of their states and the counterexample that each missing guard has.
//!
//! `depguard-proof small` leaves the large worlds out. Words of a world's name choose that world alone.

use std::process::ExitCode;
use std::time::Instant;

use depguard_proof::{
    Guard, Report, TurnGuard, counterexample, counterexample_path, large, play, small, starved, starving_path, turns,
    visit,
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let filter = words.join(" ");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut is_proven = true;
    println!("{:>10} {:>11} {:>8}  world", "states", "steps", "seconds");
    let worlds = if filter == "small" { small() } else { small().into_iter().chain(large()).collect() };
    for world in worlds.into_iter().filter(|world| filter == "small" || world.name.contains(&filter)) {
        let (name, began) = (world.name, Instant::now());
        let Report { states, steps, violations, unreached } = visit(world, threads);
        println!("{states:>10} {steps:>11} {:>8.1}  {name}", began.elapsed().as_secs_f32());
        is_proven &= violations.is_empty() && unreached.is_empty();
        for (property, path) in violations {
            println!("VIOLATED: {property}");
            print(&path);
        }
        for property in unreached {
            println!("NEVER REACHED: {property}");
        }
    }
    for world in turns().into_iter().filter(|world| filter == "small" || world.name.contains(&filter)) {
        let (states, broken) = play(world);
        println!("{states:>10} {:>11} {:>8}  {}", "", "", world.name);
        broken.iter().for_each(|property| println!("VIOLATED: {property}"));
        is_proven &= broken.is_empty();
    }
    if filter.is_empty() || filter == "small" {
        for guard in TurnGuard::ALL {
            let world = starved(guard);
            println!("\nwithout {guard:?}: {}", world.name);
            let path = starving_path(world);
            is_proven &= path.is_some();
            path.map_or_else(|| println!("NOBODY STARVES"), |path| path.iter().for_each(|step| println!("  {step:?}")));
        }
        for guard in Guard::ALL {
            is_proven &= play_without(guard);
        }
    }
    if is_proven { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the counterexample of a world without a guard. Returns false if there is none.
fn play_without(guard: Guard) -> bool {
    let (world, property) = counterexample(guard);
    println!("\nwithout {guard:?}: {}", world.name);
    let (path, states) = counterexample_path(world, property);
    match &path {
        Some(path) => {
            println!("not `{property}` after {states} states:");
            print(path);
        }
        None => println!("NO COUNTEREXAMPLE in {states} states"),
    }
    path.is_some()
}

fn print(path: &[String]) {
    for step in path {
        println!("  {step}");
    }
}
