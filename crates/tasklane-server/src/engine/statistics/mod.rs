//! What was done lately: counted from the feed in one pass, by the times of the events themselves.

mod histogram;
mod recent;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tasklane_core::{DeadReason, ErrorKind, EventKind, QueueName, Timestamp};
use tasklane_store::{FeedEvent, Reason, Subject, TaskNotice};

use super::Engine;
use crate::limits::{MINUTES_MAX, PACES_MAX};
use histogram::Histogram;
use recent::{Recent, second};

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
/// Minutes that averages and percentiles of the present look at, the running one included.
const PRESENT_MINUTES: i64 = 5;

/// One minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinuteFigures {
    /// When it began.
    pub at: Timestamp,
    /// Tasks taken.
    pub submitted: u64,
    /// Tasks handed to workers.
    pub claimed: u64,
    /// Tasks completed.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Dead letters made.
    pub dead_lettered: u64,
    /// Leases lost.
    pub lease_losses: u64,
    /// Attempts that ran too long.
    pub timeouts: u64,
    /// Median wait until the claim.
    pub wait_p50: Duration,
    /// 95th percentile of the wait until the claim.
    pub wait_p95: Duration,
    /// Median time from start to end.
    pub duration_p50: Duration,
    /// 95th percentile of the time from start to end.
    pub duration_p95: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    submitted: u64,
    claimed: u64,
    completed: u64,
    failed: u64,
    dead_lettered: u64,
    lease_losses: u64,
    timeouts: u64,
}

#[derive(Debug, Default)]
struct Minute {
    counts: Counts,
    waits: Histogram,
    durations: Histogram,
    /// Of completions, for the average.
    duration_sum: Duration,
}

/// Of one second, for what must be exact to the second.
#[derive(Debug, Clone, Copy, Default)]
struct Second {
    completed: u32,
    failed: u32,
    lease_losses: u32,
    timeouts: u32,
}

#[derive(Debug)]
struct Figures {
    minutes: BTreeMap<i64, Box<Minute>>,
    seconds: Recent<Second>,
    paces: HashMap<QueueName, Recent<u32>>,
}

/// Everything counted.
#[derive(Debug)]
pub(super) struct Statistics {
    figures: Mutex<Figures>,
}

impl Default for Statistics {
    fn default() -> Self {
        let seconds = Recent::new(HOUR as usize);
        let figures = Figures { minutes: BTreeMap::new(), seconds, paces: HashMap::new() };
        Self { figures: Mutex::new(figures) }
    }
}

impl Statistics {
    /// Counts events; in any order, each once.
    pub(super) fn record<'a>(&self, events: impl Iterator<Item = &'a FeedEvent>) {
        let mut figures = self.figures();
        for event in events {
            if let Subject::Task(notice) = &event.subject {
                figures.record(event.at, notice);
            }
        }
    }

    fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Figures {
    fn record(&mut self, at: Timestamp, notice: &TaskNotice) {
        let counts = counts(notice);
        let second = second(at);
        let minute = self.minutes.entry(second.div_euclid(MINUTE)).or_default();
        minute.counts.add(&counts);
        if let Some(waited) = notice.waited {
            minute.waits.record(waited);
        }
        if let Some(duration) = notice.duration {
            minute.durations.record(duration);
            if notice.kind == EventKind::Completed {
                minute.duration_sum = minute.duration_sum.saturating_add(duration);
            }
        }
        if self.minutes.len() > MINUTES_MAX {
            self.minutes.pop_first();
        }
        if let Some(figure) = self.seconds.at(second) {
            figure.completed += u32::from(counts.completed > 0);
            figure.failed += u32::from(counts.failed > 0);
            figure.lease_losses += u32::from(counts.lease_losses > 0);
            figure.timeouts += u32::from(counts.timeouts > 0);
        }
        if counts.claimed > 0 {
            self.claimed(&notice.lane.queue, second);
        }
    }

    fn claimed(&mut self, queue: &QueueName, second: i64) {
        if let Some(pace) = self.paces.get_mut(queue) {
            return add_one(pace, second);
        }
        if self.paces.len() >= PACES_MAX {
            self.paces.retain(|_, pace| pace.last(MINUTE, second).next().is_some());
        }
        if self.paces.len() < PACES_MAX {
            let mut pace = Recent::new(MINUTE as usize);
            add_one(&mut pace, second);
            self.paces.insert(queue.clone(), pace);
        }
    }
}

fn add_one(pace: &mut Recent<u32>, second: i64) {
    if let Some(count) = pace.at(second) {
        *count += 1;
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.submitted += other.submitted;
        self.claimed += other.claimed;
        self.completed += other.completed;
        self.failed += other.failed;
        self.dead_lettered += other.dead_lettered;
        self.lease_losses += other.lease_losses;
        self.timeouts += other.timeouts;
    }
}

/// What one event counts as.
fn counts(notice: &TaskNotice) -> Counts {
    let kind = notice.kind;
    let one = u64::from;
    Counts {
        submitted: one(matches!(kind, EventKind::Submitted | EventKind::Scheduled)),
        claimed: one(kind == EventKind::Claimed),
        completed: one(kind == EventKind::Completed),
        failed: one(is_failed_attempt(notice)),
        dead_lettered: one(kind == EventKind::DeadLettered),
        lease_losses: one(is_lease_loss(notice)),
        timeouts: one(is_timeout(notice)),
    }
}

