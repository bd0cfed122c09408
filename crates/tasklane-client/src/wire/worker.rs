//! What workers and servers say to each other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::report::ReportVerdict;
use super::shape;
use super::value::{Json, PriorityWord, Seconds, TaskIdText, Time, TokenText, WorkerIdText};

/// A worker makes itself known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Register {
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// What it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<Box<str>>>,
    /// Types it takes, or beginnings of them with `*`; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<Box<str>>>,
    /// Queues it takes, or beginnings of them with `*`; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<Box<str>>>,
    /// How many tasks it holds at once; 5 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// Of its software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Box<str>>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<str>>,
}

/// The answer to a registration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Registered {
    /// Its id, for every later call.
    pub worker_id: WorkerIdText,
    /// How long a lease lasts without a heartbeat.
    pub lease_ms: u64,
    /// How often to send one.
    pub heartbeat_interval_ms: u64,
    /// How long a poll should wait.
    pub poll_wait_ms: u64,
    /// How long to rest between polls that did not wait.
    pub poll_interval_ms: u64,
}

/// A worker asks for tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// How many it could take; its capacity bounds it too.
    pub available_capacity: u32,
    /// How long to wait when there is none, up to 60,000.
    #[serde(default)]
    pub wait_ms: u64,
    /// Straight to `running`; `true` if absent.
    #[serde(default = "super::value::yes")]
    pub auto_start: bool,
    /// Only with these of its capabilities, for this once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<Box<str>>>,
}

/// The answer to a poll.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PollAnswer {
    /// What it got.
    pub tasks: Vec<ClaimedTask>,
    /// What it should do besides: `none`, `pause`, `drain` or `terminate`.
    pub directive: Cow<'static, str>,
}

/// A task in a worker's hands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ClaimedTask {
    /// Its id.
    pub id: TaskIdText,
    /// Which handler runs it.
    #[serde(rename = "type")]
    pub task_type: Box<str>,
    /// Where it waited.
    pub queue: Box<str>,
    /// What the handler gets.
    pub payload: Json,
    /// How urgent it was made.
    pub priority: PriorityWord,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Retries after the first failure.
    pub max_retries: u32,
    /// The proof of holding it.
    pub lease_token: TokenText,
    /// For outside systems: rises with every claim of a task.
    pub fence: u64,
    /// How long the lease lasts without a heartbeat.
    pub lease_ms: u64,
    /// How long the attempt may run.
    pub timeout_seconds: Seconds,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<Box<str>, Box<str>>,
    /// Runs alone among those with this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<Box<str>>,
    /// Trace context of the producer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Box<str>>,
    /// Trace context of the producer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<Box<str>>,
    /// When it was taken.
    pub created_at: Time,
}

/// A lease by its task and token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LeaseRef {
    /// The task.
    pub task_id: TaskIdText,
    /// The proof.
    pub lease_token: TokenText,
}

/// Assigned tasks begin: one, or many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Start {
    /// One: the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskIdText>,
    /// One: the proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<TokenText>,
    /// Many.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_objects"
    )]
    pub tasks: Option<Vec<LeaseRef>>,
}

/// The answer to many starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StartAnswer {
    /// In the order of the request.
    pub results: Vec<ReportVerdict>,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Heartbeat {
    /// Tasks it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_load: Option<u32>,
    /// What it calls itself: `active` or `draining`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_word"
    )]
    pub status: Option<HeartbeatStatus>,
    /// What it reports of its machine.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_object"
    )]
    pub health: Option<HealthReport>,
    /// Leases to renew; all that it holds if absent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_objects"
    )]
    pub leases: Option<Vec<LeaseRef>>,
}

/// What a worker calls itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HeartbeatStatus {
    /// Takes tasks.
    Active,
    /// Finishes what it has.
    Draining,
}

/// What a worker reports of its machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct HealthReport {
    /// Percent of the machine.
    #[serde(alias = "cpu_usage_percent", skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f32>,
    /// Percent of the machine.
    #[serde(alias = "memory_usage_percent", skip_serializing_if = "Option::is_none")]
    pub memory_percent: Option<f32>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HeartbeatAnswer {
    /// Always `true`.
    pub acknowledged: bool,
    /// Finish what it has and take no more.
    pub should_drain: bool,
    /// `none`, `pause`, `drain` or `terminate`.
    pub directive: Cow<'static, str>,
    /// Tasks it should stop.
    pub cancel: Vec<TaskIdText>,
    /// Tasks it no longer holds.
    pub lost: Vec<TaskIdText>,
}

/// A worker as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Worker {
    /// Its id.
    pub worker_id: WorkerIdText,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// `active`, `paused`, `draining`, `unhealthy` or `dead`.
    pub state: Cow<'static, str>,
    /// Of its circuit breaker: `closed`, `open` or `half_open`.
    pub breaker: Cow<'static, str>,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// What it has.
    pub capabilities: Vec<Box<str>>,
    /// Queues it takes; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<Box<str>>>,
    /// Types it takes; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<Box<str>>>,
    /// How many tasks it holds at most.
    pub capacity: u32,
    /// How many it holds.
    pub leases: u32,
    /// How many it says it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_load: Option<u32>,
    /// Of its software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Box<str>>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<str>>,
    /// Percent of its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f32>,
    /// Percent of its machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_percent: Option<f32>,
    /// When it registered.
    pub registered_at: Time,
    /// When it was last heard of.
    pub seen_at: Time,
}

/// All workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkerPage {
    /// In the order of their ids.
    pub workers: Vec<Worker>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Box<str>>,
}
