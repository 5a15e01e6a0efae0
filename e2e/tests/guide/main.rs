//! docs/guide.md, docs/locks.md and docs/teardown.md, walked through as they stand; the README's excerpts from the
//! guide; and docs/install-kcp.md on a real kcp.
//!
//! With `DEPGUARD_WRITE=1`, the test writes the printed output into the documents, for a person to read and commit.

mod kcp;
mod readme;
mod session;
mod shell;
mod walkthrough;

use std::path::{Path, PathBuf};

use depguard_e2e::document::{Execution, Step, steps};
use depguard_e2e::tools::{Tools, binary};
use depguard_e2e::{Outcome, Ring, Stop, Tally, ensure};
use tokio::runtime::Handle;

use crate::session::ColouredOutput;
use crate::walkthrough::{Place, Walkthrough};

/// Documents, and the smallest number of commands in each.
const DOCUMENTS: [(&str, usize); 3] = [(session::GUIDE, 17), ("docs/locks.md", 10), ("docs/teardown.md", 8)];

#[tokio::main]
async fn main() {
    let mut tally = Tally::new("guide");
    match Programs::find() {
        Ok(programs) => {
            let (walked, coloured) = side_by_side(&programs);
            for (check, walked) in walked {
                tally.record(&check, walked);
            }
            for (check, exports) in
                [(kcp::DOCUMENT.to_owned(), false), (format!("{}, with export", kcp::DOCUMENT), true)]
            {
                tally.record(&check, install_on_kcp(&programs, exports).await);
            }
            tally.record("a guide that says otherwise fails", mistakes_are_seen(&programs).await);
            tally.record("the README shows what is printed", readme::is_current(&programs).await);
            tally.record("the README's session is the guide's", session::is_current(&coloured));
        }
        Err(stop) => tally.record("the documents", Err(stop)),
    }
    tally.conclude();
}

/// A check and its result.
type NamedOutcome = (String, Outcome);

/// Walks through all documents side by side, because a walkthrough mostly waits for its shell. Returns the checks, and
/// the guide's commands of the picture with their output in colour.
fn side_by_side(programs: &Programs) -> (Vec<NamedOutcome>, Vec<ColouredOutput>) {
    let runtime = Handle::current();
    std::thread::scope(|scope| {
        let threads = DOCUMENTS.map(|(name, commands)| {
            let runtime = &runtime;
            scope.spawn(move || {
                let (mut checked, mut coloured) = (Vec::new(), Vec::new());
                let walked = runtime.block_on(document(programs, name, commands, &mut checked, &mut coloured));
                checked.push((name.to_owned(), walked));
                (checked, coloured)
            })
        });
        let (mut checked, mut coloured) = (Vec::new(), Vec::new());
        for thread in threads {
            let (own, in_colour) = thread.join().expect("a walkthrough does not panic");
            checked.extend(own);
            coloured.extend(in_colour);
        }
        (checked, coloured)
    })
}

/// Walks through a document with the kubectl of the examples, on the API server of the playground; then with the real
/// kubectl, and on a real kube-apiserver.
async fn document(
    programs: &Programs,
    name: &str,
    commands: usize,
    checked: &mut Vec<NamedOutcome>,
    coloured: &mut Vec<ColouredOutput>,
) -> Outcome {
    let path = folder().join(name);
    let document = std::fs::read_to_string(&path)?;
    let first = programs.examples();
    let place = Place { programs, kubectl: &first, server: None, writes: is_written(), paints: false };
    let paints = name == session::GUIDE;
    let mut transcript = Walkthrough::begin(Place { paints, ..place })?.through(&document).await?;
    coloured.append(&mut transcript.coloured);
    if is_written() {
        // This is the output of this run; the next run compares it with another one.
        return Ok(std::fs::write(&path, transcript.written_into(&document))?);
    }
    ensure(transcript.commands() >= commands, || format!("only {} commands were run", transcript.commands()))?;
    transcript.compares()?;

    let tools = Tools::find();
    match &tools {
        Ok(tools) => {
            let place = Place { kubectl: tools.folder(), ..place };
            checked.push((format!("{name}, with kubectl"), walked(place, &document).await));
        }
        Err(why) => checked.push((format!("{name}, with kubectl"), Err(Stop::Skipped(why.clone())))),
    }
    let walked = match Ring::cluster().await {
        Ok(Ok(ring)) => {
            let kubectl = tools.as_ref().map_or(place.kubectl, Tools::folder);
            walked(Place { kubectl, server: Some(&ring), ..place }, &document).await
        }
        Ok(Err(stop)) => Err(stop),
        Err(why) => Err(Stop::Skipped(why)),
    };
    checked.push((format!("{name}, on a kube-apiserver"), walked));
    Ok(())
}

async fn walked(place: Place<'_>, document: &str) -> Outcome {
    Walkthrough::begin(place)?.through(document).await.map(drop)
}

async fn install_on_kcp(programs: &Programs, exports: bool) -> Outcome {
    let document = std::fs::read_to_string(folder().join(kcp::DOCUMENT))?;
    kcp::through(programs, &document, exports).await
}

/// Checks that a walkthrough through a guide with a mistake fails.
async fn mistakes_are_seen(programs: &Programs) -> Outcome {
    let document = &std::fs::read_to_string(folder().join("docs/guide.md"))?;
    let kubectl = &programs.examples();
    let place = Place { programs, kubectl, server: None, writes: false, paints: false };
    let shown = steps(document)?.into_iter().find_map(|step| match step {
        Step::Command(command) if command.how == Execution::Exits(0) => command.prints.into_iter().next(),
        _ => None,
    });
    let shown = shown.ok_or_else(|| Stop::failed("the guide shows nothing"))?;
    let mistakes = [
        document.replacen(&format!("\n{shown}\n"), &format!("\n{shown} and more\n"), 1),
        "```console\n$ echo one\n```\n".to_owned(),
        "```console\n$ echo one\none\ntwo\n```\n".to_owned(),
        "```console\n$ false\n```\n".to_owned(),
        "<!-- exits with: 1 -->\n```console\n$ true\n```\n".to_owned(),
        "<!-- test: it rains -->\n".to_owned(),
    ];
    for mistake in mistakes {
        ensure(mistake != *document, || format!("`{shown}` is not a line of its own"))?;
        let walked = Walkthrough::begin(place)?.through(&mistake).await;
        ensure(walked.is_err(), || format!("nobody sees what is wrong in: {mistake}"))?;
    }
    Ok(())
}

/// The folder of the programs that the guide uses.
struct Programs {
    binaries: PathBuf,
}

impl Programs {
    fn find() -> Outcome<Programs> {
        let built = |name: &str| {
            binary(name).map_err(|_| {
                Stop::Skipped(format!(
                    "no `{name}` is built; `cargo build -p kubectl-depguard -p depguard-examples --bins --examples` does, \
                     and so does a `cargo test` of all"
                ))
            })
        };
        let depguard = built("kubectl-depguard")?;
        for example in ["playground", "kubectl", "quickstart"] {
            built(&format!("examples/{example}"))?;
        }
        Ok(Programs { binaries: depguard.parent().map(Path::to_owned).unwrap_or_default() })
    }

    fn examples(&self) -> PathBuf {
        self.binaries.join("examples")
    }
}

/// Returns true if the documents are to be written, not only compared with the output.
fn is_written() -> bool {
    std::env::var_os("DEPGUARD_WRITE").is_some()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
