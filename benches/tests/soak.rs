//! Soak test of some seconds, with the verdict of a long one.

use std::process::Command;

// What grows shows only over time, so this test lasts for seconds, however fast the machine is. `cargo test` is for each
// change; `.ci/run` also runs this test.
#[test]
#[ignore = "takes a quarter of a minute: .ci/run runs it"]
fn nothing_grows_while_deletions_are_reviewed() {
    let arguments = ["--seconds", "10", "--dependents", "600"];
    let done = Command::new(env!("CARGO_BIN_EXE_soak")).args(arguments).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    println!("{said}");
    assert!(done.status.success(), "{said}{complained}");
    assert!(said.contains("| wrong answers | 0 |"), "{said}");
}
