//! Why a task is not running, in words and data.

use std::time::Duration;

use tasklane_core::limits::{EXAMINED_MAX, PAGE_MAX};
use tasklane_core::{
    Lease, Names, Order, Pattern, Priority, QueueSettings, Reach, State, StateName, Task, TaskId,
    Timestamp, Worker, WorkerId,
};
use tasklane_store::{Filter, Query};

use super::Engine;
use super::breaker::Breaker;
use super::candidate;
use super::error::EngineError;
use super::snapshot::Estimate;

/// Why a task is not running, or what it is doing.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// In words.
    pub summary: String,
    /// What stands in its way, the most important first.
    pub obstacles: Vec<Obstacle>,
    /// About when it is claimed.
    pub estimate: Estimate,
    /// How long until only earlier tasks go before it; `None` where that never comes.
    pub bound: Option<Duration>,
}

/// One thing that stands in a task's way.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Obstacle {
    /// Which sort.
    pub code: &'static str,
    /// In words.
    pub detail: String,
    /// Until when, where that is known.
    pub until: Option<Timestamp>,
    /// How many, where it is a number.
    pub count: Option<u64>,
    /// Which task, where it is another task.
    pub task: Option<TaskId>,
    /// Which worker, where it is one.
    pub worker: Option<WorkerId>,
}

impl Obstacle {
    pub(super) fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), ..Self::default() }
    }
}

/// What an explanation is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) task: &'a Task,
    pub(super) now: Timestamp,
    pub(super) queue: &'a QueueSettings,
    pub(super) workers: &'a [(Worker, Breaker)],
    pub(super) estimate: Estimate,
    /// The task that holds its ordering key, where it was found.
    pub(super) holder: Option<TaskId>,
    /// Silence after which a worker's leases end.
    pub(super) lease: Duration,
    /// When its own lease ends unless it is renewed, if it has one.
    pub(super) lease_ends: Option<Timestamp>,
}

impl Engine {
    /// Why a task is not running, or what it is doing, as far as `reach` lets somebody see: of
    /// other tasks and workers only those within it are named and counted.
    pub async fn explain(
        &self,
        id: TaskId,
        reach: &Reach,
    ) -> Result<(Task, Explanation), EngineError> {
        let task = self.get(id).await?.task;
        let mut workers = self.workers().await?;
        workers.retain(|(worker, _)| reach.touches(&worker.spec.selection));
        let holder = match task.state {
            State::Blocked => self.holder(&task).await?,
            _ => None,
        };
        let holder = holder.filter(|holder| reach.holds(&holder.spec.lane));
        let lease_ends = match task.state.lease() {
            Some(_) => self.store.lease_ends(id).await?,
            None => None,
        };
        let facts = Facts {
            task: &task,
            now: self.now(),
            queue: &self.snapshot.settings(&task.spec.lane.queue),
            workers: &workers,
            estimate: self.estimate(&task),
            holder: holder.map(|holder| holder.id),
            lease: self.settings().lease,
            lease_ends,
        };
        let explanation = decide(&facts);
        Ok((task, explanation))
    }

    /// The live task of the same ordering key that is not blocked, if a bounded look finds it.
    async fn holder(&self, task: &Task) -> Result<Option<Task>, EngineError> {
        let live = |state: &StateName| !state.is_terminal() && *state != StateName::Blocked;
        let queue = Pattern::Exact(task.spec.lane.queue.as_str().into());
        let filter = Filter {
            states: StateName::ALL.into_iter().filter(live).collect(),
            queues: Names::matching(vec![queue])?,
            ..Filter::default()
        };
        let (mut examined, mut after) = (0, None);
        while examined < EXAMINED_MAX {
            let query = Query { after, ..Query::new(filter.clone(), PAGE_MAX) };
            let page = self.store.list(query).await?;
            let holds = |other: &Task| other.spec.ordering_key == task.spec.ordering_key;
            (examined, after) = (examined + page.examined.max(1), page.next);
            let mut found = page.tasks.into_iter().map(|stored| stored.task);
            if let Some(found) = found.find(holds) {
                return Ok(Some(found));
            }
            if after.is_none() {
                break;
            }
        }
        Ok(None)
    }
}

