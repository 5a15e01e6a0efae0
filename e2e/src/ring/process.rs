//! Server processes on free ports; they end with their owner.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use crate::outcome::{Outcome, Stop, ensure};

/// Server processes and the folder they write to. Dropping this ends the processes, the last started first; so does a
/// signal to the test.
pub(super) struct Processes {
    children: Children,
    folder: TempDir,
}

type Children = Arc<Mutex<Vec<ChildProcess>>>;

/// A process, and how to start it once more.
struct ChildProcess {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    child: Child,
}

impl Processes {
    pub(super) fn new() -> Outcome<Processes> {
        let folder = tempfile::Builder::new().prefix("depguard-e2e-").tempdir()?;
        let children = Children::default();
        tokio::spawn(end_on_signal(Arc::clone(&children), folder.path().to_owned()));
        Ok(Processes { children, folder })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a program; the output goes to a log in the folder.
    pub(super) fn spawn<A: AsRef<OsStr>>(&self, program: &Path, arguments: &[A]) -> Outcome {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        self.spawn_as(&name, program, arguments)
    }

    /// Starts a program under a name. A program that runs more than once needs a different name each time.
    pub(super) fn spawn_as<A: AsRef<OsStr>>(&self, name: &str, program: &Path, arguments: &[A]) -> Outcome {
        let arguments: Vec<OsString> = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
        let child = self.run(name, program, &arguments)?;
        let started = ChildProcess { name: name.to_owned(), program: program.to_owned(), arguments, child };
        lock(&self.children).push(started);
        Ok(())
    }

    /// Starts the program of a process once more under another name. Each argument in `own` replaces the one of the same
    /// flag.
    pub(super) fn spawn_like(&self, name: &str, another: &str, own: &[String]) -> Outcome {
        let (program, mut arguments) = {
            let mut children = lock(&self.children);
            let started = find(&mut children, name)?;
            (started.program.clone(), started.arguments.clone())
        };
        let flag = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
        arguments.retain(|argument| !own.iter().any(|own| flag(own) == flag(&argument.to_string_lossy())));
        arguments.extend(own.iter().map(OsString::from));
        self.spawn_as(another, &program, &arguments)
    }

    fn run(&self, name: &str, program: &Path, arguments: &[OsString]) -> Outcome<Child> {
        let log = OpenOptions::new().create(true).append(true).open(self.file(&format!("{name}.log")))?;
        Command::new(program)
            .args(arguments)
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| Stop::Failed(format!("cannot start `{name}`: {error}")))
    }

    /// Suspends the process with this name: the kernel still accepts connections for the process, and nobody answers. Waits
    /// until each of its threads stands still: on a busy machine some go on for a while after the signal.
    pub(super) fn suspend(&self, name: &str) -> Outcome {
        let pid = self.signal(name, Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = process::waitid(WaitId::Pid(pid), options).map_err(io::Error::from)?;
        ensure(status.is_some_and(|status| status.stopped()), || format!("`{name}` ended instead of standing still"))
    }

    /// Resumes a suspended process.
    pub(super) fn resume(&self, name: &str) -> Outcome {
        self.signal(name, Signal::CONT).map(drop)
    }

    fn signal(&self, name: &str, signal: Signal) -> Outcome<Pid> {
        let mut children = lock(&self.children);
        let pid = Pid::from_child(&find(&mut children, name)?.child);
        process::kill_process(pid, signal).map_err(io::Error::from)?;
        Ok(pid)
    }

    /// Kills the process with this name, as a crash would.
    pub(super) fn kill(&self, name: &str) -> Outcome {
        let mut children = lock(&self.children);
        let child = &mut find(&mut children, name)?.child;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Kills the process with this name, and forgets it.
    pub(super) fn end(&self, name: &str) -> Outcome {
        self.kill(name)?;
        lock(&self.children).retain(|started| started.name != name);
        Ok(())
    }

    /// Starts a killed process once more; the process finds the data that it had stored.
    pub(super) fn start_again(&self, name: &str) -> Outcome {
        let mut children = lock(&self.children);
        let started = find(&mut children, name)?;
        started.child = self.run(name, &started.program, &started.arguments)?;
        Ok(())
    }

    /// Waits until any process ends by itself, which is always a failure.
    pub(super) async fn until_one_ends(&self) -> Stop {
        loop {
            for started in lock(&self.children).iter_mut() {
                if let Ok(Some(status)) = started.child.try_wait() {
                    return Stop::Failed(format!("`{}` ended: {status}", started.name));
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Adds the last lines of the servers' logs to a failure.
    pub(super) fn explain(&self, stop: &Stop) -> Stop {
        let mut text = stop.to_string();
        for entry in std::fs::read_dir(self.folder()).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension() == Some(OsStr::new("log")) {
                let log = std::fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let tail = lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("\n    ");
                text = format!("{text}\n  {}:\n    {tail}", path.display());
            }
        }
        Stop::Failed(text)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        end(&self.children);
        if std::env::var_os("DEPGUARD_E2E_KEEP").is_some() {
            self.folder.disable_cleanup(true);
            println!("kept {}", self.folder.path().display());
        }
    }
}

fn end(children: &Children) {
    for mut started in lock(children).drain(..).rev() {
        // No graceful end is needed: the data goes with the folder.
        let _ = started.child.kill();
        let _ = started.child.wait();
    }
}

async fn end_on_signal(children: Children, folder: PathBuf) {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    end(&children);
    let _ = std::fs::remove_dir_all(folder);
    std::process::exit(130);
}

fn lock(children: &Children) -> MutexGuard<'_, Vec<ChildProcess>> {
    children.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find<'a>(children: &'a mut [ChildProcess], name: &str) -> Outcome<&'a mut ChildProcess> {
    let found = children.iter_mut().find(|started| started.name == name);
    found.ok_or_else(|| Stop::Failed(format!("nothing named `{name}` was started")))
}
