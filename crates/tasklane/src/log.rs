//! Log lines on standard error: one for each event, for people or as JSON.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Human,
    /// For machines.
    Json,
}

/// Starts logging. `level` is a word such as `info`, or rules such as `warn,tasklane_server=debug`.
pub(crate) fn start(format: Format, level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level)
        .map_err(|error| anyhow::anyhow!("--log-level {level}: {error}"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Human => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
