//! What a producer asks for, and what it becomes once policies have filled the gaps.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Invalid, Problem};
use crate::id::{Digest, Digester, TaskId};
use crate::lane::{CapabilitySet, Lane};
use crate::limits;
use crate::metadata::{Metadata, TraceContext};
use crate::name::{IdempotencyKey, OrderingKey, QueueName, TaskType};
use crate::priority::Priority;
use crate::retry::{Backoff, Jitter, RetryPolicy};
use crate::time::Timestamp;

/// When a task should run, if not at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At a wall time.
    At(Timestamp),
    /// This long after the store took it.
    After(Duration),
}

impl When {
    /// The instant meant, seen from `now`.
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::After(delay) => now.plus(delay),
        }
    }
}

/// A task as a producer asks for it. Members left out are filled by [`Policies`].
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Chosen by the client so that a resend is safe; made by the store otherwise.
    pub id: Option<TaskId>,
    /// The type.
    pub task_type: TaskType,
    /// The queue.
    pub queue: QueueName,
    /// What the handler gets, untouched.
    pub payload: Bytes,
    /// How urgent.
    pub priority: Option<Priority>,
    /// What a worker must have.
    pub capabilities: CapabilitySet,
    /// Retries after the first failure.
    pub max_retries: Option<u32>,
    /// How long one attempt may run.
    pub timeout: Option<Duration>,
    /// Backoff.
    pub retry: Option<RetryPolicy>,
    /// Not before.
    pub schedule: Option<When>,
    /// Not after: cancelled if it has not been claimed by then.
    pub expires: Option<When>,
    /// Makes the submission safe to repeat.
    pub idempotency_key: Option<IdempotencyKey>,
    /// One at a time, in order.
    pub ordering_key: Option<OrderingKey>,
    /// Labels.
    pub metadata: Metadata,
    /// Trace of the producer.
    pub trace: Option<TraceContext>,
    /// `false`: ends as `failed` instead of `dead_letter`.
    pub dead_letter: Option<bool>,
}

impl NewTask {
    /// A task with nothing but a type and a payload, in the default queue.
    pub fn new(task_type: TaskType, payload: impl Into<Bytes>) -> Self {
        Self {
            id: None,
            task_type,
            queue: QueueName::default_queue(),
            payload: payload.into(),
            priority: None,
            capabilities: CapabilitySet::default(),
            max_retries: None,
            timeout: None,
            retry: None,
            schedule: None,
            expires: None,
            idempotency_key: None,
            ordering_key: None,
            metadata: Metadata::default(),
            trace: None,
            dead_letter: None,
        }
    }

    /// Checks what needs no clock and fills the gaps: task > type > queue > priority > default.
    pub fn resolve(self, policies: &Policies) -> Result<Draft, Invalid> {
        if self.payload.len() > policies.payload_bytes_max {
            let max = policies.payload_bytes_max;
            return Err(Invalid::new("payload", Problem::TooLong { max }));
        }
        // Only a request that may come twice needs a digest to be recognised by.
        let repeatable = self.id.is_some() || self.idempotency_key.is_some();
        let digest = repeatable.then(|| self.digest());
        let policy = policies.for_task(&self.task_type, &self.queue, self.priority);
        let spec = Spec {
            lane: Lane {
                queue: self.queue,
                task_type: self.task_type,
                capabilities: self.capabilities,
            },
            priority: policy.priority,
            max_retries: check_retries(self.max_retries.unwrap_or(policy.max_retries))?,
            timeout: check_timeout(self.timeout.unwrap_or(policy.timeout))?,
            retry: self.retry.unwrap_or(policy.retry),
            dead_letter: self.dead_letter.unwrap_or(policy.dead_letter),
            idempotency_key: self.idempotency_key,
            ordering_key: self.ordering_key,
            metadata: self.metadata,
            trace: self.trace,
        };
        Ok(Draft {
            id: self.id,
            digest,
            spec,
            schedule: self.schedule,
            expires: self.expires,
            payload: self.payload,
        })
    }

    /// A hash of the request as sent, the trace, the id and the idempotency key left out (S13).
    pub fn digest(&self) -> Digest {
        let when = |when: Option<When>| match when {
            None => [0; 17],
            Some(When::At(at)) => tagged(1, i128::from(at.as_micros())),
            Some(When::After(delay)) => tagged(2, delay.as_nanos() as i128),
        };
        let mut digester = Digester::default()
            .part(self.task_type.as_str().as_bytes())
            .part(self.queue.as_str().as_bytes())
            .part(&self.payload)
            .optional(self.priority.map(|p| [p.number()]).as_ref().map(<[u8; 1]>::as_slice))
            .optional(self.max_retries.map(u32::to_le_bytes).as_ref().map(<[u8; 4]>::as_slice))
            .part(&tagged(0, self.timeout.map_or(-1, |t| t.as_nanos() as i128)))
            .optional(self.retry.map(|r| retry_bytes(&r)).as_ref().map(<[u8; 50]>::as_slice))
            .part(&when(self.schedule))
            .part(&when(self.expires))
            .optional(self.ordering_key.as_ref().map(|key| key.as_str().as_bytes()))
            .part(&[self.dead_letter.map_or(2, u8::from)]);
        for capability in self.capabilities.iter() {
            digester = digester.part(capability.as_str().as_bytes());
        }
        digester = digester.part(b"metadata");
        for (name, value) in self.metadata.iter() {
            digester = digester.part(name.as_bytes()).part(value.as_bytes());
        }
        digester.finish()
    }
}

