//! Check that the reference and the man pages match the code.
//!
//! `DEPGUARD_WRITE=1 cargo test -p kubectl-depguard --test it reference` writes them.

mod markdown;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Command;

use crate::reports::lost_properties;

const SCHEMA: &str = "reports.schema.json";
const HOW: &str = "`DEPGUARD_WRITE=1 cargo test -p kubectl-depguard --test it reference` writes it anew";

#[test]
fn the_reference_is_what_the_code_says() {
    let text = markdown::print(&built());
    let schema = kubectl_depguard::report_schema();
    let path = root().join("docs/reference").join(SCHEMA);
    if let Ok(old) = std::fs::read_to_string(path) {
        let lost = lost_properties(&serde_json::from_str(&old).unwrap(), &schema, "");
        assert!(lost.is_empty(), "the schema of reports lost {lost:?}, against the promise of docs/output.md");
    }
    let schema = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let files = [("kubectl-depguard.md".to_owned(), text), (SCHEMA.to_owned(), schema)];
    agree("docs/reference", BTreeMap::from(files));
}

#[test]
fn the_man_pages_are_what_the_code_says() {
    let mut pages = BTreeMap::new();
    print(&built(), &mut pages);
    agree("docs/man", pages);
}

#[test]
fn the_readme_has_a_row_for_each_command() {
    const ENDS: [&str; 2] = ["<!-- commands: from the code -->\n", "<!-- commands: end -->"];
    let path = root().join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(ENDS[0]).unwrap();
    let (_, after) = rest.split_once(ENDS[1]).unwrap();
    let table = markdown::commands_table(&built(), "docs/reference/kubectl-depguard.md");
    let current = format!("{before}{}{table}{}{after}", ENDS[0], ENDS[1]);
    if is_written() {
        std::fs::write(path, &current).unwrap();
    } else {
        assert!(readme == current, "the README's table of commands is not what the code says: {HOW}");
    }
}

/// Returns the command line, with the flags that every command inherits.
fn built() -> Command {
    let mut command = kubectl_depguard::command().disable_help_subcommand(true);
    command.build();
    command
}

/// Writes the page of a command, and the pages of its subcommands.
fn print(command: &Command, pages: &mut BTreeMap<String, String>) {
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render(&mut page).unwrap();
    pages.insert(man.get_filename(), String::from_utf8(page).unwrap());
    command.get_subcommands().filter(|below| !below.is_hide_set()).for_each(|below| print(below, pages));
}

/// Checks that the folder has exactly these files, or writes them if the environment says so.
fn agree(folder: &str, files: BTreeMap<String, String>) {
    let path = root().join(folder);
    if is_written() {
        std::fs::create_dir_all(&path).unwrap();
        there(&path)
            .iter()
            .filter(|file| !files.contains_key(*file))
            .for_each(|file| std::fs::remove_file(path.join(file)).unwrap());
        files.iter().for_each(|(file, text)| std::fs::write(path.join(file), text).unwrap());
    }
    assert_eq!(there(&path), files.keys().cloned().collect::<Vec<_>>(), "{folder} has other files: {HOW}");
    for (file, text) in files {
        let found = std::fs::read_to_string(path.join(&file)).unwrap();
        assert!(found == text, "{folder}/{file} is not what the code says: {HOW}");
    }
}

fn is_written() -> bool {
    std::env::var_os("DEPGUARD_WRITE").is_some()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn there(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
