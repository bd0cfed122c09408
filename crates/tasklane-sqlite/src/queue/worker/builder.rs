//! Describing a worker before it starts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use tasklane_core::{
    Capability, CapabilitySet, ClassifyRule, Invalid, Names, Problem, Selection, TaskError,
    TaskType, WorkerSpec,
};
use tasklane_store::Store;

use super::floor::Floor;
use super::{Crew, Handler, Worker};
use crate::queue::Core;
use crate::queue::block::{Bell, block_on};
use crate::queue::context::Context;
use crate::queue::error::QueueError;

/// Handlers at once, each on a thread of its own.
const CAPACITY_MAX: u32 = 1_024;

/// What a worker takes and how it runs it. What is wrong with it, [`WorkerBuilder::start`] says.
#[must_use = "a worker does nothing until it is started"]
pub struct WorkerBuilder {
    core: Arc<Core>,
    capacity: u32,
    name: Option<String>,
    queues: Option<Vec<String>>,
    capabilities: Vec<String>,
    handlers: Vec<(String, Handler)>,
    rules: Vec<ClassifyRule>,
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let types: Vec<_> = self.handlers.iter().map(|(name, _)| name).collect();
        f.debug_struct("WorkerBuilder").field("types", &types).finish_non_exhaustive()
    }
}

impl WorkerBuilder {
    pub(in crate::queue) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            capacity: 1,
            name: None,
            queues: None,
            capabilities: Vec::new(),
            handlers: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// How many handlers run at once: 1 by default, at most 1,024.
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.capacity = capacity;
        self
    }

    /// A name for people.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Takes from these queues only; from all by default.
    pub fn queues(mut self, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// What it can do: it also gets tasks that require some of these.
    pub fn capabilities(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.capabilities = names.into_iter().map(Into::into).collect();
        self
    }

    /// Runs tasks of a type with this handler. Tasks of other types are never claimed. A panic in
    /// a handler fails its task as `bug`.
    pub fn handle<H>(mut self, task_type: impl Into<String>, handler: H) -> Self
    where
        H: Fn(&Context, &[u8]) -> Result<Vec<u8>, TaskError> + Send + Sync + 'static,
    {
        self.handlers.push((task_type.into(), Box::new(handler)));
        self
    }

    /// Rules that name the kind of errors that handlers did not name themselves (S12).
    pub fn classify(mut self, rules: Vec<ClassifyRule>) -> Self {
        self.rules = rules;
        self
    }

    /// Checks all of it, registers the worker and starts its threads.
    pub fn start(self) -> Result<Worker, QueueError> {
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            return Err(Invalid::out_of_range("capacity", "1 to 1024").into());
        }
        let mut handlers = HashMap::new();
        for (task_type, handler) in self.handlers {
            match handlers.entry(TaskType::new(task_type)?) {
                Entry::Vacant(free) => free.insert(handler),
                Entry::Occupied(_) => {
                    return Err(QueueError::malformed("handle", "one handler for each type"));
                }
            };
        }
        if handlers.is_empty() {
            return Err(Invalid::new("handle", Problem::Empty).into());
        }
        let queues = match &self.queues {
            None => Names::All,
            Some(names) if names.is_empty() => {
                return Err(Invalid::new("queues", Problem::Empty).into());
            }
            Some(names) => Names::only(names.iter().map(String::as_str))?,
        };
        let capabilities =
            self.capabilities.iter().map(Capability::new).collect::<Result<Vec<_>, _>>()?;
        let selection = Selection {
            queues,
            types: Names::only(handlers.keys().map(TaskType::as_str))?,
            capabilities: CapabilitySet::new(capabilities)?,
        };
        let spec = WorkerSpec::new(selection, self.capacity)?;
        let spec = spec.described(self.name.as_deref(), None, None)?;
        let id = block_on(self.core.store.register(spec.clone()))?;
        let crew = Crew {
            core: self.core,
            id: Mutex::new(id),
            spec,
            handlers,
            rules: self.rules,
            floor: Floor::new(self.capacity as usize),
            claims: Bell::default(),
            renewals: Bell::default(),
        };
        Worker::start(crew, self.capacity)
    }
}
