//! One thing measured: how often, how long, how evenly.

use std::time::{Duration, Instant};

use super::histogram::Histogram;
use super::processor::Processor;
use super::progress::Progress;
use super::report::{Figures, Latency};
use super::tally::Tally;
use crate::bench::engine::Answer;
use crate::bench::plan::Plan;

/// No call should take longer than this under sustained load.
const STALL: Duration = Duration::from_millis(30);
/// Throughput is counted in slots of this length.
const SLOT: Duration = Duration::from_millis(100);

/// Times since a start; those of the warm-up do not count.
pub(crate) struct Meter {
    name: String,
    /// When counting begins.
    from: Instant,
    until: Instant,
    /// When counting began.
    processor: Option<Processor>,
    pid: Option<u32>,
    /// Tasks, those of the warm-up too.
    noted: usize,
    tasks: u64,
    times: Histogram,
    slots: Vec<u64>,
    tally: Tally,
    progress: Option<Progress>,
}

impl Meter {
    pub(crate) fn start(plan: &Plan, name: impl Into<String>) -> Self {
        let from = Instant::now() + plan.warm_up;
        Self {
            name: name.into(),
            from,
            until: from,
            processor: None,
            pid: plan.pid,
            noted: 0,
            tasks: 0,
            times: Histogram::default(),
            slots: Vec::new(),
            tally: Tally::default(),
            progress: None,
        }
    }

    /// Shows how far it is.
    pub(crate) fn with_progress(mut self, progress: Progress) -> Self {
        self.progress = Some(progress);
        self
    }

    /// What began then and moved so many tasks has ended now.
    pub(crate) fn note(&mut self, began: Instant, tasks: usize) {
        let now = Instant::now();
        self.noted += tasks;
        if let Some(progress) = &mut self.progress {
            progress.advance(now, tasks);
        }
        if now < self.from {
            return;
        }
        self.processor.get_or_insert_with(|| Processor::now(self.pid));
        self.until = now;
        self.tasks += tasks as u64;
        self.times.note(now.saturating_duration_since(began));
        let slot = ((now - self.from).as_nanos() / SLOT.as_nanos()) as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, 0);
        }
        if let Some(count) = self.slots.get_mut(slot) {
            *count += tasks as u64;
        }
    }

    /// A call was not answered as hoped for.
    pub(crate) fn note_failed(&mut self, answer: Answer<'_>) -> anyhow::Result<()> {
        self.tally.note(answer)
    }

    /// Something else went wrong, so often.
    pub(crate) fn note_wrong(&mut self, what: &str, count: usize) {
        self.tally.wrong(what, count as u64);
    }

    /// Tasks so far, those of the warm-up too.
    pub(crate) fn count(&self) -> usize {
        self.noted
    }

    pub(crate) fn figures(self) -> Figures {
        let seconds = (self.until - self.from).as_secs_f64().max(1e-9);
        let spent = self.processor.map(|began| Processor::now(self.pid).since(&began));
        let spent = spent.unwrap_or_default();
        let each = |server: f64| server * 1e6 / self.tasks.max(1) as f64;
        Figures {
            name: self.name,
            tasks: self.tasks,
            calls: self.times.count(),
            seconds,
            per_second: self.tasks as f64 / seconds,
            latency_ms: Latency {
                mean: self.times.mean_ms(),
                p50: self.times.at_ms(0.5),
                p90: self.times.at_ms(0.9),
                p99: self.times.at_ms(0.99),
                p99_9: self.times.at_ms(0.999),
                longest: self.times.longest_ms(),
            },
            over_30_ms: self.times.over(STALL),
            refused: self.tally.refused,
            wrong: self.tally.wrong,
            answers: self.tally.words,
            distribution: self.times.steps(),
            tasks_per_100_ms: self.slots,
            load_cpu: spent.load / seconds,
            server_us_each: self.pid.map(|_| each(spent.server)),
        }
    }
}
