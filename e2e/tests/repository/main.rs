//! Repository itself: the order of its modules, its budget of lines, its public items, its packages, what registries show
//! of the chart, the container image, the manifest for krew, the refusals that its code can give, its workflows, and what
//! pages say about the chart, tested versions and good practices.

mod architecture;
mod budget;
mod chart;
mod chart_values;
mod compatibility;
mod image;
mod krew;
mod openssf;
mod owner;
mod packages;
mod public_api;
mod refusals;
mod switching;
mod workflows;

use std::path::{Path, PathBuf};

/// Returns the files of a folder with an extension, also those of its folders, but not of hidden ones and of builds.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let is_left_out = |name: &str| name == "target" || name.starts_with('.');
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| !is_left_out(&path.file_name().unwrap().to_string_lossy()));
    let of_entry = |path: PathBuf| match path.is_dir() {
        true => files(&path, extension),
        false if path.extension().is_some_and(|own| own == extension) => vec![path],
        false => Vec::new(),
    };
    entries.flat_map(of_entry).collect()
}