/// The decision itself, on plain data.
pub(super) fn decide(facts: &Facts<'_>) -> Explanation {
    let task = facts.task;
    let (summary, obstacles) = match &task.state {
        State::Pending { .. } => pending(facts),
        State::Scheduled { due_at } => waits("scheduled", "its time has not come", *due_at, facts),
        State::Retrying { due_at } => {
            let attempts = task.counts.attempts;
            waits("backoff", &format!("attempt {attempts} failed"), *due_at, facts)
        }
        State::Blocked => blocked(facts),
        State::Assigned(lease) | State::Running(lease) => held(lease, facts),
        State::Completed { lease, .. } => {
            (format!("it was completed by worker {}", lease.worker), Vec::new())
        }
        State::Failed { reason, .. } => (ended("failed", reason.as_str(), task), Vec::new()),
        State::DeadLetter { reason, .. } => {
            (ended("is a dead letter", reason.as_str(), task), Vec::new())
        }
        State::Cancelled { reason, .. } => {
            (format!("it was cancelled: {}", reason.as_str()), Vec::new())
        }
    };
    let bound = task.state.name().is_waiting().then(|| bound(facts)).flatten();
    Explanation { summary, obstacles, estimate: facts.estimate, bound }
}

/// Until it counts as critical: from then on only tasks with an earlier place go first (S9).
fn bound(facts: &Facts<'_>) -> Option<Duration> {
    if facts.task.spec.priority == Priority::Critical {
        return Some(Duration::ZERO);
    }
    let Order::Aging(aging) = &facts.queue.order else { return None };
    let waited = facts.now.since(facts.task.place.ready_at);
    let until_ready = facts.task.place.ready_at.since(facts.now);
    aging.threshold(Priority::Critical).map(|after| after.saturating_sub(waited) + until_ready)
}

type Told = (String, Vec<Obstacle>);

fn pending(facts: &Facts<'_>) -> Told {
    let task = facts.task;
    let mut obstacles = Vec::new();
    if facts.queue.paused {
        let detail = format!("queue {} is paused", task.spec.lane.queue);
        obstacles.push(Obstacle::new("queue_paused", detail));
    }
    if task.is_expired(facts.now) {
        let detail = "its expires_at has passed: it is about to be cancelled";
        let expired = Obstacle { until: task.expires_at, ..Obstacle::new("expired", detail) };
        obstacles.push(expired);
    }
    obstacles.extend(candidate::obstacles(facts));
    let ahead = facts.estimate.position.unwrap_or(1).saturating_sub(1);
    if ahead > 0 {
        let detail = format!("about {ahead} tasks of its queue go before it");
        obstacles.push(Obstacle { count: Some(ahead), ..Obstacle::new("tasks_ahead", detail) });
    }
    let summary = match obstacles.first() {
        Some(first) => format!("it waits for a worker: {}", first.detail),
        None => "nothing stands in its way: the next poll of a worker that takes it gets it".into(),
    };
    (summary, obstacles)
}

fn waits(code: &'static str, why: &str, until: Timestamp, facts: &Facts<'_>) -> Told {
    let left = until.since(facts.now);
    let detail = if left.is_zero() {
        format!("{why}; it is due and about to be offered")
    } else {
        format!("{why}; it goes on in {}", shown(left))
    };
    let obstacle = Obstacle { until: Some(until), ..Obstacle::new(code, detail.clone()) };
    (detail, vec![obstacle])
}

fn blocked(facts: &Facts<'_>) -> Told {
    let key = facts.task.spec.ordering_key.as_ref().map_or("", |key| key.as_str());
    let detail = match facts.holder {
        Some(holder) => format!("task {holder} holds its ordering key {key:?}"),
        None => format!("another task holds its ordering key {key:?}"),
    };
    let obstacle = Obstacle { task: facts.holder, ..Obstacle::new("ordering_key", detail.clone()) };
    (detail, vec![obstacle])
}

