//! Counters and settings of queues as they were a moment ago: for estimates and displays, never
//! for decisions.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use hashbrown::HashMap;
use tasklane_core::{Order, Priority, QueueName, QueueSettings, StateName, Task, Timestamp};
use tasklane_store::{QueueState, Stats};

use super::Engine;
use super::error::EngineError;

/// About when a task is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// How many of its queue go before it, it included; `None` unless it is pending.
    pub position: Option<u64>,
    /// How long that takes at the recent pace; `None` while there is none.
    pub wait: Option<Duration>,
}

/// A queue as it was a moment ago, and what came since.
#[derive(Debug, Default)]
struct Figures {
    settings: QueueSettings,
    pending: [AtomicU64; Priority::COUNT],
    /// The oldest place among them, by priority.
    oldest: [Option<Timestamp>; Priority::COUNT],
    /// The latest place that this server has given, in microseconds; nought if none.
    newest: [AtomicI64; Priority::COUNT],
    claims_per_second: f64,
}

/// All queues as they were a moment ago.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    queues: RwLock<HashMap<QueueName, Figures>>,
}

impl Figures {
    fn estimate(&self, task: &Task) -> Estimate {
        let own = task.spec.priority.index();
        let mut pending = self.pending.iter().skip(own).map(|count| count.load(Ordering::Relaxed));
        let alike = pending.next().unwrap_or_default();
        let before = (alike as f64 * self.share_before(task)) as u64;
        let position = ((before + 1).min(alike) + pending.sum::<u64>()).max(1);
        let pace = self.claims_per_second;
        let wait = (pace > 0.0).then(|| position as f64 / pace);
        let wait = wait.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Estimate { position: Some(position), wait }
    }

    /// How many of those of its priority have earlier places, as if they had come evenly between the
    /// first and the last; all where nothing is known of that.
    fn share_before(&self, task: &Task) -> f64 {
        let own = task.spec.priority.index();
        let newest = self.newest.get(own).map_or(0, |newest| newest.load(Ordering::Relaxed));
        let Some(oldest) = self.oldest.get(own).copied().flatten() else { return 1.0 };
        let span = Timestamp::from_micros(newest).since(oldest);
        if span.is_zero() {
            return 1.0;
        }
        task.place.ready_at.since(oldest).div_duration_f64(span).min(1.0)
    }
}

impl Snapshot {
    /// A task came in here since the last look: how its queue chooses, and when its turn is.
    pub(super) fn submitted(&self, task: &Task) -> (Order, Estimate) {
        let queues = self.queues();
        let Some(figures) = queues.get(&task.spec.lane.queue) else {
            return (Order::default(), unseen(task));
        };
        if !is_pending(task) {
            return (figures.settings.order, Estimate::default());
        }
        if let Some(counter) = figures.pending.get(task.spec.priority.index()) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(newest) = figures.newest.get(task.spec.priority.index()) {
            newest.fetch_max(task.place.ready_at.as_micros(), Ordering::Relaxed);
        }
        (figures.settings.order, figures.estimate(task))
    }

    pub(super) fn order(&self, queue: &QueueName) -> Order {
        self.settings(queue).order
    }

    pub(super) fn settings(&self, queue: &QueueName) -> QueueSettings {
        self.queues().get(queue).map(|figures| figures.settings).unwrap_or_default()
    }

    pub(super) fn estimate(&self, task: &Task) -> Estimate {
        if !is_pending(task) {
            return Estimate::default();
        }
        let queues = self.queues();
        queues.get(&task.spec.lane.queue).map_or(unseen(task), |figures| figures.estimate(task))
    }

    fn queues(&self) -> RwLockReadGuard<'_, HashMap<QueueName, Figures>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, stats: &Stats, queues: Vec<QueueState>, pace: impl Fn(&QueueName) -> f64) {
        let mut fresh: HashMap<QueueName, Figures> = queues
            .into_iter()
            .map(|state| {
                let claims_per_second = pace(&state.queue);
                let figures =
                    Figures { settings: state.settings, claims_per_second, ..Figures::default() };
                (state.queue, figures)
            })
            .collect();
        for lane in &stats.lanes {
            let pending = lane.counts.get(StateName::Pending.index()).copied().unwrap_or(0);
            let figures = fresh.entry(lane.lane.queue.clone()).or_default();
            if let Some(counter) = figures.pending.get(lane.priority.index()) {
                counter.fetch_add(pending, Ordering::Relaxed);
            }
            if let Some(oldest) = figures.oldest.get_mut(lane.priority.index()) {
                *oldest = [*oldest, lane.oldest_ready_at].into_iter().flatten().min();
            }
        }
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        for (queue, figures) in &mut fresh {
            if let Some(before) = queues.get_mut(queue) {
                figures.newest = std::mem::take(&mut before.newest);
            }
        }
        let before = std::mem::replace(&mut *queues, fresh);
        // There may be many: nobody waits while they go.
        drop(queues);
        drop(before);
    }
}

fn is_pending(task: &Task) -> bool {
    task.state.name() == StateName::Pending
}

/// Of a queue that the last look did not find.
fn unseen(task: &Task) -> Estimate {
    Estimate { position: is_pending(task).then_some(1), wait: None }
}

impl Engine {
    /// Takes a new look at all queues.
    pub async fn refresh_snapshot(&self) -> Result<(), EngineError> {
        let stats = self.store.stats().await?;
        let queues = self.store.queues().await?;
        let lately = self.statistics();
        self.snapshot.replace(&stats, queues, |queue| lately.claims_per_second(queue));
        Ok(())
    }
}