/// An attempt failed, whatever follows.
pub(crate) fn is_failed_attempt(notice: &TaskNotice) -> bool {
    let kinds = [EventKind::Retrying, EventKind::Failed, EventKind::DeadLettered];
    kinds.contains(&notice.kind) && !is_lease_loss(notice)
}

/// An attempt ran too long.
pub(crate) fn is_timeout(notice: &TaskNotice) -> bool {
    let timeout = notice.error.as_ref().is_some_and(|error| error.kind == ErrorKind::Timeout);
    timeout && is_failed_attempt(notice)
}

/// A lease ended without a word; the last of too many in a row ends the task.
pub(crate) fn is_lease_loss(notice: &TaskNotice) -> bool {
    notice.kind == EventKind::LeaseLost || notice.reason == Some(Reason::Dead(DeadReason::Poison))
}

/// The figures as they are at one moment of the store's clock.
#[derive(Debug, Clone, Copy)]
pub struct StatisticsNow<'a> {
    statistics: &'a Statistics,
    now: Timestamp,
}

impl StatisticsNow<'_> {
    /// Completions in the last 60 seconds.
    pub fn completed_last_minute(&self) -> u64 {
        self.sum(MINUTE, |second| second.completed)
    }

    /// Failed attempts in the last 60 seconds.
    pub fn failed_last_minute(&self) -> u64 {
        self.sum(MINUTE, |second| second.failed)
    }

    /// Leases that ended without a word, in the last hour.
    pub fn lease_losses_last_hour(&self) -> u64 {
        self.sum(HOUR, |second| second.lease_losses)
    }

    /// Attempts that ran too long, in the last hour.
    pub fn timeouts_last_hour(&self) -> u64 {
        self.sum(HOUR, |second| second.timeouts)
    }

    /// From start to completion, on average over the last minutes.
    pub fn average_duration(&self) -> Duration {
        let figures = self.statistics.figures();
        let (mut sum, mut count) = (Duration::ZERO, 0u64);
        for minute in self.present(&figures) {
            sum = sum.saturating_add(minute.duration_sum);
            count += minute.counts.completed;
        }
        // A mean of some years' worth of seconds loses nothing that anybody looks at.
        if count == 0 { Duration::ZERO } else { sum.div_f64(count as f64) }
    }

    /// The wait until the claim that `share` of the last minutes' claims did not pass.
    pub fn wait_percentile(&self, share: f64) -> Duration {
        let figures = self.statistics.figures();
        let mut waits = Histogram::default();
        self.present(&figures).for_each(|minute| waits.add(&minute.waits));
        waits.percentile(share)
    }

    /// Claims from a queue per second, over the last 60 seconds.
    pub fn claims_per_second(&self, queue: &QueueName) -> f64 {
        let figures = self.statistics.figures();
        let Some(pace) = figures.paces.get(queue) else { return 0.0 };
        let claims: u64 = pace.last(MINUTE, second(self.now)).map(|count| u64::from(*count)).sum();
        claims as f64 / MINUTE as f64
    }

    /// The last `count` minutes, the oldest first; those in which nothing happened are left out.
    pub fn minutes(&self, count: usize) -> Vec<MinuteFigures> {
        let figures = self.statistics.figures();
        let wanted = self.last_minutes(i64::try_from(count).unwrap_or(i64::MAX));
        let range = figures.minutes.range(wanted);
        range.map(|(number, minute)| minute.figures(*number)).collect()
    }

    fn present<'b>(&self, figures: &'b Figures) -> impl Iterator<Item = &'b Minute> {
        let range = figures.minutes.range(self.last_minutes(PRESENT_MINUTES));
        range.map(|(_, minute)| minute.as_ref())
    }

    fn last_minutes(&self, count: i64) -> std::ops::RangeInclusive<i64> {
        let this = second(self.now).div_euclid(MINUTE);
        this.saturating_sub(count.saturating_sub(1))..=this
    }

    fn sum(&self, seconds: i64, figure: impl Fn(&Second) -> u32) -> u64 {
        let figures = self.statistics.figures();
        let last = figures.seconds.last(seconds, second(self.now));
        last.map(|second| u64::from(figure(second))).sum()
    }
}

impl Minute {
    fn figures(&self, number: i64) -> MinuteFigures {
        let Counts { submitted, claimed, completed, failed, dead_lettered, lease_losses, timeouts } =
            self.counts;
        MinuteFigures {
            at: Timestamp::from_millis(number.saturating_mul(MINUTE * 1_000)),
            submitted,
            claimed,
            completed,
            failed,
            dead_lettered,
            lease_losses,
            timeouts,
            wait_p50: self.waits.percentile(0.5),
            wait_p95: self.waits.percentile(0.95),
            duration_p50: self.durations.percentile(0.5),
            duration_p95: self.durations.percentile(0.95),
        }
    }
}

impl Engine {
    /// What was done lately, as of now.
    pub fn statistics(&self) -> StatisticsNow<'_> {
        StatisticsNow { statistics: &self.statistics, now: self.now() }
    }
}

#[cfg(test)]
mod tests;
