//! How the binaries log.

use std::io::{IsTerminal, stderr};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum LogFormat {
    /// Lines for a person
    Text,
    /// A JSON object a line, each field by its name
    Json,
}

/// Sends the log to standard error: `info` and above, or what `RUST_LOG` says.
pub(super) fn to_standard_error(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    match format {
        LogFormat::Text => text(filter, stderr, stderr().is_terminal()).init(),
        LogFormat::Json => json(filter, stderr).init(),
    }
}

/// Writes what a binary would log, in this format and of these levels, for as long as the guard lives and on this thread.
pub fn to_writer<W>(format: LogFormat, levels: &str, writer: W) -> tracing::subscriber::DefaultGuard
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
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
