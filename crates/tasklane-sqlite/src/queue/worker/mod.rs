//! A worker: one thread claims, one renews leases, the others run handlers.
//!
//! The store decides who holds a lease. Threads here only remember what they were given, so a
//! result that comes after the lease was lost is refused there and dropped.

mod builder;
mod claim;
mod execute;
mod floor;
mod renew;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tasklane_core::{
    ClassifyRule, Command, Intent, Outcome, TaskError, TaskType, WorkerId, WorkerSpec, limits,
};
use tasklane_store::{Direction, LeaseRef, Store};

use super::Core;
use super::block::{Bell, block_on, deadline, join};
use super::context::Context;
use super::error::QueueError;
pub use builder::WorkerBuilder;
use floor::Floor;

type Handler = Box<dyn Fn(&Context, &[u8]) -> Result<Vec<u8>, TaskError> + Send + Sync>;

/// A running worker. Dropping it stops it at once: handlers are told, tasks are given back.
#[derive(Debug)]
pub struct Worker {
    crew: Arc<Crew>,
    claimer: Option<JoinHandle<()>>,
    renewer: Option<JoinHandle<()>>,
    executors: Vec<JoinHandle<()>>,
}

/// What came of stopping a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stopped {
    /// Tasks that were given back because they had not ended in time.
    pub released: usize,
}

impl Worker {
    /// Its id in the store; a new one if it had been silent for too long.
    pub fn id(&self) -> WorkerId {
        self.crew.id()
    }

    /// Claims nothing more, lets running handlers finish within this time, and gives the rest
    /// back. Handlers still running then see [`Context::is_cancelled`]; what they answer is
    /// dropped. Returns when all threads have ended, so a handler that does not look holds it up.
    pub fn stop(mut self, within: Duration) -> Stopped {
        self.halt(within)
    }

    fn start(crew: Crew, threads: u32) -> Result<Self, QueueError> {
        let crew = Arc::new(crew);
        let spawn = |name: String, run: fn(&Crew)| {
            let crew = crew.clone();
            let thread = std::thread::Builder::new().name(name).spawn(move || run(&crew));
            thread.map_err(|error| QueueError::Thread(error.to_string()))
        };
        // If a thread cannot be started, dropping this ends those that were.
        let mut worker = Self {
            crew: crew.clone(),
            claimer: None,
            renewer: None,
            executors: Vec::with_capacity(threads as usize),
        };
        for number in 0..threads {
            worker.executors.push(spawn(format!("tasklane-handler-{number}"), execute::run)?);
        }
        worker.renewer = Some(spawn("tasklane-renew".into(), renew::run)?);
        worker.claimer = Some(spawn("tasklane-claim".into(), claim::run)?);
        Ok(worker)
    }

    fn halt(&mut self, within: Duration) -> Stopped {
        let Self { crew, claimer, renewer, executors } = self;
        let deadline = deadline(within);
        crew.claims.close();
        claimer.take().into_iter().for_each(join);
        let mut released = crew.release(crew.floor.take_waiting());
        crew.floor.wait_idle(deadline);
        released += crew.release(crew.floor.take_held());
        crew.floor.close();
        executors.drain(..).for_each(join);
        // Leases were renewed until here.
        crew.renewals.close();
        if let Some(renewer) = renewer.take() {
            join(renewer);
            // If it is gone already, or the store fails, silence says the same.
            let _ = block_on(crew.core.store.direct(crew.id(), Direction::Leave));
        }
        Stopped { released }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.halt(Duration::ZERO);
    }
}

/// What the threads of a worker share.
struct Crew {
    core: Arc<Core>,
    id: Mutex<WorkerId>,
    spec: WorkerSpec,
    handlers: HashMap<TaskType, Handler>,
    rules: Vec<ClassifyRule>,
    floor: Floor,
    /// For the thread that claims.
    claims: Bell,
    /// For the thread that renews.
    renewals: Bell,
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl Crew {
    fn id(&self) -> WorkerId {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_id(&self, id: WorkerId) {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    /// Gives tasks back, and says how many. One whose lease was lost meanwhile is not ours to give.
    fn release(&self, leases: Vec<LeaseRef>) -> usize {
        let command = |lease: &LeaseRef| {
            let outcome = Outcome::Released { delay: None };
            Command { task: lease.task, intent: Intent::Settle(lease.token, outcome) }
        };
        let mut released = 0;
        for slice in leases.chunks(limits::SLICE_TASKS) {
            let commands = slice.iter().map(command).collect();
            match block_on(self.core.store.execute(commands)) {
                Ok(verdicts) => {
                    released += verdicts.iter().filter(|verdict| verdict.is_ok()).count()
                }
                // Their leases end by themselves.
                Err(error) => self.core.notes.note(|troubles| troubles.worker = Some(error)),
            }
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tasklane_core::{NewTask, StateName, TaskType};
    use tasklane_store::{Direction, Store};

    use crate::Queue;
    use crate::queue::block::block_on;

    #[test]
    fn a_worker_that_the_store_forgot_registers_again_and_goes_on() {
        let queue = Queue::in_memory().unwrap();
        let worker = queue.worker().handle("echo", |_, payload| Ok(payload.to_vec())).start();
        let worker = worker.unwrap();
        let forgotten = worker.id();
        block_on(queue.core.store.direct(forgotten, Direction::Leave)).unwrap().unwrap();
        let task = NewTask::new(TaskType::new("echo").unwrap(), "x");
        let id = queue.submit(task).unwrap().id;
        let ended = queue.wait(id, Duration::from_secs(20)).unwrap();
        assert_eq!(ended.task.state.name(), StateName::Completed);
        assert_ne!(worker.id(), forgotten);
    }
}
