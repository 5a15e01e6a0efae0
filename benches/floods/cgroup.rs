//! Cgroup with a memory limit, for one process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Result;

/// Cgroup, removed when it is dropped, after its process has ended.
pub(crate) struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes a cgroup with this limit in bytes, by version 2 or version 1 of the interface. An error says why none can be
    /// made here.
    pub(crate) fn make(name: &str, limit: u64) -> Result<Self> {
        let (root, file) = match fs::exists("/sys/fs/cgroup/cgroup.controllers")? {
            true => ("/sys/fs/cgroup", "memory.max"),
            false => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        };
        let told = |why| format!("no cgroup can be made in {root}: {why}");
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let cgroup = Self(Path::new(root).join(format!("depguard-floods-{name}-{}-{number}", std::process::id())));
        fs::create_dir(&cgroup.0).map_err(told)?;
        fs::write(cgroup.0.join(file), limit.to_string()).map_err(told)?;
        Ok(cgroup)
    }

    /// Returns the file to which a process writes its id to enter.
    pub(crate) fn entrance(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