fn tagged(tag: u8, number: i128) -> [u8; 17] {
    let mut bytes = [tag; 17];
    bytes.split_at_mut(1).1.copy_from_slice(&number.to_le_bytes());
    bytes
}

fn retry_bytes(retry: &RetryPolicy) -> [u8; 50] {
    let strategy = match retry.strategy() {
        Backoff::Exponential => 0,
        Backoff::Linear => 1,
        Backoff::Fixed => 2,
    };
    let jitter = match retry.jitter() {
        Jitter::None => 0,
        Jitter::Proportional => 1,
        Jitter::Full => 2,
    };
    let mut bytes = [0; 50];
    let parts = tagged(strategy, retry.initial().as_nanos() as i128)
        .into_iter()
        .chain(tagged(jitter, retry.max().as_nanos() as i128))
        .chain(retry.factor().to_le_bytes());
    for (slot, byte) in bytes.iter_mut().zip(parts) {
        *slot = byte;
    }
    bytes
}

/// Checks a number of retries.
pub fn check_retries(retries: u32) -> Result<u32, Invalid> {
    let fits = retries <= limits::RETRIES_MAX;
    fits.then_some(retries).ok_or(Invalid::out_of_range("max_retries", "0 to 100"))
}

/// Checks an execution timeout.
pub fn check_timeout(timeout: Duration) -> Result<Duration, Invalid> {
    let fits = (limits::TIMEOUT_MIN..=limits::TIMEOUT_MAX).contains(&timeout);
    fits.then_some(timeout).ok_or(Invalid::out_of_range("timeout_seconds", "0.001 to 604800"))
}

/// A checked task with every gap filled: what a store is asked to admit.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Chosen by the client.
    pub id: Option<TaskId>,
    /// Present where the submission may be repeated.
    pub digest: Option<Digest>,
    /// What it is.
    pub spec: Spec,
    /// Not before.
    pub schedule: Option<When>,
    /// Not after.
    pub expires: Option<When>,
    /// What the handler gets.
    pub payload: Bytes,
}

/// What a task is, apart from what happens to it. Only an operator's update changes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Queue, type and required capabilities.
    pub lane: Lane,
    /// Base priority.
    pub priority: Priority,
    /// Retries after the first failure.
    pub max_retries: u32,
    /// How long the first attempt may run.
    pub timeout: Duration,
    /// Backoff.
    pub retry: RetryPolicy,
    /// `false`: ends as `failed` instead of `dead_letter`.
    pub dead_letter: bool,
    /// Makes the submission safe to repeat.
    pub idempotency_key: Option<IdempotencyKey>,
    /// One at a time, in order.
    pub ordering_key: Option<OrderingKey>,
    /// Labels.
    pub metadata: Metadata,
    /// Trace of the producer.
    pub trace: Option<TraceContext>,
}

/// Values for members that a task leaves out, for one type, queue or priority.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Policy {
    /// Base priority.
    pub priority: Option<Priority>,
    /// Retries.
    pub max_retries: Option<u32>,
    /// Execution timeout.
    pub timeout: Option<Duration>,
    /// Backoff.
    pub retry: Option<RetryPolicy>,
    /// Whether exhausted tasks are kept as dead letters.
    pub dead_letter: Option<bool>,
}

/// All policies by where they apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Policies {
    /// By type: the nearest to the task.
    pub types: HashMap<TaskType, Policy>,
    /// By queue.
    pub queues: HashMap<QueueName, Policy>,
    /// By priority, indexed by its number.
    pub priorities: [Policy; Priority::COUNT],
    /// Largest payload taken.
    pub payload_bytes_max: usize,
}

impl Default for Policies {
    fn default() -> Self {
        // Low to critical (S11, S12).
        let priorities =
            [(2, 900), (3, 600), (5, 300), (5, 300)].map(|(retries, seconds)| Policy {
                max_retries: Some(retries),
                timeout: Some(Duration::from_secs(seconds)),
                ..Policy::default()
            });
        Self {
            types: HashMap::new(),
            queues: HashMap::new(),
            priorities,
            payload_bytes_max: limits::PAYLOAD_BYTES_DEFAULT,
        }
    }
}

