//! A task to be submitted.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tasklane_core::{Priority, TaskId, Timestamp};

use super::chance::task_id;
use super::error::Error;
use crate::wire::{self, Labels, PriorityWord, Retry, Seconds, TaskIdText, Time};

/// A task as a producer asks for it. It has an id from the start, so that sending it again, by
/// this client or by its caller, gives one task (S2).
#[derive(Debug, Clone)]
pub struct NewTask {
    id: TaskId,
    /// Everything but id and payload.
    members: wire::NewTask<'static>,
    payload: Option<Box<RawValue>>,
    unwritable: Option<String>,
}

impl NewTask {
    /// A task of this type, in the queue `default`, with the payload `null`.
    pub fn new(task_type: impl Into<String>) -> Self {
        let members = wire::NewTask {
            id: None,
            task_type: Cow::Owned(task_type.into()),
            queue: None,
            payload: None,
            priority: None,
            required_capabilities: None,
            max_retries: None,
            timeout_seconds: None,
            retry: None,
            scheduled_at: None,
            delay_seconds: None,
            expires_at: None,
            idempotency_key: None,
            ordering_key: None,
            metadata: None,
            dead_letter: None,
        };
        Self { id: task_id(), members, payload: None, unwritable: None }
    }

    /// A task as the interface takes it: an object with `type` and whatever else is wanted.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let wrong = |error: serde_json::Error| Error::Usage(format!("no task: {error}"));
        let sent: wire::NewTask<'_> = serde_json::from_str(text).map_err(wrong)?;
        let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
        let owned_all = |texts: Vec<Cow<'_, str>>| texts.into_iter().map(own).collect();
        let labels = |labels: Labels<'_>| {
            Labels(labels.0.into_iter().map(|(name, value)| (own(name), own(value))).collect())
        };
        let members = wire::NewTask {
            id: None,
            task_type: own(sent.task_type),
            queue: owned(sent.queue),
            payload: None,
            priority: sent.priority,
            required_capabilities: sent.required_capabilities.map(owned_all),
            max_retries: sent.max_retries,
            timeout_seconds: sent.timeout_seconds,
            retry: sent.retry,
            scheduled_at: sent.scheduled_at,
            delay_seconds: sent.delay_seconds,
            expires_at: sent.expires_at,
            idempotency_key: owned(sent.idempotency_key),
            ordering_key: owned(sent.ordering_key),
            metadata: sent.metadata.map(labels),
            dead_letter: sent.dead_letter,
        };
        let id = sent.id.map_or_else(task_id, |id| id.0);
        Ok(Self { id, members, payload: sent.payload.map(ToOwned::to_owned), unwritable: None })
    }

    /// Its id.
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Another id than the one that was made for it.
    pub const fn with_id(mut self, id: TaskId) -> Self {
        self.id = id;
        self
    }

    /// What the handler gets. What cannot be written as JSON is refused when it is submitted.
    pub fn payload(mut self, payload: &(impl Serialize + ?Sized)) -> Self {
        match to_raw_value(payload) {
            Ok(payload) => self.payload = Some(payload),
            Err(error) => self.unwritable = Some(error.to_string()),
        }
        self
    }

    /// What the handler gets, byte for byte.
    pub fn raw_payload(mut self, payload: Box<RawValue>) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Where it waits.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.members.queue = Some(Cow::Owned(queue.into()));
        self
    }

    /// How urgent it is.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.members.priority = Some(PriorityWord(priority));
        self
    }

    /// Not before this long from now.
    pub fn delay(mut self, delay: Duration) -> Self {
        (self.members.delay_seconds, self.members.scheduled_at) = (Some(Seconds(delay)), None);
        self
    }

    /// Not before this instant.
    pub fn scheduled_at(mut self, at: Timestamp) -> Self {
        (self.members.delay_seconds, self.members.scheduled_at) = (None, Some(Time(at)));
        self
    }

    /// Cancelled if it has not been claimed by then.
    pub fn expires_at(mut self, at: Timestamp) -> Self {
        self.members.expires_at = Some(Time(at));
        self
    }

    /// How long one attempt may run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.members.timeout_seconds = Some(Seconds(timeout));
        self
    }

    /// Retries after the first failure.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.members.max_retries = Some(retries);
        self
    }

    /// Backoff between attempts.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.members.retry = Some(retry);
        self
    }

    /// A worker must have this, besides what was named before.
    pub fn required_capability(mut self, capability: impl Into<String>) -> Self {
        let capabilities = self.members.required_capabilities.get_or_insert_default();
        capabilities.push(Cow::Owned(capability.into()));
        self
    }

    /// Tasks with one key in one queue are submitted once in 24 hours.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.members.idempotency_key = Some(Cow::Owned(key.into()));
        self
    }

    /// Tasks with one key in one queue run one at a time, in order.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.members.ordering_key = Some(Cow::Owned(key.into()));
        self
    }

    /// A label to find it by, besides those that were named before.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let labels = self.members.metadata.get_or_insert_default();
        labels.0.push((Cow::Owned(name.into()), Cow::Owned(value.into())));
        self
    }

    /// Whether it ends as a dead letter when its retries are used up; else as `failed`.
    pub fn dead_letter(mut self, dead_letter: bool) -> Self {
        self.members.dead_letter = Some(dead_letter);
        self
    }

    /// As it goes over the wire.
    pub(super) fn wire(&self) -> Result<wire::NewTask<'_>, Error> {
        if let Some(error) = &self.unwritable {
            return Err(Error::Usage(format!("the payload cannot be written as JSON: {error}")));
        }
        let mut members: wire::NewTask<'_> = self.members.clone();
        members.payload = self.payload.as_deref();
        members.id = Some(TaskIdText(self.id));
        Ok(members)
    }
}

fn own(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}
