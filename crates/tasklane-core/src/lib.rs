//! The pure domain of Tasklane: what a task is, what may happen to it, and what is claimed first.
//!
//! Nothing here does I/O, is async, or asks for the time: `now` and randomness are arguments, so
//! every decision can be replayed. Stores load a task inside their own atomic write, call
//! [`lifecycle::decide`] or [`lifecycle::claim`] at that moment, apply the event that comes back
//! with [`Task::apply`], and write the outcome. Policy lives here and nowhere else.
//!
//! Nothing here knows of SQL, HTTP, JSON or threads.

mod access;
mod api_key;
mod audit;
mod command;
mod error;
mod event;
mod failure;
mod id;
mod lane;
pub mod lifecycle;
pub mod limits;
mod metadata;
mod name;
mod order;
mod priority;
mod queue;
mod random;
mod retry;
mod rotation;
mod spec;
mod state;
mod task;
mod task_error;
mod time;
pub mod trail;
mod worker;

pub use access::{Grants, Reach, Scope, Verb};
pub use api_key::{ApiKey, ApiKeyId, Credential, NewApiKey, SecretHash, is_same_secret};
pub use audit::{AuditEntry, AuditRecord, Broken, Chain, ChainHash, Who};
pub use command::{Command, Intent, Outcome};
pub use error::{Invalid, Problem, Refusal};
pub use event::{Death, Entry, Event, EventKind, Settled, Update};
pub use failure::{ClassifyBy, ClassifyRule, ErrorKind, Failure, KindLimits, classify};
pub use id::{Digest, Fence, LeaseToken, Place, Sequence, Stamp, TaskId, WorkerId};
pub use lane::{CapabilitySet, Lane, Names, Pattern, Selection};
pub use metadata::{Metadata, TraceContext};
pub use name::{Capability, IdempotencyKey, OrderingKey, QueueName, TaskType};
pub use order::{Aging, Band, Order, Range, Weights};
pub use priority::Priority;
pub use queue::{DepthLimits, Pinned, QueueSettings, Retention, Weight};
pub use random::{Random, SeededRandom};
pub use retry::{Backoff, Jitter, RetryPolicy};
pub use rotation::Rotation;
pub use spec::{Draft, NewTask, Policies, Policy, Spec, When, check_retries, check_timeout};
pub use state::{CancelReason, DeadReason, Lease, State, StateName, Withheld};
pub use task::{Admission, Counts, Progress, Task};
pub use task_error::{TaskError, Verdict};
pub use time::{Clock, Timestamp};
pub use worker::{Health, Worker, WorkerSpec, WorkerState};
