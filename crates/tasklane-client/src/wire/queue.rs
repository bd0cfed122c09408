//! Queues and their settings.

use serde::{Deserialize, Serialize};

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
}

/// Every queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueuePage {
    /// By name.
    pub queues: Vec<Queue>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aging: Option<AgingSettings>,
    /// Choose by drawing with these shares of critical, high, normal and low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<[u32; 4]>,
    /// Depths from which submissions are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_limits: Option<DepthSettings>,
    /// How long ended tasks are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionSettings>,
}
