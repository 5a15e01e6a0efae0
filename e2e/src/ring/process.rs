//! Server processes on free ports, ended with their owner.

use std::ffi::OsStr;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use crate::outcome::{Outcome, Stop};

/// Processes and the folder they write to. Dropping it ends them, the last started first, and so
/// does a signal to the test.
pub(super) struct Processes {
    children: Children,
    folder: TempDir,
}

type Children = Arc<Mutex<Vec<Child>>>;

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

    /// Starts a program; its output goes to a log in the folder.
    pub(super) fn spawn<A: AsRef<OsStr>>(&mut self, program: &Path, arguments: &[A]) -> Outcome {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let log = File::create(self.file(&format!("{name}.log")))?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| Stop::Failed(format!("cannot start `{name}`: {error}")))?;
        lock(&self.children).push(child);
        Ok(())
    }

    /// Waits until a process has ended by itself, which none should.
    pub(super) async fn until_one_ends(&self) -> Stop {
        loop {
            for child in lock(&self.children).iter_mut() {
                if let Ok(Some(status)) = child.try_wait() {
                    return Stop::Failed(format!("a server ended: {status}"));
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Adds what the servers last wrote, for a start that failed.
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
    for mut child in lock(children).drain(..).rev() {
        // Nothing here is worth a graceful end: the data goes with the folder.
        let _ = child.kill();
        let _ = child.wait();
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

fn lock(children: &Children) -> MutexGuard<'_, Vec<Child>> {
    children.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
