//! A walk through a document: its commands in a shell, and what they print beside what it says.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use depguard_e2e::document::{self, Command, How, Step, difference, steps};
use depguard_e2e::{Outcome, Ring, Stop, ensure};
use tempfile::TempDir;

use crate::shell::{Aside, Done, Shell, environment};
use crate::{Programs, folder};

/// How long something may take that comes in its own time.
const PATIENCE: Duration = Duration::from_secs(90);

/// With what a document is walked through.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) programs: &'a Programs,
    /// The folder of the kubectl.
    pub(crate) kubectl: &'a Path,
    /// In the place of the API server that the playground starts.
    pub(crate) server: Option<&'a Ring>,
    /// Whether it doesn't matter what is printed, as it is only to be written down.
    pub(crate) writes: bool,
}

/// What a reader has before him.
pub(crate) struct Walk<'a> {
    place: Place<'a>,
    folder: TempDir,
    path: OsString,
    shell: Shell,
    aside: Vec<Aside>,
}

/// What was run, and what it printed.
#[derive(Default)]
pub(crate) struct Transcript {
    done: Vec<(Command, String)>,
}

impl<'a> Walk<'a> {
    /// In a folder that has what the guide speaks of.
    pub(crate) fn begin(place: Place<'a>) -> Outcome<Walk<'a>> {
        let own = tempfile::tempdir()?;
        for name in ["examples", "config"] {
            std::os::unix::fs::symlink(folder().join(name).canonicalize()?, own.path().join(name))?;
        }
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let programs = [place.kubectl.to_owned(), place.programs.binaries.clone()];
        let path = std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&inherited)))?;
        let shell = Shell::open(own.path(), &path)?;
        Ok(Walk { place, folder: own, path, shell, aside: Vec::new() })
    }

    /// Does what the document says.
    pub(crate) async fn through(&mut self, document: &str) -> Outcome<Transcript> {
        let mut transcript = Transcript::default();
        for step in steps(document)? {
            match step {
                Step::File { name, text } => std::fs::write(self.folder.path().join(name), text)?,
                Step::Test(what) => return Err(Stop::Failed(format!("the test does not know how: {what}"))),
                Step::Command(command) => {
                    let why = |stop: Stop| Stop::Failed(format!("line {}: $ {}: {stop}", command.at, command.line));
                    let printed = self.command(&command).await.map_err(why)?;
                    transcript.done.push((command, printed));
                }
            }
        }
        Ok(transcript)
    }

    /// Runs one line.
    pub(crate) async fn shell(&mut self, line: &str) -> Outcome<Done> {
        self.shell.run(line).await
    }

    async fn command(&mut self, command: &Command) -> Outcome<String> {
        match command.how {
            How::Exits(code) => {
                let done = self.shell.run(&command.line).await?;
                self.is_as_said(command, &done, code)?;
                Ok(done.printed)
            }
            How::Once(code) => {
                let start = Instant::now();
                loop {
                    let done = self.shell.run(&command.line).await?;
                    let unlike = difference(&command.prints, &done.printed);
                    if unlike.is_none() && done.code == code {
                        return Ok(done.printed);
                    }
                    if start.elapsed() > PATIENCE {
                        return self.is_as_said(command, &done, code).map(|()| done.printed);
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
            How::Aside => self.start(command).await,
        }
    }

    /// Starts an example in the place of `cargo run`, which would build it once more.
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
        let (aside, printed) = Aside::start(&mut program, command.prints.len()).await?;
        self.aside.push(aside);
        self.is_as_said(command, &Done { code: 0, printed: printed.clone() }, 0)?;
        Ok(printed)
    }

    fn is_as_said(&self, command: &Command, done: &Done, code: i32) -> Outcome {
        ensure(done.code == code, || format!("it ends with {} and not with {code}: {}", done.code, done.printed))?;
        match difference(&command.prints, &done.printed) {
            Some(why) if !self.place.writes => Err(Stop::Failed(format!("{why}; all of it:\n{}", done.printed))),
            _ => Ok(()),
        }
    }
}

impl Transcript {
    /// How many commands were run.
    pub(crate) fn commands(&self) -> usize {
        self.done.len()
    }

    /// Whether each comparison would have seen another output.
    pub(crate) fn compares(&self) -> Outcome {
        self.done.iter().try_for_each(|(command, printed)| document::compares(&command.prints, printed))
    }

    /// The document with what was printed, where it says otherwise.
    pub(crate) fn written_into(&self, document: &str) -> String {
        let mut lines: Vec<String> = document.lines().map(str::to_owned).collect();
        for (command, printed) in self.done.iter().rev().filter(|(command, printed)| !command.is_like(printed)) {
            let printed = printed.lines().map(|line| without_ports(line.trim_end()));
            lines.splice(command.at..command.at + command.prints.len(), printed);
        }
        lines.join("\n") + "\n"
    }
}

/// Ports are free ones, and differ each time.
fn without_ports(line: &str) -> String {
    let mut parts = line.split("127.0.0.1:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts
        .fold(first, |text, part| format!("{text}127.0.0.1:…{}", part.trim_start_matches(|c: char| c.is_ascii_digit())))
}
