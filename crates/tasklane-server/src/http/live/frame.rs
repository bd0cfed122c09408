//! Events on their way to a live reader.

use bytes::Bytes;
use tasklane_client::wire;
use tasklane_core::{Failure, Timestamp, WorkerId};
use tasklane_store::{Cursor, FeedEvent, Reason, Subject, TaskNotice};
use wire::{KindWord, PriorityWord, TaskIdText, Time, WorkerIdText};

use super::kind;
use crate::engine::Noted;
use crate::http::{json, render};

/// The version of the form of events.
const VERSION: u32 = 1;

/// One event as text.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// Where to go on after it; events that are not of the feed have none.
    pub(super) cursor: Option<Cursor>,
    /// Its kind.
    pub(super) kind: &'static str,
    /// The whole event as JSON.
    pub(super) text: Bytes,
}

impl Frame {
    /// An event of the feed; its text is made once for all readers.
    pub(super) fn of(noted: &Noted, epoch: u64) -> Self {
        let event = &noted.event;
        let cursor = Cursor { epoch, position: event.position };
        let kind = kind::word(kind::number(&event.subject));
        let text = noted.text(|event| text(&shown(event, cursor, kind))).clone();
        Self { cursor: Some(cursor), kind, text }
    }

    /// An event about the stream itself.
    pub(super) fn system(
        kind: &'static str,
        cursor: Cursor,
        now: Timestamp,
        data: wire::EventData,
    ) -> Self {
        let text =
            text(&wire::Event { cursor: Some(cursor.to_string().into()), ..told(kind, now, data) });
        Self { cursor: Some(cursor), kind, text }
    }
}

/// An event that is not of the feed.
pub(super) fn told(kind: &'static str, now: Timestamp, data: wire::EventData) -> wire::Event {
    let event_type = kind.into();
    wire::Event { cursor: None, seq: None, v: VERSION, event_type, timestamp: Time(now), data }
}

/// An event as JSON.
pub(super) fn text(event: &wire::Event) -> Bytes {
    // Nothing in an event can fail to be written: texts are UTF-8 and maps have text as keys.
    json::write(Vec::new(), event).map(Bytes::from).unwrap_or_default()
}

fn shown(event: &FeedEvent, cursor: Cursor, kind: &'static str) -> wire::Event {
    let data = match &event.subject {
        Subject::Task(notice) => task(notice, event.at),
        Subject::Worker(worker, _) => {
            wire::EventData { worker_id: worker_text(Some(*worker)), ..Default::default() }
        }
        Subject::Queue(queue, _) => {
            wire::EventData { queue: Some(queue.as_str().into()), ..Default::default() }
        }
    };
    wire::Event {
        cursor: Some(cursor.to_string().into()),
        seq: Some(event.position.0),
        ..told(kind, event.at, data)
    }
}

fn task(notice: &TaskNotice, at: Timestamp) -> wire::EventData {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let reason = notice.reason.map(|reason| match reason {
        Reason::Cancelled(reason) => reason.as_str(),
        Reason::Dead(reason) => reason.as_str(),
    });
    wire::EventData {
        task_id: Some(TaskIdText(notice.id)),
        task_type: Some(notice.lane.task_type.as_str().into()),
        queue: Some(notice.lane.queue.as_str().into()),
        priority: Some(PriorityWord(notice.priority)),
        attempt: Some(notice.attempt),
        worker_id: worker_text(notice.worker),
        fence: notice.fence.map(|fence| fence.as_u64()),
        started: notice.fence.map(|_| notice.started),
        waited_ms: notice.waited.map(millis),
        due_at: notice.due_at.map(Time),
        duration_ms: notice.duration.map(millis),
        error: notice.error.as_deref().map(failure),
        reason: reason.map(Into::into),
        progress: notice.progress.as_deref().map(|progress| render::progress(progress, None, at)),
        ..Default::default()
    }
}

fn failure(failure: &Failure) -> wire::EventFailure {
    let (kind, code) = (KindWord(failure.kind), failure.code.clone());
    wire::EventFailure { kind, code, retryable: failure.retryable }
}

fn worker_text(worker: Option<WorkerId>) -> Option<WorkerIdText> {
    worker.map(WorkerIdText)
}
