//! What workers report of their tasks.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::shape;
use super::task::Failure;
use super::value::{Json, Seconds, StateWord, TaskIdText, Time, TokenText};
use super::worker::{ClaimedTask, Poll};

/// How far an attempt is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ProgressReport {
    /// The task.
    pub task_id: TaskIdText,
    /// The proof.
    pub lease_token: TokenText,
    /// 0 to 100.
    #[serde(default, alias = "progress_percent", skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// Which step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// For people.
    #[serde(default, alias = "status_message", skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<str>>,
    /// More, as the worker's own JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

/// The answer to a progress report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProgressAnswer {
    /// The worker should stop.
    pub cancel: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Report<'a> {
    /// The task.
    pub task_id: TaskIdText,
    /// The proof.
    pub lease_token: TokenText,
    /// How.
    #[serde(deserialize_with = "shape::word")]
    pub status: ReportStatus,
    /// Of a completion: any JSON; `null` if absent.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Json>))]
    pub result: Option<&'a RawValue>,
    /// Of a failure.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_object"
    )]
    pub error: Option<Failure>,
    /// Of a failure: the worker's own wish for the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<Seconds>,
    /// Of a release: not before this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<Seconds>,
    /// How long it took, as the worker measured it. Checked and taken, but durations that are shown
    /// are the store's own, from the start of the attempt until its result.
    #[serde(
        default,
        alias = "execution_duration_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub execution_seconds: Option<Seconds>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    /// Done.
    Completed,
    /// Not done.
    Failed,
    /// Stopped, usually because it was asked to.
    Cancelled,
    /// Given back, costing no attempt.
    Released,
}

/// Many reports, and a poll in the same round trip.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reports<'a> {
    /// Up to 1,000.
    #[serde(borrow, deserialize_with = "shape::objects")]
    pub results: Vec<Report<'a>>,
    /// And the next tasks.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_object"
    )]
    pub poll: Option<Poll>,
}

/// What became of one report or start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReportVerdict {
    /// The task.
    pub task_id: TaskIdText,
    /// The state it is in, where the report was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateWord>,
    /// When the next attempt is due, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<Time>,
    /// Why the report was refused: `lease-lost`, `invalid-state` or `not-found`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Cow<'static, str>>,
    /// Of a report that came alone: other tasks that the worker should stop, absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancel: Vec<TaskIdText>,
}

/// The answer to many reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReportsAnswer {
    /// In the order of the request.
    pub results: Vec<ReportVerdict>,
    /// What the poll got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<ClaimedTask>>,
    /// What the worker should do besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directive: Option<Cow<'static, str>>,
    /// Tasks that the worker should stop; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancel: Vec<TaskIdText>,
}
