//! The feed (S17).

use std::sync::Arc;

use tasklane_core::{Entry, Event, Task};

use super::memory::Memory;
use crate::feed::{Cursor, FeedPage, Position, Reason, TaskNotice};

/// There is no restore, so there is one epoch.
const EPOCH: u64 = 1;

impl Memory {
    pub(super) fn head(&self) -> Cursor {
        Cursor { epoch: EPOCH, position: self.last_position() }
    }

    pub(super) fn events_after(&self, cursor: Cursor, limit: usize) -> FeedPage {
        let head = self.head();
        let oldest = self.events.first().map_or(head.position.next(), |e| e.event.position);
        let before_oldest = Position(oldest.0 - 1);
        let known =
            cursor.epoch == EPOCH && (before_oldest..=head.position).contains(&cursor.position);
        let from = if known { cursor.position } else { before_oldest };
        let events: Vec<_> = self
            .events
            .iter()
            .filter(|written| written.event.position > from)
            .take(limit)
            .map(|written| written.event.clone())
            .collect();
        let position = events.last().map_or(from, |event| event.position);
        let next = Cursor { epoch: EPOCH, position };
        FeedPage { events, next, gap: !known && cursor != Cursor::OLDEST }
    }
}

/// What the feed says of `entry`, which made `after` of `before`.
pub(super) fn notice(before: &Task, after: &Task, entry: &Entry) -> TaskNotice {
    let lease = after.state.lease().or(before.state.lease());
    let started = before.state.lease().and_then(|lease| lease.started);
    let ran_for = started.map_or_else(Default::default, |s| entry.stamp.at.since(s.at));
    let is_new = matches!(entry.event, Event::Submitted | Event::Scheduled);
    let mut notice = TaskNotice {
        from: (!is_new).then_some(before.state.name()),
        to: after.state.name(),
        id: after.id,
        lane: after.spec.lane.clone(),
        kind: entry.event.kind(),
        priority: after.spec.priority,
        attempt: after.attempt(),
        worker: lease.map(|lease| lease.worker),
        fence: None,
        started: false,
        waited: None,
        due_at: None,
        duration: None,
        error: entry.event.failure().map(|failure| Arc::new(failure.summary())),
        reason: None,
        progress: None,
    };
    match &entry.event {
        Event::Promoted { to, .. } => notice.priority = *to,
        Event::Claimed { fence, started, .. } => {
            notice.fence = Some(*fence);
            notice.started = *started;
            notice.waited = Some(entry.stamp.at.since(after.place.ready_at));
        }
        Event::Scheduled | Event::Released { .. } | Event::Updated(_) | Event::Unblocked => {
            notice.due_at = after.state.due_at();
        }
        Event::Completed { .. } => {
            notice.duration = Some(ran_for);
            notice.attempt = after.counts.attempts;
        }
        Event::Retrying { due_at, .. } => {
            notice.duration = Some(ran_for);
            notice.attempt = after.counts.attempts;
            notice.due_at = Some(*due_at);
        }
        Event::Failed(death) | Event::DeadLettered(death) => {
            notice.duration = Some(ran_for);
            notice.attempt = after.counts.attempts.max(1);
            notice.reason = Some(Reason::Dead(death.reason));
        }
        Event::Cancelled { reason, .. } => notice.reason = Some(Reason::Cancelled(*reason)),
        Event::Progressed(progress) => notice.progress = Some(Arc::clone(progress)),
        _ => {}
    }
    notice
}
