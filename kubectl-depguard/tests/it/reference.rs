//! Check that the reference matches the code, and the man pages, which only a release's archive has.
//!
//! `DEPGUARD_WRITE=1 cargo test -p kubectl-depguard --test it reference` writes the reference, and
//! `DEPGUARD_MAN=FOLDER` the man pages.

mod man;
mod markdown;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use crate::reports::lost_properties;

const SCHEMA: &str = "reports.schema.json";
const HOW: &str = "`DEPGUARD_WRITE=1 cargo test -p kubectl-depguard --test it reference` writes it anew";

#[test]
fn the_reference_is_what_the_code_says() {
    let schema = kubectl_depguard::report_schema();
    let path = root().join("docs/reference").join(SCHEMA);
    if let Ok(old) = std::fs::read_to_string(path) {
        let lost = lost_properties(&serde_json::from_str(&old).unwrap(), &schema, "");
        assert!(lost.is_empty(), "the schema of reports lost {lost:?}, against the promise of docs/output.md");
    }
    let schema = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let pages = Program::all().map(|program| (format!("{}.md", program.name), markdown::print(&program.command)));
    let schema = (SCHEMA.to_owned(), schema);
    agree("docs/reference", pages.into_iter().chain([schema]).collect());
}

#[test]
fn each_command_has_a_man_page() {
    let pages = man::pages(&Program::all());
    for command in built().get_subcommands().filter(|command| !command.is_hide_set()) {
        let page = &pages[&format!("kubectl-depguard-{}.1", command.get_name())];
        let sections = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "\"EXIT STATUS\"", "ENVIRONMENT"];
        let missing: Vec<_> = sections.iter().filter(|section| !page.contains(&format!(".SH {section}\n"))).collect();
        assert!(missing.is_empty(), "{}: no {missing:?}", command.get_name());
    }
    for server in ["depguard-webhook.1", "depguard-controller.1", "depguard-controller-manifests.1"] {
        assert!(pages[server].contains("KUBECONFIG"), "{server}");
    }
    if let Some(folder) = std::env::var_os("DEPGUARD_MAN") {
        pages.iter().for_each(|(name, page)| std::fs::write(Path::new(&folder).join(name), page).unwrap());
    }
}

/// Program with a command line.
struct Program {
    name: &'static str,
    command: Command,
    /// Exit codes, and their meanings.
    exit_codes: &'static [(&'static str, &'static str)],
    /// Variables of the environment, and their meanings.
    environment: &'static [(&'static str, &'static str)],
}

impl Program {
    fn all() -> [Self; 3] {
        const SERVER_EXITS: &[(&str, &str)] = &[
            ("0", "The program was asked to stop, or has done its task."),
            ("1", "The program could not start, or its task failed; standard error says why."),
            ("2", "The command line is wrong."),
        ];
        const KUBECONFIG: (&str, &str) =
            ("KUBECONFIG", "Kubeconfig files, separated by colons; missing ones are left out.");
        const LOG: (&str, &str) = ("RUST_LOG", "Level of the log, as in RUST_LOG=debug.");
        const POD: (&str, &str) = (
            "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT",
            "API server of the pod's own service account, if no kubeconfig is named.",
        );
        const NAMESPACE: (&str, &str) = ("POD_NAMESPACE", "Value of --namespace.");
        let server = |name, command: Command, environment| Self {
            name,
            command: finished(command.name(name).bin_name(name)),
            exit_codes: SERVER_EXITS,
            environment,
        };
        [
            Self {
                name: "kubectl-depguard",
                command: built(),
                exit_codes: &[
                    ("0", "There is no problem."),
                    ("1", "The command found a problem of the kind that it looks for."),
                    ("2", "The command line is wrong, or the command failed or could not find out everything."),
                    ("141", "Nobody reads the output any more, as behind `head`."),
                ],
                environment: &[
                    KUBECONFIG,
                    (
                        "HOME",
                        "Folder of the default kubeconfig, .kube/config, and of what completion --install writes.",
                    ),
                    ("NO_COLOR", "Turns colours off, if it is not empty."),
                    ("PATH", "Folders in which completion --install looks for kubectl-depguard and shells."),
                    (
                        "XDG_DATA_HOME, XDG_CONFIG_HOME, BASH_COMPLETION_USER_DIR",
                        "Folders of shells' scripts, for completion --install.",
                    ),
                ],
            },
            server("depguard-webhook", depguard_webhook::cli::Cli::command(), &[KUBECONFIG, LOG, POD]),
            server("depguard-controller", depguard_controller::cli::Cli::command(), &[KUBECONFIG, LOG, POD, NAMESPACE]),
        ]
    }
}

/// Returns the command line, with the flags that every command inherits.
fn built() -> Command {
    finished(kubectl_depguard::command())
}

fn finished(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
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
