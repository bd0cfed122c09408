//! Counters from the feed.

use std::sync::PoisonError;

use tasklane_core::{EventKind, StateName};
use tasklane_store::{FeedEvent, Reason, Subject, TaskNotice, WorkerChange};

use super::Metrics;
use super::label::{
    Attempt, ByPriority, ByQueueKind, ByQueueReason, ByReason, Ended, FromTo, Retried, Taken,
};
use crate::engine::{is_failed_attempt, is_lease_loss, is_timeout};

/// What a task that is new comes from.
const NEW: &str = "new";

impl Metrics {
    /// Counts events, each once. Those in a row that are counted alike are looked up together.
    pub(crate) fn count<'a>(&self, events: impl Iterator<Item = &'a FeedEvent>) {
        let mut notices = Vec::new();
        for event in events {
            match &event.subject {
                Subject::Task(notice) => notices.push(notice.as_ref()),
                Subject::Worker(_, WorkerChange::Dead) => {
                    self.worker_deaths.get_or_create(&ByReason { reason: "silent" }).inc();
                }
                Subject::Worker(..) | Subject::Queue(..) => {}
            }
        }
        for run in notices.chunk_by(|one, next| are_alike(one, next)) {
            if let [first, ..] = run {
                self.count_run(first, run);
            }
        }
    }

    fn count_run(&self, first: &TaskNotice, run: &[&TaskNotice]) {
        let count = run.len() as u64;
        if first.from != Some(first.to) {
            let from = first.from.map_or(NEW, StateName::as_str);
            let labels = FromTo { from, to: first.to.as_str() };
            self.transitions.get_or_create(&labels).inc_by(count);
        }
        let queue = || self.queues.of(&first.lane.queue);
        match first.kind {
            EventKind::Submitted | EventKind::Scheduled => {
                let r#type = self.types.of(&first.lane.task_type);
                let labels = Taken { queue: queue(), r#type, priority: first.priority.as_str() };
                self.submitted.get_or_create(&labels).inc_by(count);
            }
            EventKind::Promoted => {
                let promotion = run.last().map(|last| (last.id, last.priority.as_str()));
                *self.promotion.lock().unwrap_or_else(PoisonError::into_inner) = promotion;
            }
            EventKind::Claimed => self.count_claims(first, run),
            EventKind::Completed => self.count_ends(first, run, "completed"),
            EventKind::Failed => self.count_ends(first, run, "failed"),
            EventKind::Cancelled => self.count_ends(first, run, "cancelled"),
            EventKind::DeadLettered => {
                self.count_ends(first, run, "dead_letter");
                let reason = match first.reason {
                    Some(Reason::Dead(reason)) => reason.as_str(),
                    _ => "unknown",
                };
                let labels = ByQueueReason { queue: queue(), reason };
                self.dead_lettered.get_or_create(&labels).inc_by(count);
            }
            EventKind::Retrying => {
                let (priority, reason) = (first.priority.as_str(), kind(first));
                let labels = Retried { queue: queue(), priority, reason };
                self.retries.get_or_create(&labels).inc_by(count);
                self.observe_attempts(first, run, "retrying");
            }
            _ => {}
        }
        if is_failed_attempt(first) {
            let labels = ByQueueKind { queue: queue(), kind: kind(first) };
            self.failed.get_or_create(&labels).inc_by(count);
        }
        if is_lease_loss(first) {
            self.lease_losses.inc_by(count);
        }
        if is_timeout(first) {
            self.timeouts.inc_by(count);
        }
    }

    fn count_claims(&self, first: &TaskNotice, run: &[&TaskNotice]) {
        let priority = first.priority.as_str();
        let waits = self.waits.get_or_create(&ByPriority { priority });
        for waited in run.iter().filter_map(|notice| notice.waited) {
            waits.observe(waited.as_secs_f64());
        }
        // A promotion is followed by the claim that it was made for.
        let promotion = self.promotion.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((_, to)) = promotion.filter(|(id, _)| *id == first.id) {
            self.promoted.get_or_create(&FromTo { from: priority, to }).inc();
        }
    }

    fn count_ends(&self, first: &TaskNotice, run: &[&TaskNotice], status: &'static str) {
        let queue = self.queues.of(&first.lane.queue);
        let r#type = self.types.of(&first.lane.task_type);
        let labels = Ended { queue, r#type, status };
        self.completed.get_or_create(&labels).inc_by(run.len() as u64);
        self.observe_attempts(first, run, status);
    }

    fn observe_attempts(&self, first: &TaskNotice, run: &[&TaskNotice], status: &'static str) {
        let mut durations = run.iter().filter_map(|notice| notice.duration).peekable();
        // One that nothing was observed of is not shown.
        if durations.peek().is_none() {
            return;
        }
        let r#type = self.types.of(&first.lane.task_type);
        let labels = Attempt { r#type, status, priority: first.priority.as_str() };
        let observed = self.durations.get_or_create(&labels);
        for duration in durations {
            observed.observe(duration.as_secs_f64());
        }
    }
}

/// Whether two events are counted under the same labels.
fn are_alike(one: &TaskNotice, other: &TaskNotice) -> bool {
    let words = |notice: &TaskNotice| {
        let error = notice.error.as_ref().map(|error| error.kind);
        (notice.kind, notice.from, notice.to, notice.priority, notice.reason, error)
    };
    words(one) == words(other) && one.lane == other.lane
}

fn kind(notice: &TaskNotice) -> &'static str {
    notice.error.as_ref().map_or("unknown", |error| error.kind.as_str())
}
