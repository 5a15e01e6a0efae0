//! Values that are made from files, and made anew when the files change.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::process::reload_metrics::Reload;

/// Interval of reading files again. A Secret mounted into a pod changes by a swapped link, which causes no file event.
pub const REREAD: Duration = Duration::from_secs(5);

/// Value that was made from `N` files that belong together, when they were last usable.
pub struct WatchedFile<T, E, const N: usize = 1> {
    files: Files<N>,
    make: Make<T, E, N>,
    /// Content that `current` was made from.
    content: [Vec<u8>; N],
    current: T,
    /// Error last logged about the files' present state; `None` if the files are in force.
    complained: Option<String>,
    reload: Reload,
}

/// Files that belong together.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Files<const N: usize = 1> {
    /// Name of the files, after "the".
    pub what: &'static str,
    /// Path of each file.
    pub paths: [PathBuf; N],
    /// Maximum length of each file, in bytes.
    pub longest: usize,
}

/// Reason why a file can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system refused.
    #[error("cannot read `{}`: {why}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        #[source]
        why: io::Error,
    },
    /// The file is longer than allowed.
    #[error("`{}` is larger than {} KiB: check that it is the right file", file.display(), longest >> 10)]
    TooLong {
        /// Path of the file.
        file: PathBuf,
        /// Maximum length, in bytes.
        longest: usize,
    },
}

type Make<T, E, const N: usize> = Box<dyn Fn(&[Vec<u8>; N]) -> Result<T, E> + Send + Sync>;

impl<T, E: From<FileError> + fmt::Display, const N: usize> WatchedFile<T, E, N> {
    /// Reads the files and makes a value from them by `make`. `reload` shows from then on if the files are usable.
    pub async fn open(
        files: Files<N>,
        reload: Reload,
        make: impl Fn(&[Vec<u8>; N]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let content = files.read().await?;
        Ok(Self { current: make(&content)?, files, make: Box::new(make), content, complained: None, reload })
    }

    /// Returns the value in force.
    pub fn current(&self) -> &T {
        &self.current
    }

    /// Reads the files again. Returns true if another value is in force now. Unusable files change nothing, and their
    /// error is logged once.
    pub async fn refresh(&mut self) -> bool {
        match self.take_up().await {
            Ok(changed) => {
                if changed {
                    tracing::info!(file = %self.files.shown(), "the {} changed", self.files.what);
                }
                self.complained = None;
                self.reload.succeeded();
                changed
            }
            Err(why) => {
                let why = Some(why.to_string());
                if self.complained != why {
                    let why = why.as_deref().unwrap_or_default();
                    tracing::error!("keeping the previous {}: {why}", self.files.what);
                    self.reload.failed();
                }
                self.complained = why;
                false
            }
        }
    }

    /// Reads the files again and again for as long as the future is polled. Calls `changed` with each new value.
    pub async fn follow(mut self, every: Duration, mut changed: impl FnMut(&T)) {
        loop {
            tokio::time::sleep(every).await;
            if self.refresh().await {
                changed(&self.current);
            }
        }
    }

    async fn take_up(&mut self) -> Result<bool, E> {
        let content = self.files.read().await?;
        if content == self.content {
            return Ok(false);
        }
        self.current = (self.make)(&content)?;
        self.content = content;
        Ok(true)
    }
}

impl<const N: usize> Files<N> {
    async fn read(&self) -> Result<[Vec<u8>; N], FileError> {
        let mut contents = [const { Vec::new() }; N];
        for (content, file) in contents.iter_mut().zip(&self.paths) {
            *content = read(file, self.longest).await?;
        }
        Ok(contents)
    }

    fn shown(&self) -> String {
        self.paths.each_ref().map(|path| path.display().to_string()).join(", ")
    }
}

/// Reads a whole file of at most `longest` bytes. Refuses a longer file instead of cutting it.
async fn read(file: &Path, longest: usize) -> Result<Vec<u8>, FileError> {
    let mut content = Vec::new();
    let most = longest as u64 + 1;
    let read = async { tokio::fs::File::open(file).await?.take(most).read_to_end(&mut content).await };
    read.await.map_err(|why| FileError::Unreadable { file: file.to_owned(), why })?;
    if content.len() > longest {
        return Err(FileError::TooLong { file: file.to_owned(), longest });
    }
    Ok(content)
}

/// Shows which files these are, but not their content, which may be secret.
impl<T, E, const N: usize> fmt::Debug for WatchedFile<T, E, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedFile").field("files", &self.files).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use prometheus_client::registry::Registry;