fn held(lease: &Lease, facts: &Facts<'_>) -> Told {
    let (task, now) = (facts.task, facts.now);
    let worker = Some(lease.worker);
    let expired = expired(lease, facts);
    let end = match (&expired, lease.started) {
        (Some(expired), _) => format!("; {}", expired.detail),
        (None, Some(started)) => {
            let until = started.at.plus(task.timeout);
            format!("; it times out in {}", shown(until.since(now)))
        }
        (None, None) => String::new(),
    };
    let mut obstacles: Vec<_> = expired.into_iter().chain(silent(lease, facts)).collect();
    let since = |at: Timestamp| shown(now.since(at));
    if let Some(asked) = lease.cancel_requested {
        let detail = format!("cancelling was asked of its worker {} ago", since(asked.at));
        obstacles.push(Obstacle { worker, ..Obstacle::new("cancel_requested", detail) });
    }
    let summary = match lease.started {
        None => {
            let detail = "its worker has claimed but not started it";
            obstacles.push(Obstacle { worker, ..Obstacle::new("not_started", detail) });
            format!("worker {} claimed it {} ago", lease.worker, since(lease.claimed.at))
        }
        Some(started) => {
            format!("it has been running on worker {} for {}", lease.worker, since(started.at))
        }
    };
    (summary + &end, obstacles)
}

/// That a lease has ended and nobody has reclaimed it yet.
fn expired(lease: &Lease, facts: &Facts<'_>) -> Option<Obstacle> {
    let ended = facts.lease_ends.filter(|ends| *ends <= facts.now)?;
    let (ago, then) = (shown(facts.now.since(ended)), after_lease(lease, facts.task));
    let detail = format!("its lease ended {ago} ago and is being reclaimed: the task is {then}");
    let (until, worker) = (Some(ended), Some(lease.worker));
    Some(Obstacle { until, worker, ..Obstacle::new("lease_expired", detail) })
}

/// That the worker of a lease is silent. The lease may be good for a while yet: not only signs of
/// life renew it.
fn silent(lease: &Lease, facts: &Facts<'_>) -> Option<Obstacle> {
    let (code, what) = silence(lease, facts)?;
    let then = after_lease(lease, facts.task);
    let detail = match facts.lease_ends {
        // What becomes of the task was said before.
        Some(ends) if ends <= facts.now => what,
        Some(ends) => {
            let left = shown(ends.since(facts.now));
            format!("{what}: when the lease ends, in {left}, the task is {then}")
        }
        None => format!("{what}: when the lease ends, the task is {then}"),
    };
    let until = facts.lease_ends.filter(|ends| *ends > facts.now);
    Some(Obstacle { until, worker: Some(lease.worker), ..Obstacle::new(code, detail) })
}

/// What becomes of a task with the end of its lease.
const fn after_lease(lease: &Lease, task: &Task) -> &'static str {
    match lease.cancel_requested {
        Some(_) => "cancelled",
        None if task.counts.lease_losses == 0 => "offered again",
        None => "offered again, or a dead letter if it has lost too many in a row",
    }
}

/// Whether the holder of a lease gives no signs of life any more.
fn silence(lease: &Lease, facts: &Facts<'_>) -> Option<(&'static str, String)> {
    match facts.workers.iter().find(|(worker, _)| worker.id == lease.worker) {
        Some((worker, _)) => {
            let silent = facts.now.since(worker.seen_at);
            let what = || format!("its worker has given no sign of life for {}", shown(silent));
            (silent > facts.lease).then(|| ("worker_silent", what()))
        }
        None => Some(("worker_gone", "its worker is not known any more".into())),
    }
}

fn ended(how: &str, reason: &str, task: &Task) -> String {
    let (attempts, reason) = (task.counts.attempts, reason.replace('_', " "));
    match &task.error {
        Some(error) => {
            let kind = error.kind.as_str();
            format!("it {how} after {attempts} attempts, {reason}; the last failure was {kind}")
        }
        None => format!("it {how} after {attempts} attempts: {reason}"),
    }
}

/// A length of time for people.
pub(super) fn shown(span: Duration) -> String {
    match span.as_secs() {
        0..60 => format!("{:.1} s", span.as_secs_f64()),
        60..7_200 => format!("{} min", span.as_secs() / 60),
        7_200..172_800 => format!("{} h", span.as_secs() / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
#[path = "tests/explain.rs"]
mod tests;
