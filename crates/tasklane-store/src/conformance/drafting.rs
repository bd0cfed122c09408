//! What cases submit, register and report, in few words.

#![expect(clippy::unwrap_used, reason = "test support: a failed expectation is the test's failure")]

use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{
    Backoff, Capability, CapabilitySet, Draft, ErrorKind, Failure, IdempotencyKey, Jitter,
    Metadata, Names, NewTask, OrderingKey, Outcome, Pattern, Policies, Priority, QueueName,
    RetryPolicy, SeededRandom, Selection, TaskId, TaskType, Timestamp, TraceContext, When,
    WorkerSpec, limits,
};

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3_600)
}

pub(crate) const fn days(days: u64) -> Duration {
    hours(days * 24)
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn capabilities(names: &[&str]) -> CapabilitySet {
    CapabilitySet::new(names.iter().map(|name| Capability::new(name).unwrap())).unwrap()
}

/// An id as a client may choose it, with any time in it.
pub(crate) fn chosen_id(millis: u64, counter: u64) -> TaskId {
    TaskId::generate(millis, counter, &mut SeededRandom::new(millis ^ (counter << 32)))
}

/// A backoff without jitter, so that times are exact.
pub(crate) fn backoff(strategy: Backoff, initial: u64, max: u64) -> RetryPolicy {
    RetryPolicy::new(strategy, secs(initial), 2.0, secs(max), Jitter::None).unwrap()
}

pub(crate) fn failed(kind: ErrorKind) -> Outcome {
    Outcome::Failed { failure: Failure::new(kind, "boom"), retry_after: None }
}

pub(crate) fn done(result: &str) -> Outcome {
    Outcome::Completed(Bytes::copy_from_slice(result.as_bytes()))
}

/// A task of this type in the default queue, retried after 1, 2, 4 … seconds.
pub(crate) fn draft(task_type: &str) -> Drafting {
    let retry = Some(backoff(Backoff::Exponential, 1, 300));
    Drafting(NewTask { retry, ..NewTask::new(TaskType::new(task_type).unwrap(), "{}") })
}

/// A task on its way into the store.
#[derive(Clone)]
pub(crate) struct Drafting(pub(crate) NewTask);

impl Drafting {
    pub(crate) fn build(self) -> Draft {
        let payload_bytes_max = limits::PAYLOAD_BYTES_MAX;
        self.0.resolve(&Policies { payload_bytes_max, ..Policies::default() }).unwrap()
    }

    pub(crate) fn id(mut self, id: TaskId) -> Self {
        self.0.id = Some(id);
        self
    }

    pub(crate) fn queue(mut self, name: &str) -> Self {
        self.0.queue = queue(name);
        self
    }

    pub(crate) fn priority(mut self, priority: Priority) -> Self {
        self.0.priority = Some(priority);
        self
    }

    pub(crate) fn needing(mut self, names: &[&str]) -> Self {
        self.0.capabilities = capabilities(names);
        self
    }

    pub(crate) fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.0.payload = payload.into();
        self
    }

    pub(crate) fn retries(mut self, retries: u32) -> Self {
        self.0.max_retries = Some(retries);
        self
    }

    pub(crate) fn retry(mut self, retry: RetryPolicy) -> Self {
        self.0.retry = Some(retry);
        self
    }

    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = Some(timeout);
        self
    }

    pub(crate) fn at(mut self, at: Timestamp) -> Self {
        self.0.schedule = Some(When::At(at));
        self
    }

    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.0.schedule = Some(When::After(delay));
        self
    }

    pub(crate) fn expires_at(mut self, at: Timestamp) -> Self {
        self.0.expires = Some(When::At(at));
        self
    }

    pub(crate) fn expires_after(mut self, span: Duration) -> Self {
        self.0.expires = Some(When::After(span));
        self
    }

    pub(crate) fn key(mut self, key: &str) -> Self {
        self.0.idempotency_key = Some(IdempotencyKey::new(key).unwrap());
        self
    }

    pub(crate) fn ordered_by(mut self, key: &str) -> Self {
        self.0.ordering_key = Some(OrderingKey::new(key).unwrap());
        self
    }

    pub(crate) fn labelled(mut self, name: &str, value: &str) -> Self {
        self.0.metadata = Metadata::new([(name, value)]).unwrap();
        self
    }

    pub(crate) fn traced(mut self, traceparent: &str) -> Self {
        self.0.trace = Some(TraceContext::new(traceparent, None).unwrap());
        self
    }

    pub(crate) fn without_dead_letter(mut self) -> Self {
        self.0.dead_letter = Some(false);
        self
    }
}

/// A worker that takes every queue and type, has no capabilities and room for thousands.
pub(crate) fn taking() -> Taking {
    Taking(WorkerSpec::new(Selection::default(), 10_000).unwrap())
}

/// A worker on its way into the store.
pub(crate) struct Taking(pub(crate) WorkerSpec);

impl Taking {
    pub(crate) fn queues(mut self, patterns: &[&str]) -> Self {
        self.0.selection.queues = matching(patterns);
        self
    }

    pub(crate) fn types(mut self, patterns: &[&str]) -> Self {
        self.0.selection.types = matching(patterns);
        self
    }

    pub(crate) fn having(mut self, names: &[&str]) -> Self {
        self.0.selection.capabilities = capabilities(names);
        self
    }

    pub(crate) fn capacity(mut self, capacity: u32) -> Self {
        self.0.capacity = capacity;
        self
    }
}

/// Names that fit one of these patterns.
pub(crate) fn matching(patterns: &[&str]) -> Names {
    Names::matching(patterns.iter().map(|text| Pattern::new(text).unwrap()).collect()).unwrap()
}