/// A policy without gaps.
struct Resolved {
    priority: Priority,
    max_retries: u32,
    timeout: Duration,
    retry: RetryPolicy,
    dead_letter: bool,
}

impl Policies {
    fn for_task(&self, task_type: &TaskType, queue: &QueueName, own: Option<Priority>) -> Resolved {
        let near = [self.types.get(task_type), self.queues.get(queue)];
        let priority = own
            .or_else(|| near.iter().flatten().find_map(|policy| policy.priority))
            .unwrap_or_default();
        let layers = || near.iter().flatten().copied().chain(self.priorities.get(priority.index()));
        Resolved {
            priority,
            max_retries: layers().find_map(|policy| policy.max_retries).unwrap_or(3),
            timeout: layers().find_map(|policy| policy.timeout).unwrap_or(Duration::from_secs(600)),
            retry: layers().find_map(|policy| policy.retry).unwrap_or_default(),
            dead_letter: layers().find_map(|policy| policy.dead_letter).unwrap_or(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_task() -> NewTask {
        NewTask::new(TaskType::new("email.send").unwrap(), "{}")
    }

    #[test]
    fn defaults_follow_the_priority() {
        let of = |priority| {
            let task = NewTask { priority: Some(priority), ..new_task() };
            let spec = task.resolve(&Policies::default()).unwrap().spec;
            (spec.max_retries, spec.timeout.as_secs())
        };
        assert_eq!(Priority::DESCENDING.map(of), [(5, 300), (5, 300), (3, 600), (2, 900)]);
    }

    #[test]
    fn the_nearest_policy_wins() {
        let retries = |n| Policy { max_retries: Some(n), ..Policy::default() };
        let mut policies = Policies::default();
        let resolved = |task: NewTask, policies: &Policies| task.resolve(policies).unwrap().spec;
        policies.queues.insert(QueueName::default_queue(), retries(7));
        assert_eq!(resolved(new_task(), &policies).max_retries, 7);
        policies.types.insert(TaskType::new("email.send").unwrap(), retries(8));
        assert_eq!(resolved(new_task(), &policies).max_retries, 8);
        let own = NewTask { max_retries: Some(9), ..new_task() };
        assert_eq!(resolved(own, &policies).max_retries, 9);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let refused = |task: NewTask| task.resolve(&Policies::default()).unwrap_err().field;
        assert_eq!(refused(NewTask { max_retries: Some(101), ..new_task() }), "max_retries");
        assert_eq!(
            refused(NewTask { timeout: Some(Duration::ZERO), ..new_task() }),
            "timeout_seconds"
        );
        let large = Bytes::from(vec![0; limits::PAYLOAD_BYTES_DEFAULT + 1]);
        assert_eq!(refused(NewTask { payload: large, ..new_task() }), "payload");
    }

    #[test]
    fn the_digest_sees_every_member_but_trace_id_and_key() {
        let base = new_task();
        let key = Some(IdempotencyKey::new("k").unwrap());
        let trace = Some(TraceContext::new("00-1-2-01", None).unwrap());
        let same = NewTask { idempotency_key: key, trace, ..base.clone() };
        assert_eq!(base.digest(), same.digest());
        let secs = Duration::from_secs;
        let capability = crate::name::Capability::new("gpu").unwrap();
        let others = [
            NewTask { payload: Bytes::from_static(b"{ }"), ..base.clone() },
            NewTask { task_type: TaskType::new("x").unwrap(), ..base.clone() },
            NewTask { queue: QueueName::new("x").unwrap(), ..base.clone() },
            NewTask { priority: Some(Priority::Normal), ..base.clone() },
            NewTask { max_retries: Some(3), ..base.clone() },
            NewTask { timeout: Some(secs(1)), ..base.clone() },
            NewTask { retry: Some(RetryPolicy::default()), ..base.clone() },
            NewTask { schedule: Some(When::After(secs(1))), ..base.clone() },
            NewTask { expires: Some(When::After(secs(1))), ..base.clone() },
            NewTask { schedule: Some(When::At(Timestamp::from_millis(1))), ..base.clone() },
            NewTask { ordering_key: Some(OrderingKey::new("k").unwrap()), ..base.clone() },
            NewTask { dead_letter: Some(true), ..base.clone() },
            NewTask { metadata: Metadata::new([("a", "b")]).unwrap(), ..base.clone() },
            NewTask { capabilities: CapabilitySet::new([capability]).unwrap(), ..base.clone() },
        ];
        let mut seen: Vec<_> = others.iter().map(NewTask::digest).collect();
        seen.push(base.digest());
        let distinct: std::collections::HashSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
    }
}
