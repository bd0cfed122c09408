//! What operators do to many tasks: in slices, so that others are served in between (S21).

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tasklane_core::limits::{EXAMINED_MAX, PAGE_MAX, SLICE_TASKS};
use tasklane_core::{Command, Intent, QueueName, Reach, Refusal, TaskId};
use tasklane_store::{Changed, Filter, PageCursor, Prune, Pruned, Query, StoredTask};

use super::Engine;
use super::error::EngineError;
use crate::limits::{OPERATION_TASKS_MAX, OPERATION_TIME_MAX};

/// Operations of this process so far; a part of their ids.
static OPERATIONS: AtomicU64 = AtomicU64::new(0);

/// The same thing to be done to all tasks that match.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// What it is called in the log.
    pub what: &'static str,
    /// Which tasks.
    pub filter: Filter,
    /// Where an earlier call stopped.
    pub after: Option<PageCursor>,
    /// What to do to each.
    pub intent: Intent,
    /// So many in a second at most.
    pub per_second: Option<u32>,
}

/// What an operation on many tasks came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Swept {
    /// Its id, in the log.
    pub operation: Box<str>,
    /// Tasks that were changed.
    pub changed: Vec<TaskId>,
    /// The queues of these, where a filter found them.
    pub queues: BTreeSet<QueueName>,
    /// Tasks that were not, and why.
    pub refused: Vec<(TaskId, Refusal)>,
    /// Time or number are used up and there is more.
    pub more: bool,
    /// Where to go on.
    pub next: Option<PageCursor>,
}

impl Engine {
    /// Does the same to all tasks that match, within bounds of number and time.
    pub async fn sweep(&self, sweep: Sweep) -> Result<Swept, EngineError> {
        let started = Instant::now();
        let mut swept = self.new_operation(sweep.after);
        self.sweep_slices(&sweep, started, &mut swept).await?;
        swept.log(sweep.what, started);
        Ok(swept)
    }

    /// The same, and tells of the queues of those that were changed as purged.
    pub async fn purge(&self, sweep: Sweep) -> Result<Swept, EngineError> {
        let started = Instant::now();
        let mut swept = self.new_operation(sweep.after);
        let outcome = self.sweep_slices(&sweep, started, &mut swept).await;
        // What was done is told even if the rest failed.
        let queues: Vec<_> = swept.queues.iter().cloned().collect();
        if !queues.is_empty()
            && let Err(error) = self.store.announce_purge(queues).await
        {
            tracing::warn!(%error, "a purge could not be told of");
        }
        outcome?;
        swept.log(sweep.what, started);
        Ok(swept)
    }

    async fn sweep_slices(
        &self,
        sweep: &Sweep,
        started: Instant,
        swept: &mut Swept,
    ) -> Result<(), EngineError> {
        let slice = sweep.per_second.map_or(SLICE_TASKS, |rate| SLICE_TASKS.min(rate as usize));
        let mut met = 0;
        loop {
            let query = Query { after: swept.next, ..Query::new(sweep.filter.clone(), slice) };
            let page = self.store.list(query).await?;
            let ids: Vec<_> = page.tasks.iter().map(|stored| stored.task.id).collect();
            met += ids.len();
            let before = swept.changed.len();
            self.execute_all(&ids, &sweep.intent, swept).await?;
            swept.note_queues(&page.tasks, before);
            swept.next = page.next;
            swept.more = page.next.is_some();
            let used_up = met >= OPERATION_TASKS_MAX || started.elapsed() >= OPERATION_TIME_MAX;
            if !swept.more || used_up || self.is_draining() {
                return Ok(());
            }
            if let Some(rate) = sweep.per_second {
                let due = Duration::from_secs_f64(met as f64 / f64::from(rate.max(1)));
                tokio::time::sleep(due.saturating_sub(started.elapsed())).await;
            }
        }
    }

    /// Does the same to these tasks.
    pub async fn change_these(
        &self,
        what: &'static str,
        ids: &[TaskId],
        intent: &Intent,
    ) -> Result<Swept, EngineError> {
        let started = Instant::now();
        let mut swept = self.new_operation(None);
        for slice in ids.chunks(SLICE_TASKS) {
            self.execute_all(slice, intent, &mut swept).await?;
        }
        swept.log(what, started);
        Ok(swept)
    }

