//! Live events.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::stats::{QueueStats, Throughput};
use super::task::Progress;
use super::value::{KindWord, PriorityWord, TaskIdText, Time, WorkerIdText};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Event {
    /// Where to go on after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Box<str>>,
    /// Its number in the feed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The version of this form.
    pub v: u32,
    /// What, for example `task.completed`.
    #[serde(rename = "type")]
    pub event_type: Cow<'static, str>,
    /// When.
    pub timestamp: Time,
    /// To what, and how.
    pub data: EventData,
}

/// What an event is about; which members there are follows from its type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct EventData {
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskIdText>,
    /// Its type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub task_type: Option<Box<str>>,
    /// Its queue, or the queue itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Box<str>>,
    /// Its base priority; of a promotion, what it counted as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityWord>,
    /// Attempts so far, this one included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Who has it, had it, or the worker itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerIdText>,
    /// Of a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Of a claim: running at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// Of a claim: how long it had waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// When it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Time>,
    /// From start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EventFailure>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Of `queue.depth`: what waits, by critical, high, normal and low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depths: Option<[u64; 4]>,
    /// Of `system.metrics`: everything counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<Box<QueueStats>>,
    /// Of `system.metrics`: what was done lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// Of `system.gap`: why events are missing: `retention`, `restore` or `slow_reader`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Cow<'static, str>>,
    /// Of `system.shutdown`: when to come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// What went wrong, as far as events tell: what a worker wrote of it may quote a payload, and is
/// shown with the task alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EventFailure {
    /// Decides about the retry.
    pub kind: KindWord,
    /// For machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Box<str>>,
    /// `false` forbids a retry.
    pub retryable: bool,
}
