//! Producers' calls, and operators' on tasks.

use std::time::Duration;

use tasklane_core::{StateName, TaskId, Timestamp};
use tokio::time::Instant;

use super::client::Client;
use super::error::Error;
use super::request::Call;
use super::send::Answer;
use super::submission::NewTask;
use crate::limits::WAIT_AT_ONCE;
use crate::wire::{
    Batch, BatchAnswer, CancelMany, Changed, Explanation, History, Matched, Receipt, ReplayOne,
    Requeue, Requeued, Task, TaskFilter, TaskPage, TaskProgress, Time, UpdateTask,
};

const TASKS: &str = "/api/v1/tasks";
const REPLAYED: &str = "idempotent-replayed";

/// A task that was submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// Its id. Another than the one that was sent if its idempotency key was used before.
    pub id: TaskId,
    /// The state it is in.
    pub state: StateName,
    /// It was there before.
    pub replayed: bool,
    /// The task; absent if it was there before and retention has removed it.
    pub task: Option<Box<Task>>,
}

/// What to see of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// With everything that happened to it.
    pub history: bool,
    /// As it was at that time.
    pub as_of: Option<Timestamp>,
}

/// Which tasks to list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListTasks {
    /// Those that match.
    pub filter: TaskFilter,
    /// How many at most: up to 1,000; 50 if absent.
    pub limit: Option<u32>,
    /// Go on after an earlier page: its `next_cursor`.
    pub cursor: Option<Box<str>>,
    /// Also count all that match.
    pub counts: bool,
    /// With payloads and results.
    pub payloads: bool,
}

impl Client {
    /// Submits a task. Safe to send again, which this does by itself where it has to.
    pub async fn submit(&self, task: NewTask) -> Result<Submitted, Error> {
        let call = Call::post(TASKS).json(&task.wire()?)?.safe();
        let answer = self.send(&call).await?;
        let replayed = answer.headers.contains_key(REPLAYED);
        submitted(&answer, replayed)
    }

    /// Submits many tasks, up to 10,000, in one atomic write. Receipts are in the same order.
    pub async fn submit_batch(&self, tasks: &[NewTask]) -> Result<Vec<Receipt>, Error> {
        let tasks = tasks.iter().map(NewTask::wire).collect::<Result<_, _>>()?;
        let call = Call::post(format!("{TASKS}/batch")).json(&Batch { tasks })?.safe();
        self.ask(call).await.map(|answer: BatchAnswer| answer.tasks)
    }

    /// Looks at a task.
    pub async fn get(&self, id: TaskId) -> Result<Task, Error> {
        self.look(id, Look::default()).await
    }

    /// Looks at a task, with more than usual.
    pub async fn look(&self, id: TaskId, look: Look) -> Result<Task, Error> {
        let call = Call::get(path(id)).with_flag("include_history", look.history);
        self.ask(call.with_some("as_of", look.as_of.map(Time))).await
    }

    /// Waits for a task's end, up to `patience`. The task as it is then: its state says whether it
    /// has ended.
    pub async fn wait(&self, id: TaskId, patience: Duration) -> Result<Task, Error> {
        let until = Instant::now() + patience;
        loop {
            let wait = until.saturating_duration_since(Instant::now()).min(WAIT_AT_ONCE);
            let call = Call::get(path(id)).with("wait_seconds", wait.as_secs_f64()).waits(wait);
            let task: Task = self.ask(call).await?;
            if task.state.0.is_terminal() || Instant::now() >= until {
                return Ok(task);
            }
        }
    }

    /// Lists tasks, newest first.
    pub async fn list_tasks(&self, list: &ListTasks) -> Result<TaskPage, Error> {
        self.ask(list.parameters(Call::get(TASKS))).await
    }

    /// Cancels a task: at once, or by asking its worker. The task as it is then.
    pub async fn cancel(&self, id: TaskId) -> Result<Task, Error> {
        self.ask(Call::delete(path(id))).await
    }

    /// Cancels all tasks that match, up to 10,000 a call; `more` says that there are more.
    pub async fn cancel_tasks(
        &self,
        filter: &TaskFilter,
        cursor: Option<&str>,
    ) -> Result<Changed, Error> {
        self.ask(cancel_many(filter, cursor, false)?).await
    }

    /// Counts what [`cancel_tasks`](Self::cancel_tasks) would cancel.
    pub async fn count_to_cancel(&self, filter: &TaskFilter) -> Result<Matched, Error> {
        self.ask(cancel_many(filter, None, true)?.safe()).await
    }

    /// Everything that happened to a task.
    pub async fn task_history(&self, id: TaskId) -> Result<History, Error> {
        self.ask(Call::get(format!("{}/history", path(id)))).await
    }

    /// How far a task is.
    pub async fn task_progress(&self, id: TaskId) -> Result<TaskProgress, Error> {
        self.ask(Call::get(format!("{}/progress", path(id)))).await
    }

    /// Why a task is not running.
    pub async fn explain_task(&self, id: TaskId) -> Result<Explanation, Error> {
        self.ask(Call::get(format!("{}/explain", path(id)))).await
    }

    /// Lists tasks that have been in their state for longer than this, 300 seconds if absent:
    /// assigned and running ones, unless the filter names other states.
    pub async fn list_stuck_tasks(
        &self,
        older_than: Option<Duration>,
        list: &ListTasks,
    ) -> Result<TaskPage, Error> {
        let older_than = older_than.map(|time| time.as_secs_f64());
        let call = Call::get("/admin/tasks/stuck").with_some("older_than", older_than);
        self.ask(ListTasks { payloads: false, ..list.clone() }.parameters(call)).await
    }

    /// Brings tasks back to `pending`, by id or by filter.
    pub async fn requeue_tasks(&self, requeue: &Requeue) -> Result<Requeued, Error> {
        self.ask(Call::post("/admin/tasks/requeue").json(requeue)?).await
    }

    /// Retries a task that ended without success.
    pub async fn retry_task(&self, id: TaskId, how: &ReplayOne) -> Result<Task, Error> {
        self.ask(Call::post(format!("/admin/tasks/{id}/retry")).json(how)?).await
    }

    /// Changes a live task.
    pub async fn update_task(&self, id: TaskId, update: &UpdateTask) -> Result<Task, Error> {
        self.ask(Call::patch(format!("/admin/tasks/{id}")).json(update)?).await
    }
}

impl ListTasks {
    fn parameters(&self, call: Call) -> Call {
        call.with_filter(&self.filter)
            .with_some("limit", self.limit)
            .with_some("cursor", self.cursor.as_ref())
            .with_flag("counts", self.counts)
            .with_flag("payloads", self.payloads)
    }
}

fn path(id: TaskId) -> String {
    format!("{TASKS}/{id}")
}

fn cancel_many(filter: &TaskFilter, cursor: Option<&str>, dry_run: bool) -> Result<Call, Error> {
    let cursor = cursor.map(Into::into);
    let body = CancelMany { filter: filter.clone(), dry_run, cursor };
    Call::post(format!("{TASKS}/cancel")).json(&body)
}

/// A repeated task that retention has removed is answered with a receipt.
fn submitted(answer: &Answer, replayed: bool) -> Result<Submitted, Error> {
    let receipt: Receipt = answer.read()?;
    let task = if receipt.expired { None } else { Some(Box::new(answer.read()?)) };
    Ok(Submitted { id: receipt.id.0, state: receipt.state.0, replayed, task })
}
