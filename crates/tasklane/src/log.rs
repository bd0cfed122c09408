//! Log lines on standard error: one for each event, for people or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Human,
    /// For machines.
    Json,
}

impl Format {
    /// The format with this word.
    pub(crate) fn from_word(word: &str) -> Self {
        if word == "json" { Self::Json } else { Self::Human }
    }
}

/// Changes which lines are written.
pub(crate) struct Handle(Box<dyn Fn(EnvFilter) + Send + Sync>);

impl Handle {
    /// From now on.
    pub(crate) fn set_level(&self, level: &str) {
        if let Ok(filter) = EnvFilter::try_new(level) {
            (self.0)(filter);
        }
    }
}

/// Whether `level` is a word such as `info`, or rules such as `warn,tasklane_server=debug`.
pub(crate) fn check(level: &str) -> Result<(), String> {
    EnvFilter::try_new(level).map(|_| ()).map_err(|error| error.to_string())
}

/// Starts logging.
pub(crate) fn start(format: Format, level: &str) -> anyhow::Result<Handle> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(level)?)
        .with_writer(std::io::stderr);
    Ok(match format {
        Format::Human => {
            let lines = lines.with_ansi(std::io::stderr().is_terminal()).with_filter_reloading();
            let handle = lines.reload_handle();
            lines.init();
            Handle(Box::new(move |filter| drop(handle.reload(filter))))
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            lines.init();
            Handle(Box::new(move |filter| drop(handle.reload(filter))))
        }
    })
}
