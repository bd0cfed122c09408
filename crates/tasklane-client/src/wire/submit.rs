//! Submitting tasks.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::shape;
use super::value::{PriorityWord, Seconds, StateWord, TaskIdText, Time};

/// A task as a producer asks for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewTask<'a> {
    /// A UUIDv7 of the client's own, so that sending the task again is safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskIdText>,
    /// Which handler runs it.
    #[serde(borrow, rename = "type", alias = "task_type")]
    pub task_type: Cow<'a, str>,
    /// Where it waits; `default` if absent.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Cow<'a, str>>,
    /// What the handler gets: any JSON, kept as it came; `null` if absent.
    #[serde(borrow, default, alias = "parameters", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<super::Json>))]
    pub payload: Option<&'a RawValue>,
    /// How urgent; `normal` if no policy says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityWord>,
    /// What a worker must have.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub required_capabilities: Option<Vec<Cow<'a, str>>>,
    /// Retries after the first failure, 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// How long one attempt may run.
    #[serde(default, alias = "timeout", skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<Seconds>,
    /// Backoff between attempts.
    #[serde(
        default,
        alias = "retry_policy",
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_object"
    )]
    pub retry: Option<Retry>,
    /// Not before this instant.
    #[serde(default, alias = "run_at", skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<Time>,
    /// Not before this long from now; instead of `scheduled_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<Seconds>,
    /// Cancelled if it has not been claimed by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Makes sending the task again safe for 24 hours.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Cow<'a, str>>,
    /// Tasks with one key in one queue run one at a time, in order.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<Cow<'a, str>>,
    /// Labels to find it by.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<std::collections::BTreeMap<String, String>>))]
    pub metadata: Option<Labels<'a>>,
    /// `false`: ends as `failed` instead of `dead_letter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<bool>,
}

/// Labels on a task. A name that comes twice is an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels<'a>(pub Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl Serialize for Labels<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> serde::de::Visitor<'de> for Map {
            type Value = Labels<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object whose values are texts")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Labels<'de>, A::Error> {
                // Transparent, so that a refusal can name the entry at fault.
                #[derive(Deserialize)]
                #[serde(transparent)]
                struct Borrowed<'b>(#[serde(borrow)] Cow<'b, str>);
                let mut labels: Vec<(Cow<'de, str>, Cow<'de, str>)> = Vec::new();
                while let Some((Borrowed(name), Borrowed(value))) = map.next_entry()? {
                    if labels.iter().any(|(known, _)| *known == name) {
                        return Err(serde::de::Error::custom("duplicate field in metadata"));
                    }
                    // A bound before the server's own: comparing names is quadratic.
                    if labels.len() > tasklane_core::limits::METADATA_ENTRIES_MAX {
                        return Err(serde::de::Error::custom("too many entries in metadata"));
                    }
                    labels.push((name, value));
                }
                Ok(Labels(labels))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

/// Reads labels to keep, or nothing.
pub(super) fn optional_labels<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromIterator<(Box<str>, Box<str>)>,
{
    let read = Option::<Labels<'de>>::deserialize(deserializer)?;
    let own = |(name, value): (Cow<'de, str>, Cow<'de, str>)| (name.into(), value.into());
    Ok(read.map(|Labels(labels)| labels.into_iter().map(own).collect()))
}

/// Backoff between attempts; what is absent has its default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// How the delay grows.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_word"
    )]
    pub strategy: Option<Strategy>,
    /// The first delay; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_seconds: Option<Seconds>,
    /// Growth of the exponential strategy; 2 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// What the delay does not pass; 300 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<Seconds>,
    /// How the delay is blurred.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "shape::optional_word"
    )]
    pub jitter: Option<Jitter>,
}

/// How a delay grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// initial × factor^n
    Exponential,
    /// initial × (1 + n)
    Linear,
    /// initial
    Fixed,
}

/// How a delay is blurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Not at all.
    None,
    /// By up to a tenth, either way.
    Proportional,
    /// Anything from nothing to the whole delay.
    Full,
}

/// Many tasks, taken or refused together.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Batch<'a> {
    /// Up to 10,000.
    #[serde(borrow, deserialize_with = "shape::objects")]
    pub tasks: Vec<NewTask<'a>>,
}

/// One task of a batch, or a repeated one whose task retention has removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Receipt {
    /// Its id.
    pub id: TaskIdText,
    /// The state it is in.
    pub state: StateWord,
    /// It was there before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// Retention has removed it since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
}

/// The answer to a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BatchAnswer {
    /// In the order of the request.
    pub tasks: Vec<Receipt>,
}
