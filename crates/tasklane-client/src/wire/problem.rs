//! Refusals, as RFC 9457 has them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::value::StateWord;

/// A refusal. Payloads and secrets are never part of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Which sort, for example `lease-lost`: the word to act on.
    #[serde(rename = "type")]
    pub problem_type: Cow<'static, str>,
    /// The same for people.
    pub title: Cow<'static, str>,
    /// Of HTTP.
    pub status: u16,
    /// What is wrong this time.
    pub detail: Box<str>,
    /// What was asked for.
    pub instance: Box<str>,
    /// To find it in the log.
    pub request_id: Box<str>,
    /// What is wrong with which member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Of `invalid-state`: the state the task is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_state: Option<StateWord>,
}

/// What is wrong with a member of a body or query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// Where, as a JSON pointer; a parameter's name in front of a query.
    pub pointer: Box<str>,
    /// Which sort: `unknown-field`, `missing-field`, `wrong-type`, `out-of-range` …
    pub code: Cow<'static, str>,
    /// In words.
    pub detail: Box<str>,
}
