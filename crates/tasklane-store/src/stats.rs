//! Counters.

use tasklane_core::{Lane, Priority, QueueName, QueueSettings, StateName, Timestamp};

/// How many tasks are where.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// The store's wall time.
    pub now: Timestamp,
    /// Every lane and priority that has a task.
    pub lanes: Vec<LaneStats>,
}

/// How many tasks of one lane and priority are where.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneStats {
    /// The lane.
    pub lane: Lane,
    /// The base priority.
    pub priority: Priority,
    /// Tasks by state, indexed by [`StateName::index`].
    pub counts: [u64; StateName::COUNT],
    /// The oldest place among the pending.
    pub oldest_ready_at: Option<Timestamp>,
    /// Pending tasks that have waited for longer than [`tasklane_core::Order::starves_after`]. Of
    /// many in one lane and priority a store may count the first few hundred alone.
    pub starving: u64,
}

impl Stats {
    /// Tasks in `state`, everywhere.
    pub fn total(&self, state: StateName) -> u64 {
        self.lanes.iter().filter_map(|lane| lane.counts.get(state.index())).sum()
    }
}

/// A queue with its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueState {
    /// Its name.
    pub queue: QueueName,
    /// Its settings.
    pub settings: QueueSettings,
    /// Tasks that count towards its depth limits.
    pub depth: u64,
}
