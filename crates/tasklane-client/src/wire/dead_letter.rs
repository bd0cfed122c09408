//! Dead letters.

use serde::{Deserialize, Serialize};

use super::operator::TaskFilter;
use super::shape;
use super::task::Task;
use super::value::{KindWord, PriorityWord, TaskIdText, Time};

/// A page of dead letters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeadLetterPage {
    /// Whole tasks with payload and error, the last to end first. A page may be short, or empty,
    /// and still have a cursor.
    pub entries: Vec<Task>,
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

/// Replay one dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReplayOne {
    /// Attempts start from nought; `true` if absent.
    #[serde(default = "super::value::yes", alias = "reset_retry_count")]
    pub reset_attempts: bool,
    /// With another priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_priority: Option<PriorityWord>,
}

impl Default for ReplayOne {
    fn default() -> Self {
        Self { reset_attempts: true, new_priority: None }
    }
}

/// Replay all dead letters that match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReplayMany {
    /// Which; all if absent.
    #[serde(default, deserialize_with = "shape::object")]
    pub filter: TaskFilter,
    /// Attempts start from nought; `true` if absent.
    #[serde(default = "super::value::yes", alias = "reset_retry_count")]
    pub reset_attempts: bool,
    /// With another priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_priority: Option<PriorityWord>,
    /// At most so many a second; then a call replays what fits into about five seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<u32>,
    /// Only count them.
    #[serde(default)]
    pub dry_run: bool,
    /// Go on where an earlier call stopped: its `next_cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Box<str>>,
}

/// Retry one dead letter or all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RetryDeadLetters {
    /// This one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskIdText>,
    /// All of them.
    pub retry_all: bool,
    /// Of all: go on where an earlier call stopped, its `next_cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Box<str>>,
}

/// What a replay has done so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Replayed {
    /// Tasks revived.
    pub replayed: u64,
    /// There is more to do: call again.
    pub more: bool,
    /// The operation, in the log.
    pub operation_id: Box<str>,
    /// Where to go on, if there is more; without it the next call looks from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Box<str>>,
}

/// Dead letters grouped by what went wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeadLetterSummary {
    /// The largest first.
    pub groups: Vec<DeadLetterGroup>,
    /// Dead letters looked at.
    pub examined: u64,
    /// Whether these are all of them and all of their groups.
    pub exact: bool,
}

/// Dead letters that failed alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct DeadLetterGroup {
    /// Equal for equal type, reason, kind, code and message with numbers and ids left out.
    pub fingerprint: Box<str>,
    /// How many.
    pub count: u64,
    /// Of which type.
    #[serde(rename = "type")]
    pub task_type: Box<str>,
    /// Why they were given up.
    pub reason: Box<str>,
    /// Of which kind the last failure was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindWord>,
    /// Its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Box<str>>,
    /// Its message, of one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<str>>,
    /// When the first of them ended.
    pub first_at: Time,
    /// When the last of them ended.
    pub last_at: Time,
    /// Some of them.
    pub task_ids: Vec<TaskIdText>,
}
