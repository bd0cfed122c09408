//! How a store is opened.

use std::sync::Arc;
use std::time::Duration;

use tasklane_core::Clock;
use tasklane_core::lifecycle::Rules;

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// What comes before the name of every key: stores of different namespaces share a server.
    pub namespace: String,
    /// The numbers that transitions follow.
    pub rules: Rules,
    /// What the answer to a write waits for.
    pub mode: Mode,
    /// How long a command may take.
    pub command_time_max: Duration,
    /// How long connecting may take.
    pub connect_time_max: Duration,
    /// For tests: the time, instead of the server's own. Only its wall time counts.
    pub clock: Option<Arc<dyn Clock>>,
}

/// What the answer to a write waits for (S1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The append-only file, written and synced by `appendfsync always`.
    #[default]
    Durable,
    /// Nothing: in memory.
    Fast,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "tasklane".into(),
            rules: Rules::default(),
            mode: Mode::default(),
            command_time_max: Duration::from_secs(5),
            connect_time_max: Duration::from_secs(5),
            clock: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Options");
        shown.field("namespace", &self.namespace).field("mode", &self.mode).finish_non_exhaustive()
    }
}
