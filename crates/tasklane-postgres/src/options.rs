//! How to open a store.

use std::sync::Arc;
use std::time::Duration;

use tasklane_core::Clock;
use tasklane_core::lifecycle::Rules;

/// How a store behaves.
#[derive(Clone)]
pub struct Options {
    /// The numbers that transitions follow.
    pub rules: Rules,
    /// The PostgreSQL schema in which the tables are.
    pub schema: String,
    /// Connections at most.
    pub connections: usize,
    /// How long a statement waits for another transaction's lock.
    pub lock_time_max: Duration,
    /// How long a statement may take.
    pub statement_time_max: Duration,
    /// How long a commit may take, which may have to wait for a standby, until its outcome counts
    /// as unknown.
    pub commit_time_max: Duration,
    /// How often a server looks for what others did, though no notification came.
    pub look_every: Duration,
    /// Instead of the database's clock: for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            schema: "tasklane".into(),
            connections: 8,
            lock_time_max: Duration::from_millis(500),
            statement_time_max: Duration::from_secs(30),
            commit_time_max: Duration::from_secs(30),
            look_every: Duration::from_millis(500),
            clock: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("rules", &self.rules)
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}
