//! Looking at tasks.

use tasklane_core::{Command, Order, QueueName, Reach, State, Task, TaskId, Timestamp};
use tasklane_store::{Changed, Page, Query, Stats, StoredTask, Trail};

use super::Engine;
use super::error::EngineError;
use super::snapshot::Estimate;

impl Engine {
    /// Whether a task is within reach: others are not there. What a task is never changes, so that
    /// a command may follow this look.
    pub async fn must_reach(&self, reach: &Reach, id: TaskId) -> Result<(), EngineError> {
        if reach.is_everything() {
            return Ok(());
        }
        let stored = self.get(id).await?;
        let holds = reach.holds(&stored.task.spec.lane);
        holds.then_some(()).ok_or(EngineError::NotFound("task"))
    }

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

    /// A page of a list.
    pub async fn list(&self, query: Query) -> Result<Page, EngineError> {
        Ok(self.store.list(query).await?)
    }

    /// A task and everything that happened to it.
    pub async fn trail(&self, id: TaskId) -> Result<Trail, EngineError> {
        self.store.trail(id).await?.ok_or(EngineError::NotFound("task"))
    }

    /// Counters of every lane.
    pub async fn stats(&self) -> Result<Stats, EngineError> {
        Ok(self.store.stats().await?)
    }

    /// A task as it was at a time, by its trail. Progress is not part of a trail.
    pub async fn get_as_of(&self, id: TaskId, at: Timestamp) -> Result<StoredTask, EngineError> {
        let stored = self.get(id).await?;
        let trail = self.trail(id).await?;
        let task = as_of(trail, at)?;
        let done = matches!(task.state, State::Completed { .. });
        Ok(StoredTask { task, result: stored.result.filter(|_| done), ..stored })
    }
}

/// Replays a trail up to a time.
fn as_of(trail: Trail, at: Timestamp) -> Result<Task, EngineError> {
    let Trail { task, admitted, entries, cut } = trail;
    if admitted.admission.created.at > at {
        return Err(EngineError::NotFound("task at that time"));
    }
    // Most questions are about the present.
    if entries.last().is_some_and(|last| last.stamp.at <= at) && task.updated_at <= at {
        return Ok(task);
    }
    if cut {
        return Err(EngineError::NotFound("history of that time: the oldest part was dropped"));
    }
    let mut replayed = admitted;
    // Sequences rise along a trail; times need not, when a clock stepped back.
    let until = entries.iter().rposition(|entry| entry.stamp.at <= at).map_or(0, |last| last + 1);
    for entry in entries.iter().take(until).skip(1) {
        replayed.apply(entry).map_err(|illegal| {
            tracing::error!(task = %replayed.id, %illegal, "a trail does not replay");
            EngineError::Store(tasklane_store::StoreError::Corrupt(illegal.to_string()))
        })?;
    }
    Ok(replayed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tasklane_core::{
        Admission, CancelReason, Entry, Event, NewTask, Policies, Sequence, Stamp, StateName,
        TaskType,
    };

    fn stamp(second: i64) -> Stamp {
        Stamp { at: Timestamp::from_millis(second * 1_000), sequence: Sequence(second as u64) }
    }

    fn trail() -> Trail {
        let new = NewTask::new(TaskType::new("t").unwrap(), "1");
        let spec = new.resolve(&Policies::default()).unwrap().spec;
        let admission = Admission {
            created: stamp(10),
            scheduled_at: Some(stamp(20).at),
            expires_at: None,
            blocked: false,
        };
        let id = "0198c0de-7f00-7abc-8def-0123456789ab".parse().unwrap();
        let admitted = Task::admitted(id, spec, admission);
        let reason = CancelReason::Requested;
        let entries = vec![
            Entry { stamp: stamp(10), event: Event::Scheduled },
            Entry { stamp: stamp(20), event: Event::Due },
            Entry { stamp: stamp(30), event: Event::Cancelled { reason, settled: None } },
        ];
        let mut task = admitted.clone();
        for entry in entries.iter().skip(1) {
            task.apply(entry).unwrap();
        }
        Trail { task, admitted, entries, cut: false }
    }

    #[test]
    fn a_task_is_shown_as_it_was() {
        let state = |second| as_of(trail(), stamp(second).at).map(|task| task.state.name());
        assert_eq!(state(9), Err(EngineError::NotFound("task at that time")));
        assert_eq!(state(10), Ok(StateName::Scheduled));
        assert_eq!(state(29), Ok(StateName::Pending));
        assert_eq!(state(30), Ok(StateName::Cancelled));
        assert_eq!(state(99), Ok(StateName::Cancelled));
    }

    #[test]
    fn what_was_dropped_is_not_guessed_at() {
        let cut = || Trail { cut: true, ..trail() };
        assert!(as_of(cut(), stamp(20).at).is_err());
        assert!(as_of(cut(), stamp(30).at).is_ok());
    }
}