    use super::*;
    use crate::process::reload_metrics::Reloads;

    #[derive(Debug, thiserror::Error)]
    enum Error {
        #[error(transparent)]
        File(#[from] FileError),
        #[error("`{0}` is not good")]
        Bad(String),
    }

    /// File of at most one KiB that holds a text without `bad`, and its metrics.
    struct Scene {
        folder: tempfile::TempDir,
        registry: Registry,
        reloads: Reloads,
    }

    impl Scene {
        fn new() -> Self {
            let (reloads, mut registry) = (Reloads::default(), Registry::default());
            reloads.register(&mut registry);
            Self { folder: tempfile::tempdir().unwrap(), registry, reloads }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("file")
        }

        /// Replaces the file at once, so that no reader sees half of it.
        fn write(&self, content: &str) {
            let new = self.folder.path().join("new");
            std::fs::write(&new, content).unwrap();
            std::fs::rename(new, self.path()).unwrap();
        }

        async fn open(&self) -> Result<WatchedFile<String, Error>, Error> {
            let files = Files { what: "text", paths: [self.path()], longest: 1 << 10 };
            WatchedFile::open(files, self.reloads.of("text"), |[content]| {
                let text = String::from_utf8_lossy(content).into_owned();
                if text.contains("bad") { Err(Error::Bad(text)) } else { Ok(text) }
            })
            .await
        }

        /// Returns the gauge that shows a failure, and the number of failures.
        fn metrics(&self) -> (u64, u64) {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
            let value = |name: &str| {
                let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap();
                line.rsplit_once(' ').unwrap().1.parse().unwrap()
            };
            (value("depguard_reload_failing"), value("depguard_reload_failures_total"))
        }
    }

    #[tokio::test]
    async fn what_can_t_be_used_changes_nothing_and_is_said_once() {
        let scene = Scene::new();
        assert!(scene.open().await.unwrap_err().to_string().starts_with("cannot read `"));
        scene.write("a bad one");
        assert_eq!(scene.open().await.unwrap_err().to_string(), "`a bad one` is not good");
        scene.write("one");
        let mut file = scene.open().await.unwrap();
        for (said, content) in (1..).zip([Some("a bad one"), Some("another bad one"), None]) {
            match content {
                Some(content) => scene.write(content),
                None => std::fs::remove_file(scene.path()).unwrap(),
            }
            for _ in 0..2 {
                assert!(!file.refresh().await);
                assert_eq!((file.current().as_str(), scene.metrics()), ("one", (1, said)));
            }
        }
        scene.write("two");
        assert!(file.refresh().await);
        assert!(!file.refresh().await);
        assert_eq!((file.current().as_str(), scene.metrics()), ("two", (0, 3)));
    }

    /// Restores the former content after a failure. No change may be reported, because a receiver of changes may close
    /// connections.
    #[tokio::test]
    async fn what_is_as_it_was_before_a_failure_did_not_change() {
        let scene = Scene::new();
        scene.write("one");
        let mut file = scene.open().await.unwrap();
        std::fs::remove_file(scene.path()).unwrap();
        assert!(!file.refresh().await);
        scene.write("one");
        assert!(!file.refresh().await);
        assert_eq!(scene.metrics(), (0, 1));
    }

    #[tokio::test]
    async fn a_file_that_is_too_long_is_refused_and_not_cut() {
        let scene = Scene::new();
        scene.write(&"x".repeat(1 << 10));
        let mut file = scene.open().await.unwrap();
        scene.write(&"x".repeat((1 << 10) + 1));
        assert!(!file.refresh().await);
        assert_eq!(scene.metrics(), (1, 1));
        let error = scene.open().await.unwrap_err().to_string();
        assert!(error.ends_with("is larger than 1 KiB: check that it is the right file"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_follows_is_shown_each_change() {
        let scene = Scene::new();
        scene.write("one");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&shown);
        let following = scene.open().await.unwrap().follow(REREAD, move |text| seen.lock().unwrap().push(text.clone()));
        let following = tokio::spawn(following);
        for (count, content) in (1..).zip(["two", "three"]) {
            scene.write("bad");
            scene.write(content);
            while shown.lock().unwrap().len() < count {
                tokio::time::sleep(REREAD).await;
            }
        }
        assert_eq!(*shown.lock().unwrap(), ["two", "three"]);
        following.abort();
    }
}
