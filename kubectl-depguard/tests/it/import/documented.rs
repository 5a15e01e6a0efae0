//! Test of docs/import.md: runs its commands.

use depguard_e2e::document::{Execution, Step, steps};
use kubectl_depguard::ExitStatus;

use crate::tool::{depguard, write};

#[tokio::test]
async fn the_commands_of_the_page_print_what_it_shows() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/import.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let prefix = format!("{}/", folder.path().display());
    let mut ran = 0;
    for step in steps(&page).unwrap() {
        let command = match step {
            Step::File { name, text } => {
                write(folder.path(), &name, &text);
                continue;
            }
            Step::Command(command) => command,
            Step::Test(what) => panic!("the test does not know how: {what}"),
        };
        let words = command.line.strip_prefix("kubectl depguard ").unwrap().split(' ');
        let words: Vec<_> = words
            .map(|word| if folder.path().join(word).is_file() { format!("{prefix}{word}") } else { word.to_owned() })
            .collect();
        let done = depguard(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let printed = format!("{}{}", done.out, done.err).replace(&prefix, "");
        assert!(command.is_like(&printed), "line {}: it prints\n{printed}", command.at);
        let expected = match command.how {
            Execution::Exits(0) => ExitStatus::Well,
            Execution::Exits(1) => ExitStatus::Finding,
            how => panic!("line {}: {how:?}", command.at),
        };
        assert_eq!(done.status, expected, "line {}", command.at);
        ran += 1;
    }
    assert_eq!(ran, 3);
}
