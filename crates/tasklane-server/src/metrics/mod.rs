//! Metrics for Prometheus: counters that follow the feed and the calls, gauges made when asked.
//!
//! Counters are of what this server has seen since it started. Labels are names that the events
//! carry already, so that counting allocates nothing.

mod count;
mod distribution;
mod gauge;
mod label;

use std::sync::Mutex;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tasklane_core::{QueueName, TaskId, TaskType};

use crate::limits::{METRIC_QUEUES_MAX, METRIC_TYPES_MAX};
use label::{
    Answered, Attempt, ByPriority, ByQueueKind, ByQueueReason, ByReason, ByVersion, Ended, FromTo,
    Names, Retried, Taken,
};

pub(crate) use gauge::Gauges;

const PREFIX: &str = "tasklane";
/// Bounds for calls, in seconds.
const CALL_SECONDS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0];
/// Bounds for waits and attempts, in seconds.
const TASK_SECONDS: [f64; 15] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1_800.0, 3_600.0,
];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

fn call_histogram() -> Histogram {
    Histogram::new(CALL_SECONDS)
}

fn task_histogram() -> Histogram {
    Histogram::new(TASK_SECONDS)
}

/// Everything measured.
pub(crate) struct Metrics {
    registry: Registry,
    queues: Names<QueueName>,
    types: Names<TaskType>,
    submitted: Family<Taken, Counter>,
    completed: Family<Ended, Counter>,
    failed: Family<ByQueueKind, Counter>,
    retries: Family<Retried, Counter>,
    promoted: Family<FromTo, Counter>,
    dead_lettered: Family<ByQueueReason, Counter>,
    lease_losses: Counter,
    timeouts: Counter,
    assignment_timeouts: Counter,
    transitions: Family<FromTo, Counter>,
    worker_deaths: Family<ByReason, Counter>,
    waits: Histograms<ByPriority>,
    durations: Histograms<Attempt>,
    replays: Counter,
    rejected: Family<ByReason, Counter>,
    denied: Counter,
    pruned: Counter,
    handshakes_failed: Counter,
    spans_exported: Counter,
    spans_dropped: Family<ByReason, Counter>,
    claims: Histogram,
    answers: Histograms<Answered>,
    /// The task last promoted: its claim follows and tells what it was promoted from.
    promotion: Mutex<Option<(TaskId, &'static str)>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix(PREFIX),
            queues: Names::new(METRIC_QUEUES_MAX),
            types: Names::new(METRIC_TYPES_MAX),
            submitted: Family::default(),
            completed: Family::default(),
            failed: Family::default(),
            retries: Family::default(),
            promoted: Family::default(),
            dead_lettered: Family::default(),
            lease_losses: Counter::default(),
            timeouts: Counter::default(),
            assignment_timeouts: Counter::default(),
            transitions: Family::default(),
            worker_deaths: Family::default(),
            waits: Family::new_with_constructor(task_histogram),
            durations: Family::new_with_constructor(task_histogram),
            replays: Counter::default(),
            rejected: Family::default(),
            denied: Counter::default(),
            pruned: Counter::default(),
            handshakes_failed: Counter::default(),
            spans_exported: Counter::default(),
            spans_dropped: Family::default(),
            claims: call_histogram(),
            answers: Family::new_with_constructor(call_histogram),
            promotion: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let r = &mut self.registry;
        r.register("tasks_submitted", "Tasks taken", self.submitted.clone());
        r.register("tasks_completed", "Tasks that ended, by how", self.completed.clone());
        r.register("tasks_failed", "Attempts that failed", self.failed.clone());
        r.register("task_retries", "Attempts that are tried again", self.retries.clone());
        r.register("tasks_promoted", "Claims above the base priority", self.promoted.clone());
        r.register("tasks_dead_lettered", "Dead letters made", self.dead_lettered.clone());
        r.register("lease_losses", "Leases that ended without a word", self.lease_losses.clone());
        r.register("execution_timeouts", "Attempts that ran too long", self.timeouts.clone());
        let unstarted = self.assignment_timeouts.clone();
        r.register("assignment_timeouts", "Claims that were not started in time", unstarted);
        r.register("task_transitions", "Changes of state", self.transitions.clone());
        r.register("worker_deaths", "Workers declared dead", self.worker_deaths.clone());
        r.register("task_wait_seconds", "From ready to claimed", self.waits.clone());
        r.register("task_duration_seconds", "From start to end", self.durations.clone());
        r.register("idempotent_replays", "Submissions that came again", self.replays.clone());
        r.register("rejected", "Requests that were refused, by why", self.rejected.clone());
        r.register("auth_failures", "Calls without a good key", self.denied.clone());
        r.register("tasks_pruned", "Tasks that retention removed", self.pruned.clone());
        let failed = self.handshakes_failed.clone();
        r.register("tls_handshakes_failed", "Connections without TLS in the end", failed);
        let (exported, dropped) = (self.spans_exported.clone(), self.spans_dropped.clone());
        r.register("trace_spans_exported", "Calls told to the collector", exported);
        r.register("trace_spans_dropped", "Calls it was not told of, by why", dropped);
        r.register("claim_seconds", "Claims, from call to answer", self.claims.clone());
        r.register("http_request_seconds", "From request to answer", self.answers.clone());
        let version = ByVersion { version: env!("CARGO_PKG_VERSION") };
        r.register("build", "What is running", Info::new(version));
    }

    /// Submissions came again.
    pub(crate) fn replayed(&self, count: u64) {
        if count > 0 {
            self.replays.inc_by(count);
        }
    }

    /// A request was refused.
    pub(crate) fn rejected(&self, reason: &'static str) {
        self.rejected.get_or_create(&ByReason { reason }).inc();
    }

    /// Somebody was not let in.
    pub(crate) fn denied(&self) {
        self.denied.inc();
    }

    /// A client and the server did not come to terms.
    pub(crate) fn handshake_failed(&self) {
        self.handshakes_failed.inc();
    }

    /// Calls were told to the collector.
    pub(crate) fn spans_exported(&self, spans: u64) {
        self.spans_exported.inc_by(spans);
    }

    /// Calls that it should have been told of are forgotten.
    pub(crate) fn spans_dropped(&self, reason: &'static str, spans: u64) {
        self.spans_dropped.get_or_create(&ByReason { reason }).inc_by(spans);
    }

    /// Tasks were removed by retention.
    pub(crate) fn pruned(&self, tasks: u64) {
        self.pruned.inc_by(tasks);
    }

    /// Claims were ended because they were not started in time.
    pub(crate) fn unassigned(&self, claims: usize) {
        self.assignment_timeouts.inc_by(claims as u64);
    }

    /// A claim was answered.
    pub(crate) fn claimed_within(&self, time: Duration) {
        self.claims.observe(time.as_secs_f64());
    }

    /// A request was answered.
    pub(crate) fn answered(&self, route: &'static str, status: u16, time: Duration) {
        self.answers.get_or_create(&Answered { route, status }).observe(time.as_secs_f64());
    }

    /// Everything as text, with gauges of this moment.
    pub(crate) fn text(&self, gauges: &Gauges) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        text::encode_registry(&mut out, &self.registry)?;
        text::encode_registry(&mut out, &self.gauges(gauges))?;
        text::encode_eof(&mut out)?;
        Ok(out)
    }
}
