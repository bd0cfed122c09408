//! What operators ask for.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::value::{PriorityWord, Seconds, StateWord, TaskIdText, Time, WorkerIdText};
use super::{shape, submit};

/// Which tasks are meant; what is absent excludes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TaskFilter {
    /// In one of these states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<StateWord>>,
    /// Of this type, or types that begin so with `*`.
    #[serde(rename = "type", alias = "task_type", skip_serializing_if = "Option::is_none")]
    pub task_type: Option<Box<str>>,
    /// In this queue, or queues that begin so with `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Box<str>>,
    /// Of this base priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityWord>,
    /// Held by this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<WorkerIdText>,
    /// With all of these labels.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "submit::optional_labels"
    )]
    pub metadata: Option<BTreeMap<Box<str>, Box<str>>>,
    /// Created at or after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Time>,
    /// Created before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Time>,
    /// Whose last error contains this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
}

/// Cancel all that match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CancelMany {
    /// Which; at least one member.
    #[serde(deserialize_with = "shape::object")]
    pub filter: TaskFilter,
    /// Only count them.
    pub dry_run: bool,
    /// Go on where an earlier call stopped: its `next_cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Box<str>>,
}

/// How many match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Matched {
    /// So many, or where counting stopped.
    pub matched: u64,
    /// Whether that is all.
    pub exact: bool,
}

/// What an operation on many tasks has done so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Changed {
    /// Tasks changed.
    pub changed: u64,
    /// There is more to do: call again.
    pub more: bool,
    /// The operation, in the log.
    pub operation_id: Box<str>,
    /// Where to go on, if there is more; without it the next call looks from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Box<str>>,
}

/// Bring tasks back to `pending`: by id, or by filter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Requeue {
    /// These.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ids: Option<Vec<TaskIdText>>,
    /// Or all that match.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_object"
    )]
    pub filter: Option<TaskFilter>,
    /// With a filter: go on where an earlier call stopped, its `next_cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Box<str>>,
}

/// What was brought back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Requeued {
    /// These were.
    pub requeued: Vec<TaskIdText>,
    /// These were not.
    pub refused: Vec<Refused>,
    /// There is more to do: call again.
    pub more: bool,
    /// The operation, in the log.
    pub operation_id: Box<str>,
    /// Where to go on, if there is more; without it the next call looks from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Box<str>>,
}

/// A task that could not be changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Refused {
    /// Which.
    pub task_id: TaskIdText,
    /// Why: `not-found` or `invalid-state`.
    pub error: Cow<'static, str>,
}

/// What to change of a live task; what is absent stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct UpdateTask {
    /// Its base priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityWord>,
    /// When it is due; only while it is scheduled.
    #[serde(alias = "run_at", skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Time>,
    /// All labels anew.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "submit::optional_labels"
    )]
    pub metadata: Option<BTreeMap<Box<str>, Box<str>>>,
}

/// Clean up now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Maintenance {
    /// Drop everything that has ended, whatever the retention says.
    pub emergency: bool,
}

/// What a clean-up removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Removed {
    /// Tasks by the state they had ended in.
    pub tasks: BTreeMap<Cow<'static, str>, u64>,
    /// Events.
    pub events: u64,
    /// Idempotency records.
    pub idempotency_records: u64,
    /// Dead workers.
    pub workers: u64,
    /// Keys that had expired or been revoked.
    pub keys: u64,
    /// Records of the audit log.
    pub audit_records: u64,
    /// Time is up before everything was removed: call again.
    pub more: bool,
    /// How long it took.
    pub took_seconds: Seconds,
}

/// What has become of the settings that differ from those that were in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reloaded {
    /// In force now.
    pub applied: Vec<String>,
    /// Read only at the start.
    pub needs_restart: Vec<String>,
}

/// Copy the store to a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// A new file on the server's machine.
    pub to: Box<str>,
}

/// A copy of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BackedUp {
    /// The file.
    pub to: Box<str>,
    /// How long it took.
    pub took_seconds: Seconds,
}

/// How a server is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`, `draining` or `unavailable`.
    pub status: Cow<'static, str>,
    /// Why it is not `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// Of the server's software.
    pub version: Cow<'static, str>,
    /// What the success answer of a write means: `fsync`, `committed`, `aof`, `interval`, `memory`.
    pub durability: Cow<'static, str>,
    /// The store's time.
    pub now: Time,
    /// Since this server started.
    pub uptime_seconds: Seconds,
    /// Workers by state.
    pub workers: super::stats::WorkerCounts,
    /// Polls that wait on this server; left out where a key does not reach all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_polls: Option<u64>,
    /// Workers that get no tasks from this server because they fail in a row.
    pub open_breakers: u64,
    /// The server's own affairs; absent for a key that does not reach everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// How a server stands with its machine and its callers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Machine {
    /// Whether callers are asked who they are: `keys` or `off`.
    pub authentication: Cow<'static, str>,
    /// When the server's certificate ends, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_ends_at: Option<Time>,
    /// Events not read from the store yet.
    pub events_lag: u64,
    /// Where the store is, if it is in files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// Open files, where they can be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<OpenFiles>,
}

/// Room on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Disk {
    /// That can still be written.
    pub free_bytes: u64,
    /// Of the whole disk.
    pub total_bytes: u64,
}

/// Files of a process; each connection is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenFiles {
    /// Open now.
    pub open: u64,
    /// How many the system allows.
    pub max: u64,
}
