//! Counters.

use serde::{Deserialize, Serialize};

use super::value::Seconds;

/// How a store, or one of its queues, is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueStats {
    /// What waits and runs, by base priority.
    pub queues: Depths,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Waiting for their backoff.
    pub retrying: u64,
    /// Waiting behind their ordering key.
    pub blocked: u64,
    /// Dead letters.
    pub dlq_size: u64,
    /// Tasks in any state.
    pub total_tasks: u64,
    /// Workers by state.
    pub workers: WorkerCounts,
    /// What was done lately; absent for a key that does not reach everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// How long tasks waited lately.
    pub waits: Waits,
    /// What was recovered lately; absent for a key that does not reach everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// Depths by base priority.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Depths {
    /// 3
    pub critical: Depth,
    /// 2
    pub high: Depth,
    /// 1
    pub normal: Depth,
    /// 0
    pub low: Depth,
}

/// What waits and runs at one priority.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Depth {
    /// Pending.
    pub depth: u64,
    /// How long the first of them has waited.
    pub oldest_age_seconds: Seconds,
    /// Assigned or running.
    pub running: u64,
}

/// Workers by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkerCounts {
    /// Get tasks.
    pub active: u64,
    /// Paused by an operator.
    pub paused: u64,
    /// Finish what they have.
    pub draining: u64,
    /// Report trouble, or fail in a row.
    pub unhealthy: u64,
    /// Not heard of for too long.
    pub dead: u64,
    /// Tasks that the live ones could hold.
    pub total_capacity: u64,
    /// Tasks that they hold.
    pub used_capacity: u64,
}

/// What was done lately.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Throughput {
    /// Completions in the last 60 seconds.
    pub completed_last_minute: u64,
    /// Failed attempts in the last 60 seconds.
    pub failed_last_minute: u64,
    /// From start to completion, in the last minutes.
    pub avg_task_duration_seconds: Seconds,
}

/// How long tasks waited until their claim.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Waits {
    /// Half of them no longer than this; absent for a key that does not reach everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_seconds: Option<Seconds>,
    /// All but a twentieth no longer than this; absent for a key that does not reach everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_seconds: Option<Seconds>,
    /// The longest time to the critical level: from then on only earlier tasks go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bound_seconds: Option<Seconds>,
}

/// What was recovered lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Recovery {
    /// Leases that ended without a word, in the last hour.
    pub lease_losses_last_hour: u64,
    /// Attempts that ran too long, in the last hour.
    pub timeouts_last_hour: u64,
}

/// One minute of a store's life.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Minute {
    /// When it began.
    pub at: super::Time,
    /// Tasks taken.
    pub submitted: u64,
    /// Tasks handed to workers.
    pub claimed: u64,
    /// Tasks completed.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Dead letters made.
    pub dead_lettered: u64,
    /// Leases lost.
    pub lease_losses: u64,
    /// Median wait until the claim.
    pub wait_p50_seconds: Seconds,
    /// 95th percentile of the wait until the claim.
    pub wait_p95_seconds: Seconds,
    /// Median time from start to end.
    pub duration_p50_seconds: Seconds,
    /// 95th percentile of the time from start to end.
    pub duration_p95_seconds: Seconds,
}

/// The last minutes, the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Minutes {
    /// Up to 1,440; minutes in which nothing happened are left out.
    pub minutes: Vec<Minute>,
}
