//! Counters.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::{Priority, QueueName, Reach, StateName, Worker, WorkerState};
use tasklane_store::{LaneStats, QueueState, Stats};

use super::problem::Refused;
use super::query::{Form, Known, Parameters, known, parameters};
use super::{App, lately, respond};
use crate::engine::{Caller, Engine};

use wire::Seconds;

const QUEUE: &[Known] = &[known("queue", Form::Text, "Only this queue; all if absent.")];

parameters!(
    /// Of the counters.
    QueueStats = [QUEUE]
);

/// Look at the counters
///
/// Depths come from counters and never from a scan. Workers and what was done lately are those of
/// all queues; a key that reaches only some of them is not told what was done lately.
#[utoipa::path(get, path = "/queue/stats", tag = "producers", params(QueueStats),
    responses((status = 200, description = "The counters", body = wire::QueueStats)))]
pub(crate) async fn queue_stats(
    State(engine): App,
    caller: Caller,
    parameters: Parameters<QueueStats>,
) -> Result<Response, Refused> {
    let queue = match parameters.text("queue")? {
        None => None,
        Some(text) => Some(QueueName::new(text).map_err(|invalid| {
            let kind = Refused::invalid("", &invalid).kind();
            Refused::field(kind, "?queue", kind.word, invalid.problem.to_string())
        })?),
    };
    let stats = gather(&engine, queue.as_ref(), &caller.reach).await?;
    Ok(respond::json(StatusCode::OK, &stats))
}

/// The counters of one queue, or of all.
pub(crate) async fn gather(
    engine: &Engine,
    queue: Option<&QueueName>,
    reach: &Reach,
) -> Result<wire::QueueStats, Refused> {
    let mut stats = engine.stats().await?;
    let mut queues = engine.queues().await?;
    queues.retain(|state| reach.queues.contain(state.queue.as_str()));
    stats.lanes.retain(|lane| reach.holds(&lane.lane));
    if let Some(queue) = queue {
        queues.retain(|state| state.queue == *queue);
        stats.lanes.retain(|lane| lane.lane.queue == *queue);
        if queues.is_empty() && stats.lanes.is_empty() {
            return Err(Refused::not_found("queue"));
        }
    }
    let workers = engine.workers().await?;
    let workers = workers.into_iter().map(|(worker, _)| worker);
    let workers: Vec<_> = workers.filter(|worker| reach.touches(&worker.spec.selection)).collect();
    // What was done lately is counted for all queues together.
    let lately = reach.is_everything().then(|| Lately::of(engine));
    Ok(counted(&stats, &queues, &workers, lately.as_ref()))
}

/// What was done lately, in all queues.
#[derive(Debug, Clone, Copy)]
struct Lately {
    throughput: wire::Throughput,
    wait_p50: Duration,
    wait_p95: Duration,
    recovery: wire::Recovery,
}

impl Lately {
    fn of(engine: &Engine) -> Self {
        let statistics = engine.statistics();
        Self {
            throughput: lately::throughput(&statistics),
            wait_p50: statistics.wait_percentile(0.5),
            wait_p95: statistics.wait_percentile(0.95),
            recovery: wire::Recovery {
                lease_losses_last_hour: statistics.lease_losses_last_hour(),
                timeouts_last_hour: statistics.timeouts_last_hour(),
            },
        }
    }
}

fn counted(
    stats: &Stats,
    queues: &[QueueState],
    workers: &[Worker],
    lately: Option<&Lately>,
) -> wire::QueueStats {
    let total = |state| stats.total(state);
    wire::QueueStats {
        queues: wire::Depths {
            critical: depth(stats, Priority::Critical),
            high: depth(stats, Priority::High),
            normal: depth(stats, Priority::Normal),
            low: depth(stats, Priority::Low),
        },
        scheduled: total(StateName::Scheduled),
        retrying: total(StateName::Retrying),
        blocked: total(StateName::Blocked),
        dlq_size: total(StateName::DeadLetter),
        total_tasks: StateName::ALL.into_iter().map(total).sum(),
        workers: worker_counts(workers),
        throughput: lately.map(|lately| lately.throughput),
        waits: wire::Waits {
            p50_seconds: lately.map(|lately| Seconds(lately.wait_p50)),
            p95_seconds: lately.map(|lately| Seconds(lately.wait_p95)),
            max_bound_seconds: bound(queues).map(Seconds),
        },
        recovery: lately.map(|lately| lately.recovery),
    }
}

fn depth(stats: &Stats, priority: Priority) -> wire::Depth {
    let lanes = || stats.lanes.iter().filter(|lane| lane.priority == priority);
    let count = |lane: &LaneStats, state: StateName| {
        lane.counts.get(state.index()).copied().unwrap_or_default()
    };
    let oldest = lanes().filter_map(|lane| lane.oldest_ready_at).min();
    wire::Depth {
        depth: lanes().map(|lane| count(lane, StateName::Pending)).sum(),
        oldest_age_seconds: Seconds(oldest.map_or(Duration::ZERO, |at| stats.now.since(at))),
        running: lanes()
            .map(|lane| count(lane, StateName::Assigned) + count(lane, StateName::Running))
            .sum(),
    }
}

/// The longest time to the critical level among queues; none where one of them has none.
fn bound(queues: &[QueueState]) -> Option<Duration> {
    let default = QueueState {
        queue: QueueName::default_queue(),
        settings: tasklane_core::QueueSettings::default(),
        depth: 0,
    };
    let queues = if queues.is_empty() { std::slice::from_ref(&default) } else { queues };
    let bounds = queues.iter().map(|state| state.settings.order.wait_bound(Priority::Low));
    bounds.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Workers by state; capacity is that of the live ones.
pub(crate) fn worker_counts(workers: &[Worker]) -> wire::WorkerCounts {
    let mut counts = wire::WorkerCounts::default();
    for worker in workers {
        match worker.state {
            WorkerState::Active => counts.active += 1,
            WorkerState::Paused => counts.paused += 1,
            WorkerState::Draining => counts.draining += 1,
            WorkerState::Unhealthy => counts.unhealthy += 1,
            WorkerState::Dead => counts.dead += 1,
        }
        if worker.state != WorkerState::Dead {
            counts.total_capacity += u64::from(worker.spec.capacity);
            counts.used_capacity += u64::from(worker.leases);
        }
    }
    counts
}
