//! Log of both binaries.

use std::io::{IsTerminal, stderr};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

/// Sends the log to standard error: `info` and above, or what `RUST_LOG` says.
pub(super) fn to_standard_error(format: LogFormat) {
    let filter = filter(std::env::var(EnvFilter::DEFAULT_ENV).ok().as_deref());
    match format {
        LogFormat::Text => text(filter, stderr, stderr().is_terminal()).init(),
        LogFormat::Json => json(filter, stderr).init(),
    }
}

/// Filter of the log. Levels that can't be read count as `info`.
fn filter(levels: Option<&str>) -> EnvFilter {
    levels.and_then(|levels| EnvFilter::try_new(levels).ok()).unwrap_or_else(|| EnvFilter::new("info"))
}

/// Writes what a binary would log, in this format and of these levels, for as long as the guard lives and on this thread.
pub fn to_writer<W>(format: LogFormat, levels: &str, writer: W) -> tracing::subscriber::DefaultGuard
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    // tracing asks one thread if anybody wants the events of a line of code, and remembers the answer for all threads.
    // A thread without a subscriber would say no for this thread, too. So every thread has a subscriber by default,
    // which writes nothing.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
    match format {
        LogFormat::Text => text(EnvFilter::new(levels), writer, false).set_default(),
        LogFormat::Json => json(EnvFilter::new(levels), writer).set_default(),
    }
}

/// Colours are for terminals: in a file or a pod's log they are noise.
fn text<W>(filter: EnvFilter, writer: W, colours: bool) -> impl SubscriberInitExt
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(colours).finish()
}

fn json<W>(filter: EnvFilter, writer: W) -> impl SubscriberInitExt
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).json().flatten_event(true).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_cannot_be_read_are_info() {
        for (levels, expected) in [(None, "info"), (Some("debug"), "debug"), (Some("depguard_kcp=loud"), "info")] {
            assert_eq!(filter(levels).to_string(), expected, "{levels:?}");
        }
    }

    #[test]
    fn a_thread_that_does_not_listen_silences_none_that_does() {
        let said = || tracing::info!("said");
        let log = tempfile::NamedTempFile::new().unwrap();
        let file = log.reopen().unwrap();
        let _guard = to_writer(LogFormat::Text, "info", move || file.try_clone().unwrap());
        std::thread::spawn(said).join().unwrap();
        said();
        assert_eq!(std::fs::read_to_string(log.path()).unwrap().matches("said").count(), 1);
    }
}