    /// Does the same to those of these tasks that are within reach; the others are not there.
    pub async fn change_within(
        &self,
        reach: &Reach,
        what: &'static str,
        ids: &[TaskId],
        intent: &Intent,
    ) -> Result<Swept, EngineError> {
        if reach.is_everything() {
            return self.change_these(what, ids, intent).await;
        }
        let mut there = Vec::with_capacity(ids.len());
        for slice in ids.chunks(SLICE_TASKS) {
            there.extend(self.store.get(slice.to_vec()).await?);
        }
        let within = |stored: &StoredTask| reach.holds(&stored.task.spec.lane);
        let (own, others): (Vec<_>, Vec<_>) =
            ids.iter().zip(there).partition(|(_, stored)| stored.as_ref().is_some_and(within));
        let own: Vec<_> = own.into_iter().map(|(id, _)| *id).collect();
        let mut swept = self.change_these(what, &own, intent).await?;
        swept.refused.extend(others.into_iter().map(|(id, _)| (*id, Refusal::NotFound)));
        Ok(swept)
    }

    fn new_operation(&self, after: Option<PageCursor>) -> Swept {
        let number = OPERATIONS.fetch_add(1, Ordering::Relaxed);
        let operation = format!("{:x}-{number:x}", self.now().as_micros()).into();
        Swept {
            operation,
            changed: Vec::new(),
            queues: BTreeSet::new(),
            refused: Vec::new(),
            more: false,
            next: after,
        }
    }

    async fn execute_all(
        &self,
        ids: &[TaskId],
        intent: &Intent,
        swept: &mut Swept,
    ) -> Result<(), EngineError> {
        if ids.is_empty() {
            return Ok(());
        }
        let command = |task: &TaskId| Command { task: *task, intent: intent.clone() };
        let verdicts = self.store.execute(ids.iter().map(command).collect()).await?;
        for (id, verdict) in ids.iter().zip(verdicts) {
            match verdict {
                Ok(Changed { repeated: false, .. }) => swept.changed.push(*id),
                Ok(_) => {}
                Err(refusal) => swept.refused.push((*id, refusal)),
            }
        }
        Ok(())
    }

    /// How many tasks match, and whether that is all of them: a bounded number is looked at.
    pub async fn count(&self, filter: Filter) -> Result<(u64, bool), EngineError> {
        let (mut count, mut examined, mut after) = (0, 0, None);
        while examined < EXAMINED_MAX {
            let query = Query { after, ..Query::new(filter.clone(), PAGE_MAX) };
            let page = self.store.list(query).await?;
            count += page.tasks.len() as u64;
            // At least one, so that a page that claims to have looked at nothing ends too.
            examined += page.examined.max(1);
            after = page.next;
            if after.is_none() {
                return Ok((count, true));
            }
        }
        Ok((count, false))
    }

    /// Removes what has been kept long enough, now; in an emergency everything that has ended.
    pub async fn clean_up(&self, emergency: bool) -> Result<Pruned, EngineError> {
        let started = Instant::now();
        let own = self.settings().prune;
        let prune = if emergency {
            Prune { override_queues: true, retention: Prune::emergency().retention, ..own }
        } else {
            own
        };
        let mut removed = Pruned::default();
        loop {
            let slice = self.store.prune(prune).await?;
            self.note_pruned(&slice);
            removed.add(&slice);
            if !slice.more || started.elapsed() >= OPERATION_TIME_MAX {
                break;
            }
        }
        let (tasks, more) = (removed.tasks_total(), removed.more);
        tracing::info!(emergency, tasks, more, "an operator cleaned up");
        Ok(removed)
    }

    /// Writes a consistent copy of the store to a new file (S19).
    pub async fn backup(&self, to: &Path) -> Result<Duration, EngineError> {
        let started = Instant::now();
        self.store.backup(to).await?;
        let took = started.elapsed();
        tracing::info!(to = %to.display(), took_ms = took.as_millis(), "backed up");
        Ok(took)
    }
}

impl Swept {
    /// Notes the queues of those that were changed since there were `before`.
    fn note_queues(&mut self, tasks: &[StoredTask], before: usize) {
        let changed: HashSet<_> = self.changed.iter().skip(before).collect();
        let tasks = tasks.iter().map(|stored| &stored.task);
        let changed = tasks.filter(|task| changed.contains(&task.id));
        self.queues.extend(changed.map(|task| task.spec.lane.queue.clone()));
    }

    fn log(&self, what: &str, started: Instant) {
        let (operation, changed) = (&*self.operation, self.changed.len());
        let (refused, more) = (self.refused.len(), self.more);
        let took_ms = started.elapsed().as_millis();
        tracing::info!(operation, what, changed, refused, more, took_ms, "an operation on many");
    }
}
