//! Looking at tasks.

use tasklane_core::{Command, Order, QueueName, Task, TaskId};
use tasklane_store::{Changed, StoredTask};

use super::Engine;
use super::error::EngineError;
use super::snapshot::Estimate;

impl Engine {
    /// The task with this id.
    pub async fn get(&self, id: TaskId) -> Result<StoredTask, EngineError> {
        let found = self.store.get(vec![id]).await?.pop().flatten();
        found.ok_or(EngineError::NotFound("task"))
    }

    /// Carries out one command.
    pub async fn execute_one(&self, command: Command) -> Result<Changed, EngineError> {
        let verdict = self.store.execute(vec![command]).await?.pop();
        Ok(verdict.ok_or(EngineError::NotFound("task"))??)
    }

    /// How a queue chooses among priorities.
    pub fn order(&self, queue: &QueueName) -> Order {
        self.snapshot.order(queue)
    }

    /// About when a pending task is claimed, from counters and the recent pace.
    pub fn estimate(&self, task: &Task) -> Estimate {
        self.snapshot.estimate(task)
    }
}
