//! A shell for a reader's commands, one after the other.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use depguard_e2e::{Outcome, Stop};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Time limit of a command; one that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Time after which a command that is repeated until a state is reached is not repeated again.
const REPEATED_FOR: Duration = Duration::from_secs(90);

/// Mark after the output of a command; no command prints a line that begins with it.
const END: &str = "\u{1e}";

/// A running bash; it ends when this is dropped.
pub(crate) struct Shell {
    _bash: Child,
    types: ChildStdin,
    prints: BufReader<ChildStdout>,
}

/// Result of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) printed: String,
}

impl Shell {
    /// Opens a shell in a folder, with this `PATH`.
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

    /// Runs a line until it ends. Its standard input is empty; its two outputs are read as one.
    pub(crate) async fn run(&mut self, line: &str) -> Outcome<CommandOutput> {
        let line = format!("{{ {line}\n}} 2>&1 </dev/null; printf '\\n{END}%s\\n' $?\n");
        self.types.write_all(line.as_bytes()).await?;
        tokio::time::timeout(PATIENCE, self.done()).await.map_err(|_| Stop::failed("it does not end"))?
    }

    /// Runs a line again and again until its result is the expected one or the time is over. Returns the last result.
    pub(crate) async fn run_until(
        &mut self,
        line: &str,
        is_expected: impl Fn(&CommandOutput) -> bool,
    ) -> Outcome<CommandOutput> {
        let start = Instant::now();
        loop {
            let done = self.run(line).await?;
            if is_expected(&done) || start.elapsed() > REPEATED_FOR {
                return Ok(done);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn done(&mut self) -> Outcome<CommandOutput> {
        let mut printed = Vec::new();
        loop {
            let mut line = Vec::new();
            if self.prints.read_until(b'\n', &mut line).await? == 0 {
                return Err(Stop::Failed(format!("the shell has ended: {}", String::from_utf8_lossy(&printed))));
            }
            if let Some(code) = line.strip_prefix(END.as_bytes()) {
                let code = String::from_utf8_lossy(code).trim().parse()?;
                // The command did not print the line feed before the mark.
                printed.pop();
                return Ok(CommandOutput { code, printed: String::from_utf8_lossy(&printed).into_owned() });
            }
            printed.extend(line);
        }
    }
}

/// A program that runs beside the shell; it ends when this is dropped.
pub(crate) struct BackgroundCommand {
    _program: Child,
}

impl BackgroundCommand {
    /// Starts the program and waits until it has printed this number of lines.
    pub(crate) async fn start(command: &mut Command, lines: usize) -> Outcome<(BackgroundCommand, String)> {
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
        // If nobody read the rest, the program would end at its next line.
        tokio::spawn(async move { while let Ok(Some(_)) = prints.next_line().await {} });
        Ok((BackgroundCommand { _program: program }, printed))
    }
}

/// Sets the environment of a reader's program.
pub(crate) fn environment<'a>(command: &'a mut Command, folder: &Path, path: &OsString) -> &'a mut Command {
    command.current_dir(folder).kill_on_drop(true).env("PATH", path).env("HOME", folder).env("TERM", "dumb");
    command.env_remove("KUBECONFIG").env_remove("RUST_LOG").env_remove("RUST_BACKTRACE")
}
