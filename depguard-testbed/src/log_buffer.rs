//! Log of a program that runs in the test's own process.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Log in memory, for a test that reads what a program logs. All clones write to the same log.
///
/// ```
/// use std::io::Write;
///
/// use depguard_testbed::LogBuffer;
///
/// let log = LogBuffer::default();
/// // For example `tracing_subscriber::fmt().with_writer(log.writer())`.
/// let writer = log.writer();
/// writer().write_all(b"one line\n")?;
/// assert_eq!(log.lines(), ["one line"]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl LogBuffer {
    /// Returns the lines so far.
    pub fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
    }

    /// Returns a maker of writers to this log, as `tracing_subscriber` takes it.
    pub fn writer(&self) -> impl Fn() -> Self + Send + Sync + use<> {
        let log = self.clone();
        move || log.clone()
    }
}

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
