//! A task as it is shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::shape;
use super::submit::Retry;
use super::value::{
    Json, KindWord, NumberText, PriorityWord, Seconds, StateWord, TaskIdText, Time, WorkerIdText,
};

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Task {
    /// Its id.
    pub id: TaskIdText,
    /// Which handler runs it.
    #[serde(rename = "type")]
    pub task_type: Box<str>,
    /// Where it waits.
    pub queue: Box<str>,
    /// What the handler gets; left out of lists unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "shape::present")]
    pub payload: Option<Json>,
    /// How urgent it was made.
    pub priority: PriorityWord,
    /// What it counts as by now.
    pub effective_priority: PriorityWord,
    /// Where it is in its life.
    pub state: StateWord,
    /// Why it ended: for cancelled, failed and dead letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// Executions that ended in an outcome.
    pub attempts: u32,
    /// Retries after the first failure.
    pub max_retries: u32,
    /// Claims.
    pub deliveries: u32,
    /// Leases lost in a row.
    pub lease_losses: u32,
    /// Operator retries.
    pub replays: u32,
    /// What a worker must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_capabilities: Vec<Box<str>>,
    /// How long the next attempt may run.
    pub timeout_seconds: Seconds,
    /// Backoff between attempts.
    pub retry: Retry,
    /// `false`: ends as `failed` instead of `dead_letter`.
    #[serde(default = "super::value::yes", skip_serializing_if = "is_true")]
    pub dead_letter: bool,
    /// Makes sending it again safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Box<str>>,
    /// Runs alone among those with this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<Box<str>>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<Box<str>, Box<str>>,
    /// The trace it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Box<str>>,
    /// How far the current or last attempt is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What the handler gave.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "shape::present")]
    pub result: Option<Json>,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Who holds it, or completed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerIdText>,
    /// When it was taken.
    pub created_at: Time,
    /// When anything last changed.
    pub updated_at: Time,
    /// Not before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Time>,
    /// When it was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_at: Option<Time>,
    /// When it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended, however it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// When its backoff is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<Time>,
    /// Not after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When cancelling was asked of its worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<Time>,
    /// Since it was taken.
    pub age_seconds: Seconds,
    /// Since it came into its state.
    pub state_seconds: Seconds,
    /// In the answer to a submission: about how many of its queue are claimed before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<u64>,
    /// In the answer to a submission: about how long that takes at the present pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_wait_seconds: Option<Seconds>,
    /// Everything that happened to it, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<HistoryEntry>>,
    /// The oldest entries of its history were dropped because there were too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_cut: Option<bool>,
    /// Of a dead letter: equal for those that failed alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Box<str>>,
    /// Of one dead letter: every attempt with its worker, times and error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_history: Option<Vec<Attempt>>,
}

/// One worker's hold on a task, from its claim to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// Which attempt it was, from 1; what ended without an outcome is followed by the same number.
    pub attempt: u32,
    /// Who had it.
    pub worker_id: WorkerIdText,
    /// When it was claimed.
    pub assigned_at: Time,
    /// When it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// How: `completed`, `failed`, `cancelled`, `released`, `lease_lost` or `requeued`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<str>>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_true(value: &bool) -> bool {
    *value
}

/// How far an attempt is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Progress {
    /// 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// Which step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<str>>,
    /// More, as the worker's own JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// When it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Time>,
    /// About how long it still takes, from the pace so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<Seconds>,
}

/// What went wrong in an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// For people.
    pub message: Box<str>,
    /// Decides about the retry; classified by rules where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindWord>,
    /// For machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Box<str>>,
    /// `false` forbids a retry.
    #[serde(default, alias = "retriable", skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// More, as the worker's own JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
    /// Where in the handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Box<str>>,
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskPage {
    /// Newest first. A page may be short, or empty, and still have a cursor.
    pub tasks: Vec<Task>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Box<str>>,
    /// How many match, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Whether `count` is the whole number, or where counting stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<bool>,
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskProgress {
    /// The task.
    pub task_id: TaskIdText,
    /// Where it is.
    pub state: StateWord,
    /// What the current or last attempt reported; absent before the first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Executions that ended in an outcome.
    pub attempts: u32,
    /// When the current attempt was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
}

/// Everything that happened to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct History {
    /// The task.
    pub task_id: TaskIdText,
    /// In order.
    pub history: Vec<HistoryEntry>,
    /// The oldest entries were dropped because there were too many.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// One thing that happened to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HistoryEntry {
    /// The event's number: rises along a task's history. A text, for it may pass 2^53.
    pub seq: NumberText,
    /// What, for example `task.claimed`.
    #[serde(rename = "type")]
    pub event_type: Box<str>,
    /// When.
    pub timestamp: Time,
    /// Who did it, or had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerIdText>,
    /// Of a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Of a claim: running at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// When it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Time>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// Of a promotion: what it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PriorityWord>,
    /// Of a promotion or change: what it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PriorityWord>,
}

/// Why a task is not running, or what it is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The task.
    pub task_id: TaskIdText,
    /// Where it is.
    pub state: StateWord,
    /// In words.
    pub summary: Box<str>,
    /// What stands in its way, the most important first.
    pub obstacles: Vec<Obstacle>,
    /// About how many of its queue are claimed before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<u64>,
    /// About how long that takes at the present pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_wait_seconds: Option<Seconds>,
    /// Until it counts as critical: from then on only earlier tasks go before it. Absent where
    /// that never comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_bound_seconds: Option<Seconds>,
}

/// One thing that stands in a task's way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Obstacle {
    /// Which sort, for example `queue_paused`.
    pub code: Box<str>,
    /// In words.
    pub detail: Box<str>,
    /// Until when, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// How many, where that is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Which task, where it is another task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskIdText>,
    /// Which worker, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerIdText>,
}
