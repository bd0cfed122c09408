//! Queues and their settings.

use serde::{Deserialize, Serialize};

use super::shape;
use super::value::Seconds;

/// A queue with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Queue {
    /// Its name.
    pub name: Box<str>,
    /// Nothing is claimed from it.
    pub paused: bool,
    /// Tasks that wait in it, in whatever state.
    pub depth: u64,
    /// Its share among queues when a worker takes several.
    pub weight: u32,
    /// How it chooses among priorities: `aging` or `weighted`.
    pub order: Box<str>,
    /// With `aging`: waiting times until a task counts at least as each level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aging: Option<AgingSettings>,
    /// With `weighted`: shares of critical, high, normal and low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<[u32; 4]>,
    /// Depths from which submissions are refused.
    pub depth_limits: DepthSettings,
    /// How long ended tasks are kept; absent where the server's own retention applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionSettings>,
    /// Who has set what.
    pub origins: QueueOrigins,
}

/// Who has set what of a queue: an `operator`, the server's `configuration`, or nobody (`default`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueOrigins {
    /// How it chooses among priorities.
    pub order: Box<str>,
    /// Its share among queues.
    pub weight: Box<str>,
    /// Depths from which submissions are refused.
    pub depth_limits: Box<str>,
    /// How long ended tasks are kept.
    pub retention: Box<str>,
}

/// What of a queue can be given back to the server's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QueueMember {
    /// How it chooses among priorities.
    Order,
    /// Its share among queues.
    Weight,
    /// Depths from which submissions are refused.
    DepthLimits,
    /// How long ended tasks are kept.
    Retention,
}

/// Queues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueuePage {
    /// By name.
    pub queues: Vec<Queue>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<Box<str>>,
}

/// Waiting times until a task counts at least as a level; absent is never.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AgingSettings {
    /// As `normal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normal_seconds: Option<Seconds>,
    /// As `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_seconds: Option<Seconds>,
    /// As `critical`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_seconds: Option<Seconds>,
}

/// Depths from which submissions are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DepthSettings {
    /// Low and normal.
    pub normal: u64,
    /// High.
    pub high: u64,
    /// Critical.
    pub all: u64,
}

/// How long ended tasks are kept; absent is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RetentionSettings {
    /// Completed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_seconds: Option<Seconds>,
    /// Cancelled ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_seconds: Option<Seconds>,
    /// Failed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_seconds: Option<Seconds>,
    /// Dead letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_seconds: Option<Seconds>,
}

/// What to change of a queue; what is absent stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct QueuePatch {
    /// Whether anything is claimed from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Its share among queues, 1 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Choose by aging with these times.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_object"
    )]
    pub aging: Option<AgingSettings>,
    /// Choose by drawing with these shares of critical, high, normal and low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<[u32; 4]>,
    /// Depths from which submissions are refused.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_object"
    )]
    pub depth_limits: Option<DepthSettings>,
    /// How long ended tasks are kept.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_object"
    )]
    pub retention: Option<RetentionSettings>,
    /// What should be as the server's configuration has it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "shape::words")]
    pub reset: Vec<QueueMember>,
}
