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
    /// Counts events, each once.
    pub(crate) fn count<'a>(&self, events: impl Iterator<Item = &'a FeedEvent>) {
        for event in events {
            match &event.subject {
                Subject::Task(notice) => self.count_task(notice),
                Subject::Worker(_, WorkerChange::Dead) => {
                    self.worker_deaths.get_or_create(&ByReason { reason: "silent" }).inc();
                }
                Subject::Worker(..) | Subject::Queue(..) => {}
            }
        }
    }

    fn count_task(&self, notice: &TaskNotice) {
        if notice.from != Some(notice.to) {
            let from = notice.from.map_or(NEW, StateName::as_str);
            self.transitions.get_or_create(&FromTo { from, to: notice.to.as_str() }).inc();
        }
        match notice.kind {
            EventKind::Submitted | EventKind::Scheduled => {
                let queue = self.queues.of(&notice.lane.queue);
                let r#type = self.types.of(&notice.lane.task_type);
                let priority = notice.priority.as_str();
                self.submitted.get_or_create(&Taken { queue, r#type, priority }).inc();
            }
            EventKind::Promoted => {
                let promotion = Some((notice.id, notice.priority.as_str()));
                *self.promotion.lock().unwrap_or_else(PoisonError::into_inner) = promotion;
            }
            EventKind::Claimed => self.count_claim(notice),
            EventKind::Completed => self.count_end(notice, "completed"),
            EventKind::Failed => self.count_end(notice, "failed"),
            EventKind::Cancelled => self.count_end(notice, "cancelled"),
            EventKind::DeadLettered => {
                self.count_end(notice, "dead_letter");
                let queue = self.queues.of(&notice.lane.queue);
                let reason = match notice.reason {
                    Some(Reason::Dead(reason)) => reason.as_str(),
                    _ => "unknown",
                };
                self.dead_lettered.get_or_create(&ByQueueReason { queue, reason }).inc();
            }
            EventKind::Retrying => {
                let queue = self.queues.of(&notice.lane.queue);
                let (priority, reason) = (notice.priority.as_str(), kind(notice));
                self.retries.get_or_create(&Retried { queue, priority, reason }).inc();
                self.observe_attempt(notice, "retrying");
            }
            _ => {}
        }
        if is_failed_attempt(notice) {
            let queue = self.queues.of(&notice.lane.queue);
            self.failed.get_or_create(&ByQueueKind { queue, kind: kind(notice) }).inc();
        }
        if is_lease_loss(notice) {
            self.lease_losses.inc();
        }
        if is_timeout(notice) {
            self.timeouts.inc();
        }
    }

    fn count_claim(&self, notice: &TaskNotice) {
        let priority = notice.priority.as_str();
        if let Some(waited) = notice.waited {
            let waits = self.waits.get_or_create(&ByPriority { priority });
            waits.observe(waited.as_secs_f64());
        }
        let promotion = self.promotion.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((_, to)) = promotion.filter(|(id, _)| *id == notice.id) {
            self.promoted.get_or_create(&FromTo { from: priority, to }).inc();
        }
    }

    fn count_end(&self, notice: &TaskNotice, status: &'static str) {
        let queue = self.queues.of(&notice.lane.queue);
        let r#type = self.types.of(&notice.lane.task_type);
        self.completed.get_or_create(&Ended { queue, r#type, status }).inc();
        self.observe_attempt(notice, status);
    }

    fn observe_attempt(&self, notice: &TaskNotice, status: &'static str) {
        let Some(duration) = notice.duration else { return };
        let r#type = self.types.of(&notice.lane.task_type);
        let attempt = Attempt { r#type, status, priority: notice.priority.as_str() };
        self.durations.get_or_create(&attempt).observe(duration.as_secs_f64());
    }
}

fn kind(notice: &TaskNotice) -> &'static str {
    notice.error.as_ref().map_or("unknown", |error| error.kind.as_str())
}
