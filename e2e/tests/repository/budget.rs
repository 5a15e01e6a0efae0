//! Budget of lines: budget.txt beside this file has the numbers, and whoever raises one says why in the commit.
//!
//! `DEPGUARD_WRITE=1 cargo test -p depguard-e2e --test repository budget` writes the numbers of today and one in a hundred more.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files;

const CRATES: [&str; 5] =
    ["depguard-core", "depguard-kcp", "depguard-webhook", "depguard-controller", "kubectl-depguard"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the lines of a source file that are neither blank nor comments, up to the tests in the file.
fn source_lines(code: &str) -> usize {
    let own = code.lines().map(str::trim).take_while(|line| !line.starts_with("#[cfg(test)]"));
    own.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// Returns the sum of a count over the files of a folder with an extension, but those of tests.
fn sum(folder: &Path, extension: &str, count: impl Fn(&str) -> usize) -> usize {
    let is_of_tests = |path: &Path| path.iter().any(|part| part == "tests" || part == "tests.rs");
    let files = files(folder, extension).into_iter().filter(|file| !is_of_tests(file.strip_prefix(folder).unwrap()));
    files.map(|file| count(&fs::read_to_string(file).unwrap())).sum()
}

/// Returns the numbers of today, each with its name.
fn spent() -> Vec<(String, usize)> {
    let source = CRATES.map(|name| (name.to_owned(), sum(&root().join(name).join("src"), "rs", source_lines)));
    let all = source.iter().map(|(_, lines)| lines).sum();
    let public = fs::read_to_string(root().join("depguard-core/public-api.txt")).unwrap().lines().count();
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let rest = [
        ("source of these crates".to_owned(), all),
        ("documents".to_owned(), sum(&root(), "md", |text| text.lines().count())),
        ("public items of depguard-core".to_owned(), public),
        ("packages in Cargo.lock".to_owned(), lock.matches("\n[[package]]\n").count()),
    ];
    source.into_iter().chain(rest).collect()
}

/// Returns what is beyond its budget, or so far below that the budget should be lowered.
fn misfits(budget: &str, spent: &[(String, usize)]) -> Vec<String> {
    let allowed =
        |name: &str| budget.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok());
    let misfit = |(name, spent): &(String, usize)| match allowed(name) {
        None => Some(format!("{name}: no budget, and {spent} spent")),
        Some(allowed) if *spent > allowed => Some(format!("{name}: {spent}, and {allowed} are allowed")),
        Some(allowed) if spent + spent / 50 < allowed => Some(format!("{name}: only {spent} of {allowed}: lower it")),
        Some(_) => None,
    };
    spent.iter().filter_map(misfit).collect()
}

#[test]
fn nothing_grows_beyond_its_budget() {
    let path = root().join("e2e/tests/repository/budget.txt");
    let spent = spent();
    if std::env::var_os("DEPGUARD_WRITE").is_some() {
        let lines = spent.iter().map(|(name, spent)| format!("{name}: {}\n", spent + spent / 100));
        fs::write(&path, lines.collect::<String>()).unwrap();
    }
    let budget = fs::read_to_string(path).unwrap();
    assert_eq!(misfits(&budget, &spent), [""; 0], "raise or lower budget.txt, and say why in the commit");
    assert_eq!(misfits("", &spent).len(), spent.len());
    let more: Vec<_> = spent.iter().map(|(name, spent)| (name.clone(), spent + spent / 50 + 1)).collect();
    assert_eq!(misfits(&budget, &more).len(), more.len());
    let fewer: Vec<_> = spent.iter().map(|(name, spent)| (name.clone(), spent / 2)).collect();
    assert_eq!(misfits(&budget, &fewer).len(), fewer.len());
    assert_eq!(source_lines("//! Doc\n\nfn f() {} // x\n    // y\n#[cfg(test)]\nmod tests {}\n"), 1);
}
