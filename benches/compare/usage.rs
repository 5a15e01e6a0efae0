//! CPU and memory of another process, from Linux' `/proc`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::Result;

/// Process that is measured.
#[derive(Debug)]
pub(crate) struct Usage {
    folder: PathBuf,
}

impl Usage {
    pub(crate) fn from_pid(pid: u32) -> Self {
        Self { folder: PathBuf::from(format!("/proc/{pid}")) }
    }

    /// Returns the time for which the process's threads have run so far, to the nanosecond.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(self.folder.join("task"))? {
            // A thread may end between the two reads. The threads of a runtime's workers stay.
            let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            let ran = text.split_whitespace().next().ok_or("schedstat is empty")?;
            nanoseconds += ran.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Returns the bytes in memory now.
    pub(crate) fn memory(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// Resets the peak, which is measured anew from here on.
    pub(crate) fn reset_peak(&self) -> Result {
        Ok(fs::write(self.folder.join("clear_refs"), "5")?)
    }

    /// Returns the maximum of bytes in memory since the last reset.
    pub(crate) fn peak(&self) -> Result<u64> {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> Result<u64> {
        let text = fs::read_to_string(self.folder.join("status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)).ok_or("the status says nothing of memory")?;
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes << 10)
    }
}
