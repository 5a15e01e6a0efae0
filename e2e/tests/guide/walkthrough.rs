//! A walkthrough through a document: a shell runs the commands, and the test compares their output with the document.

use std::ffi::OsString;
use std::path::Path;

use depguard_e2e::document::{self, Command, Execution, Step, difference, steps};
use depguard_e2e::{Outcome, Ring, Stop, ensure};
use tempfile::TempDir;

use crate::session::{ColouredOutput, in_colour};
use crate::shell::{BackgroundCommand, CommandOutput, Shell, environment};
use crate::{Programs, folder};

/// Programs and server of a walkthrough.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) programs: &'a Programs,
    /// The folder with kubectl.
    pub(crate) kubectl: &'a Path,
    /// The API server to use instead of the playground's.
    pub(crate) server: Option<&'a Ring>,
    /// Set if the output is only written down, not compared.
    pub(crate) writes: bool,
    /// Set if the commands of the README's picture also run in colour.
    pub(crate) paints: bool,
}

/// A reader's folder, shell and background programs during a walkthrough.
pub(crate) struct Walkthrough<'a> {
    place: Place<'a>,
    folder: TempDir,
    path: OsString,
    shell: Shell,
    aside: Vec<BackgroundCommand>,
}

/// Commands of a walkthrough, and their output.
#[derive(Default)]
pub(crate) struct Transcript {
    done: Vec<(Command, String)>,
    pub(crate) coloured: Vec<ColouredOutput>,
}

impl<'a> Walkthrough<'a> {
    /// Begins a walkthrough in a folder with the files that the guide uses.
    pub(crate) fn begin(place: Place<'a>) -> Outcome<Walkthrough<'a>> {
        let own = tempfile::tempdir()?;
        for name in ["examples", "config"] {
            std::os::unix::fs::symlink(folder().join(name).canonicalize()?, own.path().join(name))?;
        }
        let path = way_to(place.kubectl, place.programs)?;
        let shell = Shell::open(own.path(), &path)?;
        Ok(Walkthrough { place, folder: own, path, shell, aside: Vec::new() })
    }

    /// Takes all steps of the document.
    pub(crate) async fn through(&mut self, document: &str) -> Outcome<Transcript> {
        let mut transcript = Transcript::default();
        for step in steps(document)? {
            match step {
                Step::File { name, text } => std::fs::write(self.folder.path().join(name), text)?,
                Step::Test(what) => return Err(Stop::Failed(format!("the test does not know how: {what}"))),
                Step::Command(command) => {
                    let why = |stop: Stop| Stop::Failed(format!("line {}: $ {}: {stop}", command.at, command.line));
                    let printed = self.command(&command).await.map_err(why)?;
                    if let Some(line) = in_colour(&command.line).filter(|_| self.place.paints) {
                        transcript.coloured.push((command.line.clone(), self.shell.run(&line).await?.printed));
                    }
                    transcript.done.push((command, printed));
                }
            }
        }
        Ok(transcript)
    }

    /// Runs a line in the shell.
    pub(crate) async fn shell(&mut self, line: &str) -> Outcome<CommandOutput> {
        self.shell.run(line).await
    }

    async fn command(&mut self, command: &Command) -> Outcome<String> {
        let as_said =
            |done: &CommandOutput, code| done.code == code && difference(&command.prints, &done.printed).is_none();
        let (done, code) = match command.how {
            Execution::Exits(code) => (self.shell.run(&command.line).await?, code),
            Execution::Once(code) => (self.shell.run_until(&command.line, |done| as_said(done, code)).await?, code),
            Execution::Aside => return self.start(command).await,
        };
        self.is_as_said(command, &done, code)?;
        Ok(done.printed)
    }

    /// Starts a built example instead of running `cargo run`, which would build it once more.
    async fn start(&mut self, command: &Command) -> Outcome<String> {
        let words: Vec<&str> = command.line.split_whitespace().collect();
        let ["cargo", "run", "--example", example, arguments @ ..] = words.as_slice() else {
            return Err(Stop::failed("only examples are run beside the rest"));
        };
        let mut program = tokio::process::Command::new(self.place.programs.examples().join(example));
        environment(&mut program, self.folder.path(), &self.path);
        program.args(arguments.iter().filter(|word| **word != "--"));
        if let ("playground", Some(ring)) = (*example, self.place.server) {
            let kubeconfig = self.folder.path().join("server.kubeconfig");
            ring.write_kubeconfig("", &kubeconfig)?;
            program.arg("--on").arg(kubeconfig);
        }
        let (aside, printed) = BackgroundCommand::start(&mut program, command.prints.len()).await?;
        self.aside.push(aside);
        self.is_as_said(command, &CommandOutput { code: 0, printed: printed.clone() }, 0)?;
        Ok(printed)
    }

    fn is_as_said(&self, command: &Command, done: &CommandOutput, code: i32) -> Outcome {
        ensure(done.code == code, || format!("it ends with {} and not with {code}: {}", done.code, done.printed))?;
        match difference(&command.prints, &done.printed) {
            Some(why) if !self.place.writes => Err(Stop::Failed(format!("{why}; all of it:\n{}", done.printed))),
            _ => Ok(()),
        }
    }
}

impl Transcript {
    /// Returns the number of commands that ran.
    pub(crate) fn commands(&self) -> usize {
        self.done.len()
    }

    /// Checks that each comparison would notice a different output.
    pub(crate) fn compares(&self) -> Outcome {
        self.done.iter().try_for_each(|(command, printed)| document::compares(&command.prints, printed))
    }

    /// Returns the document, with the printed output in place of each output that differs.
    pub(crate) fn written_into(&self, document: &str) -> String {
        let mut lines: Vec<String> = document.lines().map(str::to_owned).collect();
        for (command, printed) in self.done.iter().rev().filter(|(command, printed)| !command.is_like(printed)) {
            let printed = printed.lines().map(|line| without_ports(line.trim_end()));
            lines.splice(command.at..command.at + command.prints.len(), printed);
        }
        lines.join("\n") + "\n"
    }
}

/// Returns the `PATH` of a reader who has this kubectl and has built depguard.
pub(crate) fn way_to(kubectl: &Path, programs: &Programs) -> Outcome<OsString> {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let first = [kubectl.to_owned(), programs.binaries.clone()];
    Ok(std::env::join_paths(first.into_iter().chain(std::env::split_paths(&inherited)))?)
}

/// Replaces ports by `…`: they are free ports and differ each time.
fn without_ports(line: &str) -> String {
    let mut parts = line.split("127.0.0.1:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts
        .fold(first, |text, part| format!("{text}127.0.0.1:…{}", part.trim_start_matches(|c: char| c.is_ascii_digit())))
}
