//! Gauges: what is the case at the moment of the question.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tasklane_core::{Priority, StateName, Worker, WorkerState};
use tasklane_store::{Figures, LaneStats, QueueState, Stats};

use super::distribution::Measured;
use super::label::{ByQueue, ByQueuePriority, ByState, ByType};
use super::{Metrics, PREFIX};

/// What gauges are made of.
pub(crate) struct Gauges {
    pub(crate) stats: Stats,
    pub(crate) queues: Vec<QueueState>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) open_breakers: usize,
    pub(crate) events_lag: u64,
    pub(crate) sockets: usize,
    pub(crate) readers: usize,
    pub(crate) parked: usize,
    pub(crate) parked_claims: u64,
    pub(crate) certificate_ends_at: Option<SystemTime>,
    pub(crate) figures: Figures,
}

/// A gauge of whole numbers.
type Count = Gauge<i64>;
/// A gauge of anything else.
type Real = Gauge<f64, AtomicU64>;

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Metrics {
    pub(super) fn gauges(&self, gauges: &Gauges) -> Registry {
        let mut registry = Registry::with_prefix(PREFIX);
        self.tasks(&mut registry, &gauges.stats);
        self.bounds(&mut registry, &gauges.queues);
        workers(&mut registry, &gauges.workers);
        let mut single = |name: &str, help: &str, value: u64| {
            let gauge = Count::default();
            gauge.set(whole(value));
            registry.register(name, help, gauge);
        };
        single("worker_breaker_open", "Workers whose breaker is open", gauges.open_breakers as u64);
        single("events_lag", "Events not read from the store yet", gauges.events_lag);
        single("ws_clients", "Live readers on WebSockets", gauges.sockets as u64);
        single("event_readers", "Live readers of any sort", gauges.readers as u64);
        single("parked_polls", "Polls that wait for tasks", gauges.parked as u64);
        let starving = gauges.stats.lanes.iter().map(|lane| lane.starving).sum();
        single("tasks_starving", "Tasks that wait over four fifths of their bound", starving);
        let claims = ConstCounter::new(gauges.parked_claims);
        registry.register("parked_claims", "Claims made for polls that wait", claims);
        if let Some(ends_at) = gauges.certificate_ends_at {
            let since = ends_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let gauge = Count::default();
            gauge.set(whole(since.as_secs()));
            let help = "When the server's certificate ends, in seconds since 1970";
            registry.register("tls_certificate_ends_at_seconds", help, gauge);
        }
        let Figures { commit_micros, commit_events, stall_micros } = &gauges.figures;
        let help = "Writes, from their beginning until they are durable";
        registry.register("store_commit_seconds", help, Measured::micros(commit_micros));
        let help = "Events that shared one commit";
        registry.register("store_commit_batch_size", help, Measured::numbers(commit_events));
        let help = "Times in which the store wrote nothing because it looked after itself";
        registry.register("store_stall_seconds", help, Measured::micros(stall_micros));
        registry
    }

    fn tasks(&self, registry: &mut Registry, stats: &Stats) {
        let mut depth = Sums::<ByQueuePriority>::default();
        let mut by_type = Sums::<ByType>::default();
        let mut dead = Sums::<ByQueue>::default();
        let mut oldest = HashMap::<ByQueuePriority, Duration>::new();
        for lane in &stats.lanes {
            let queue = self.queues.of(&lane.lane.queue);
            let priority = lane.priority.as_str();
            let pending = count(lane, StateName::Pending);
            let by_queue = ByQueuePriority { queue: queue.clone(), priority };
            let age = lane.oldest_ready_at.map_or(Duration::ZERO, |at| stats.now.since(at));
            let known = oldest.entry(by_queue.clone()).or_default();
            *known = age.max(*known);
            depth.add(by_queue, pending);
            by_type.add(ByType { r#type: self.types.of(&lane.lane.task_type) }, pending);
            dead.add(ByQueue { queue }, count(lane, StateName::DeadLetter));
        }
        depth.register(registry, "queue_depth", "Tasks that wait for a worker");
        by_type.register(registry, "pending_by_type", "Tasks that wait for a worker");
        dead.register(registry, "dlq_size", "Dead letters");
        let ages = Family::<ByQueuePriority, Real>::default();
        for (labels, age) in oldest {
            ages.get_or_create(&labels).set(age.as_secs_f64());
        }
        registry.register("queue_oldest_age_seconds", "How long the first has waited", ages);
        let states = Family::<ByState, Count>::default();
        for state in StateName::ALL {
            let labels = ByState { state: state.as_str() };
            states.get_or_create(&labels).set(whole(stats.total(state)));
        }
        registry.register("tasks_state", "Tasks by state", states);
    }

    /// How long a task waits at most until only earlier ones go before it, where that is bounded.
    fn bounds(&self, registry: &mut Registry, queues: &[QueueState]) {
        let bounds = Family::<ByQueuePriority, Real>::default();
        for state in queues {
            for priority in Priority::DESCENDING {
                let Some(after) = state.settings.order.wait_bound(priority) else { continue };
                let queue = self.queues.of(&state.queue);
                let labels = ByQueuePriority { queue, priority: priority.as_str() };
                bounds.get_or_create(&labels).set(after.as_secs_f64());
            }
        }
        let help = "How long until only earlier tasks go before one";
        registry.register("queue_wait_bound_seconds", help, bounds);
    }
}

fn workers(registry: &mut Registry, workers: &[Worker]) {
    let states = Family::<ByState, Count>::default();
    for state in WorkerState::ALL {
        let there = workers.iter().filter(|worker| worker.state == state).count();
        states.get_or_create(&ByState { state: state.as_str() }).set(whole(there as u64));
    }
    registry.register("workers", "Workers by state", states);
    let alive = || workers.iter().filter(|worker| worker.state != WorkerState::Dead);
    let capacity: u64 = alive().map(|worker| u64::from(worker.spec.capacity)).sum();
    let used: u64 = alive().map(|worker| u64::from(worker.leases)).sum();
    let ratio = Real::default();
    ratio.set(if capacity == 0 { 0.0 } else { used as f64 / capacity as f64 });
    registry.register("worker_capacity_used_ratio", "Leases held of those possible", ratio);
}

fn count(lane: &LaneStats, state: StateName) -> u64 {
    lane.counts.get(state.index()).copied().unwrap_or(0)
}

/// Sums by label: names beyond their bound share one.
struct Sums<L>(HashMap<L, u64>);

impl<L> Default for Sums<L> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<L> Sums<L>
where
    L: EncodeLabelSet + Clone + Eq + Hash + Send + Sync + std::fmt::Debug + 'static,
{
    fn add(&mut self, labels: L, value: u64) {
        *self.0.entry(labels).or_default() += value;
    }

    fn register(self, registry: &mut Registry, name: &str, help: &str) {
        let family = Family::<L, Count>::default();
        for (labels, value) in self.0 {
            family.get_or_create(&labels).set(whole(value));
        }
        registry.register(name, help, family);
    }
}
