//! The queue inside a Rust program: no server, no async runtime, every call blocks.
//!
//! [`Queue`] is a cheap handle for any number of threads. It owns the store and one thread of
//! maintenance; [`Queue::worker`] adds threads that claim tasks and run handlers. Everything stops
//! when the last handle is dropped.
//!
//! ```
//! use std::time::Duration;
//! use tasklane_core::{NewTask, TaskType};
//! use tasklane_sqlite::Queue;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue = Queue::in_memory()?;
//! let worker = queue.worker().handle("greet", |_, payload| Ok(payload.to_vec())).start()?;
//! let id = queue.submit(NewTask::new(TaskType::new("greet")?, "hello"))?.id;
//! let task = queue.wait(id, Duration::from_secs(10))?;
//! assert_eq!(task.result.as_deref(), Some(&b"hello"[..]));
//! worker.stop(Duration::from_secs(1));
//! # Ok(())
//! # }
//! ```
//!
//! - `builder` options; `task` what producers call; `operate` what operators call
//! - `settings` of queues; `maintenance` what time does
//! - `worker` claims and handlers; `context` what a handler sees; `task_error` what it may say
//!
//! Nothing here decides what happens to a task: that is `tasklane-core`, inside the store.

mod block;
mod builder;
mod context;
mod error;
mod maintenance;
mod operate;
mod settings;
mod task;
mod worker;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tasklane_core::Policies;
use tasklane_core::lifecycle::Rules;
use tasklane_store::{Prune, StoreError};
use tokio::sync::watch;

use crate::store::SqliteStore;
pub use builder::Builder;
pub use context::Context;
pub use error::QueueError;
use maintenance::Maintenance;
pub use operate::{QueueStatus, Requeued};
use settings::Settings;
pub use task::Cancellation;
pub use tasklane_core::TaskError;
pub use worker::{Stopped, Worker, WorkerBuilder};

/// A task queue in this process.
#[derive(Debug, Clone)]
pub struct Queue {
    core: Arc<Core>,
}

impl Queue {
    /// Opens the queue in a folder, which is made if it is not there, with the default options.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, QueueError> {
        Self::builder().open(path)
    }

    /// A queue that is gone when its last handle is dropped.
    pub fn in_memory() -> Result<Self, QueueError> {
        Self::builder().in_memory()
    }

    /// Begins with the default options.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Describes a worker: what it takes and which handlers it has.
    pub fn worker(&self) -> WorkerBuilder {
        WorkerBuilder::new(self.core.clone())
    }
}

/// What all handles and workers share.
#[derive(Debug)]
struct Core {
    /// First, so that it ends before the store is closed.
    _maintenance: Maintenance,
    store: Arc<SqliteStore>,
    policies: Policies,
    rules: Rules,
    prune: Prune,
    settings: Settings,
    notes: Arc<Notes>,
}

/// What threads tell each other.
#[derive(Debug, Default)]
struct Notes {
    /// Rises when a lease may have been ended, or its task asked to stop: workers look at once.
    leases: watch::Sender<u64>,
    troubles: Mutex<Troubles>,
}

/// The error of the last round, where that failed.
#[derive(Debug, Default, Clone)]
struct Troubles {
    maintenance: Option<StoreError>,
    clean_up: Option<StoreError>,
    worker: Option<StoreError>,
}

impl Notes {
    fn leases_changed(&self) {
        self.leases.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn note(&self, change: impl FnOnce(&mut Troubles)) {
        change(&mut self.troubles.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn troubles(&self) -> Troubles {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
