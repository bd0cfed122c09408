//! How a worker is put together.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tasklane_core::TaskError;

use super::breaker::BreakerSettings;
use super::context::Context;
use super::crew::Worker;
use super::handler::Handlers;
use crate::call::{Client, Error};
use crate::limits::{DRAIN_WITHIN, STOP_WITHIN};
use crate::wire::Register;

/// Options of a [`Worker`].
#[derive(Debug, Clone)]
pub struct WorkerBuilder {
    pub(super) client: Client,
    pub(super) register: Register,
    pub(super) handlers: Handlers,
    pub(super) capacity: u32,
    pub(super) breaker: BreakerSettings,
    pub(super) drain_within: Duration,
    pub(super) stop_within: Duration,
}

impl WorkerBuilder {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            register: Register::default(),
            handlers: Handlers::default(),
            capacity: 5,
            breaker: BreakerSettings::default(),
            drain_within: DRAIN_WITHIN,
            stop_within: STOP_WITHIN,
        }
    }

    /// What runs tasks of a type, or of types that begin so with `*`. Payloads and results are
    /// whatever serde reads and writes; [`Json`](crate::wire::Json) takes them as they come. A
    /// payload that cannot be read is a `permanent` failure.
    pub fn handle<P, R, F, H>(mut self, task_type: impl AsRef<str>, handler: H) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize,
        F: Future<Output = Result<R, TaskError>> + Send + 'static,
        H: Fn(Context, P) -> F + Send + Sync + 'static,
    {
        self.handlers.insert(task_type.as_ref(), handler);
        self
    }

    /// How many tasks run at once; 5 if absent.
    pub fn capacity(mut self, tasks: u32) -> Self {
        self.capacity = tasks;
        self
    }

    /// A queue it takes tasks from, or queues that begin so with `*`, besides those named before;
    /// all if none is.
    pub fn queue(mut self, queue: impl Into<Box<str>>) -> Self {
        self.register.queues.get_or_insert_default().push(queue.into());
        self
    }

    /// Something it has that tasks may require, besides what was named before.
    pub fn capability(mut self, capability: impl Into<Box<str>>) -> Self {
        self.register.capabilities.get_or_insert_default().push(capability.into());
        self
    }

    /// What people call it.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.register.name = Some(name.into());
        self
    }

    /// The version of its software.
    pub fn version(mut self, version: impl Into<Box<str>>) -> Self {
        self.register.version = Some(version.into());
        self
    }

    /// Where it runs.
    pub fn host(mut self, host: impl Into<Box<str>>) -> Self {
        self.register.host = Some(host.into());
        self
    }

    /// When breakers open: see [`Context::with_breaker`].
    pub fn breaker(mut self, settings: BreakerSettings) -> Self {
        self.breaker = settings;
        self
    }

    /// How long running tasks get to finish when the worker ends; 30 s if absent. What is not done
    /// by then is given back.
    pub fn drain_within(mut self, time: Duration) -> Self {
        self.drain_within = time;
        self
    }

    /// How long a handler that was told to stop gets before it is dropped; 5 s if absent.
    pub fn stop_within(mut self, time: Duration) -> Self {
        self.stop_within = time;
        self
    }

    /// The worker. It does nothing until it is run.
    pub fn build(mut self) -> Result<Worker, Error> {
        let types = self.handlers.types();
        if types.is_empty() {
            return Err(Error::Usage("a worker needs a handler".into()));
        }
        if self.capacity == 0 {
            return Err(Error::Usage("a worker needs a capacity of at least 1".into()));
        }
        self.register.types = Some(types);
        self.register.capacity = Some(self.capacity);
        Ok(Worker::new(self))
    }
}
