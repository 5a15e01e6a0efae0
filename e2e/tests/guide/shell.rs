//! One shell, in which a reader types one command after the other.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use depguard_e2e::{Outcome, Stop};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Nothing that a command prints begins a line so.
const END: &str = "\u{1e}";

/// It ends when dropped.
pub(crate) struct Shell {
    _bash: Child,
    types: ChildStdin,
    prints: BufReader<ChildStdout>,
}

/// What a command came to.
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) printed: String,
}

impl Shell {
    /// In a folder, with this way to programs.
    pub(crate) fn open(folder: &Path, path: &OsString) -> Outcome<Shell> {
        let mut bash = environment(&mut Command::new("bash"), folder, path)
            .args(["--noprofile", "--norc"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(types), Some(prints)) = (bash.stdin.take(), bash.stdout.take()) else {
            return Err(Stop::failed("the shell has no streams"));
        };
        Ok(Shell { _bash: bash, types, prints: BufReader::new(prints) })
    }

    /// Runs a line to its end. It reads nothing, and what it writes to either of its outputs is taken together.
    pub(crate) async fn run(&mut self, line: &str) -> Outcome<Done> {
        let line = format!("{{ {line}\n}} 2>&1 </dev/null; printf '\\n{END}%s\\n' $?\n");
        self.types.write_all(line.as_bytes()).await?;
        tokio::time::timeout(PATIENCE, self.done()).await.map_err(|_| Stop::failed("it does not end"))?
    }

    async fn done(&mut self) -> Outcome<Done> {
        let mut printed = Vec::new();
        loop {
            let mut line = Vec::new();
            if self.prints.read_until(b'\n', &mut line).await? == 0 {
                return Err(Stop::Failed(format!("the shell has ended: {}", String::from_utf8_lossy(&printed))));
            }
            if let Some(code) = line.strip_prefix(END.as_bytes()) {
                let code = String::from_utf8_lossy(code).trim().parse()?;
                // The line feed before the mark is not the command's.
                printed.pop();
                return Ok(Done { code, printed: String::from_utf8_lossy(&printed).into_owned() });
            }
            printed.extend(line);
        }
    }
}

/// A program that goes on beside the shell. It ends when dropped.
pub(crate) struct Aside {
    _program: Child,
}

impl Aside {
    /// Starts it, and waits until it has printed so many lines.
    pub(crate) async fn start(command: &mut Command, lines: usize) -> Outcome<(Aside, String)> {
        let mut program = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let Some(prints) = program.stdout.take() else { return Err(Stop::failed("it has no output")) };
        let mut prints = BufReader::new(prints).lines();
        let mut printed = String::new();
        let read = async {
            for _ in 0..lines {
                let Some(line) = prints.next_line().await? else {
                    return Err(Stop::Failed(format!("it has ended: {printed}")));
                };
                printed.push_str(&line);
                printed.push('\n');
            }
            Ok(())
        };
        let read = tokio::time::timeout(PATIENCE, read).await;
        read.map_err(|_| Stop::Failed(format!("it says no more than: {printed}")))??;
        // Else it would end as soon as it says more.
        tokio::spawn(async move { while let Ok(Some(_)) = prints.next_line().await {} });
        Ok((Aside { _program: program }, printed))
    }
}

/// What a program of a reader's finds around it.
pub(crate) fn environment<'a>(command: &'a mut Command, folder: &Path, path: &OsString) -> &'a mut Command {
    command.current_dir(folder).kill_on_drop(true).env("PATH", path).env("HOME", folder).env("TERM", "dumb");
    command.env_remove("KUBECONFIG").env_remove("RUST_LOG").env_remove("RUST_BACKTRACE")
}
