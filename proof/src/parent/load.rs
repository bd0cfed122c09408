//! The load of one life: who makes calls, and what they know of each other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tasklane_core::{Random as _, SeededRandom, TaskId};

use super::line::{Caller, guard};
use super::producer::{Numbers, Producer};
use super::worker::{Worker, may_be_revived, operate};
use crate::history::Answer;

const PRODUCERS: usize = 4;
const WORKERS: usize = 12;
const OPERATORS: usize = 2;
const REST: Duration = Duration::from_millis(20);
/// Ids remembered for operators to choose from.
const REMEMBERED_MAX: usize = 256;

/// What the clients know together.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) numbers: Arc<Numbers>,
    submitted: Mutex<VecDeque<TaskId>>,
    ended: Mutex<VecDeque<TaskId>>,
}

impl Known {
    /// Tasks whose submission was acknowledged.
    pub(super) fn submitted(&self, ids: impl Iterator<Item = TaskId>) {
        let mut submitted = guard(&self.submitted);
        ids.for_each(|id| remember(&mut submitted, id));
    }

    /// What became of a task.
    pub(super) fn changed(&self, id: TaskId, answer: &Answer) {
        if may_be_revived(answer) {
            remember(&mut guard(&self.ended), id);
        }
    }

    /// One of the last tasks submitted.
    pub(super) fn pick_submitted(&self, random: &mut SeededRandom) -> Option<TaskId> {
        pick(&guard(&self.submitted), random)
    }

    /// One of the last tasks that ended without success.
    pub(super) fn pick_ended(&self, random: &mut SeededRandom) -> Option<TaskId> {
        pick(&guard(&self.ended), random)
    }
}

/// All clients of a chapter; they outlive the child.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) known: Known,
    producers: Vec<Producer>,
    workers: Vec<Worker>,
}

impl Load {
    pub(super) fn new() -> Self {
        Self::beside(Arc::default())
    }

    /// One of several loads on one store: ids and keys are used once among them all.
    pub(super) fn beside(numbers: Arc<Numbers>) -> Self {
        let producers = (0..PRODUCERS).map(|_| Producer::default()).collect();
        let workers = (0..WORKERS).map(|_| Worker::default()).collect();
        Self { known: Known { numbers, ..Known::default() }, producers, workers }
    }

    /// Lets every client make calls at the same time until the child is gone.
    pub(super) fn run(&mut self, caller: &dyn Caller, random: &mut SeededRandom) {
        let known = &self.known;
        std::thread::scope(|scope| {
            let mut connection = 0;
            let mut next = || {
                connection += 1;
                (connection, SeededRandom::new(random.next_u64()))
            };
            for producer in &mut self.producers {
                let (connection, random) = next();
                scope.spawn(move || producer.run(caller, connection, known, random));
            }
            for worker in &mut self.workers {
                let (connection, random) = next();
                scope.spawn(move || worker.run(caller, connection, known, random));
            }
            for _ in 0..OPERATORS {
                let (connection, random) = next();
                scope.spawn(move || operate(caller, connection, known, random));
            }
        });
    }
}

/// Before a store that is away is asked again.
pub(super) fn rest() {
    std::thread::sleep(REST);
}

fn remember(ids: &mut VecDeque<TaskId>, id: TaskId) {
    if ids.len() == REMEMBERED_MAX {
        ids.pop_front();
    }
    ids.push_back(id);
}

fn pick(ids: &VecDeque<TaskId>, random: &mut SeededRandom) -> Option<TaskId> {
    ids.get(random.below(ids.len() as u64) as usize).copied()
}
