//! Events of one write, packed one behind the other.

use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{Entry, Event, EventKind, Lane, Lease, QueueName, StateName, Task, Timestamp};

use super::primitive::{Damaged, Reader, Writer, one_of};
use crate::feed::{FeedEvent, Position, QueueChange, Reason, Subject, TaskNotice, WorkerChange};

/// What is written for a subject that is no task.
const WORKER: u8 = 0xFE;
const QUEUE: u8 = 0xFF;
/// What is written for the state of a task before it was there.
const NEW: u8 = 0xF;

/// How a store numbers its lanes: events name a lane by its number.
pub trait LaneNumbers {
    /// The lane with this number.
    fn lane(&self, number: u64) -> Option<Lane>;
}

/// A task before an event, as far as the feed tells of it.
#[derive(Debug, Clone, Copy)]
pub struct Before {
    /// Its state; `None` for a task that is new.
    pub state: Option<StateName>,
    /// Its lease, if it had one.
    pub held: Option<Lease>,
}

impl Before {
    /// There was none: the task is new.
    pub const NOTHING: Self = Self { state: None, held: None };

    /// Of a task as it is.
    pub fn of(task: &Task) -> Self {
        Self { state: Some(task.state.name()), held: task.state.lease().copied() }
    }
}

/// Appends one event of a task to the events of a write; `after` is the task as it left it.
pub fn encode_feed(buffer: &mut Vec<u8>, lane: u64, before: &Before, after: &Task, entry: &Entry) {
    let held = before.held.as_ref();
    let mut w = begin(buffer);
    let event = &entry.event;
    w.byte(event.kind() as u8);
    // The state before and the state after, in one byte.
    w.byte(
        before.state.map_or(NEW, |state| state.index() as u8) << 4
            | after.state.name().index() as u8,
    );
    w.id(after.id.as_bytes());
    w.number(lane);
    let priority = match event {
        Event::Promoted { to, .. } => *to,
        _ => after.spec.priority,
    };
    w.byte(priority.number());
    let lease = after.state.lease().or(held);
    w.number(match event {
        // An outcome has been counted already.
        Event::Completed { .. } | Event::Retrying { .. } => after.counts.attempts.into(),
        Event::Failed(_) | Event::DeadLettered(_) => after.counts.attempts.max(1).into(),
        _ => after.attempt().into(),
    });
    let worker = lease.map(|lease| lease.worker);
    w.option(worker, |w, worker| w.id(worker.as_bytes()));
    match event {
        Event::Claimed { fence, started, .. } => {
            w.number(fence.as_u64());
            w.flag(*started);
            w.span(entry.stamp.at.since(after.place.ready_at));
        }
        Event::Scheduled | Event::Released { .. } | Event::Updated(_) | Event::Unblocked => {
            w.option(after.state.due_at(), Writer::time);
        }
        Event::Completed { .. } => w.span(ran_for(held, entry)),
        Event::Retrying { failure, due_at, .. } => {
            w.span(ran_for(held, entry));
            w.failure(&failure.summary());
            w.time(*due_at);
        }
        Event::Failed(death) | Event::DeadLettered(death) => {
            w.span(ran_for(held, entry));
            w.dead_reason(death.reason);
            w.option(death.failure.as_ref(), |w, failure| w.failure(&failure.summary()));
        }
        Event::Cancelled { reason, .. } => w.cancel_reason(*reason),
        Event::Progressed(progress) => w.progress(progress),
        _ => {}
    }
    *buffer = w.0;
}

/// The first event of a write begins with the version of all of them.
fn begin(buffer: &mut Vec<u8>) -> Writer {
    let buffer = std::mem::take(buffer);
    if buffer.is_empty() { Writer::versioned(buffer) } else { Writer(buffer) }
}

/// From the start of the attempt to this entry.
fn ran_for(held: Option<&Lease>, entry: &Entry) -> Duration {
    let started = held.and_then(|lease| lease.started);
    started.map_or(Duration::ZERO, |started| entry.stamp.at.since(started.at))
}

/// Appends an event of a worker or a queue.
pub fn encode_notice(buffer: &mut Vec<u8>, subject: &Subject) {
    let mut w = begin(buffer);
    match subject {
        Subject::Worker(worker, change) => {
            w.byte(WORKER);
            w.id(worker.as_bytes());
            let number = WorkerChange::ALL.iter().position(|known| known == change);
            w.byte(number.unwrap_or_default() as u8);
        }
        Subject::Queue(queue, change) => {
            w.byte(QUEUE);
            w.text(queue.as_str());
            let number = QueueChange::ALL.iter().position(|known| known == change);
            w.byte(number.unwrap_or_default() as u8);
        }
        Subject::Task(_) => {}
    }
    *buffer = w.0;
}

/// Unpacks the events of one write, the first of which has the number `first`.
pub fn decode_feed(
    bytes: &[u8],
    first: Position,
    at: Timestamp,
    lanes: &impl LaneNumbers,
) -> Result<Vec<FeedEvent>, Damaged> {
    let mut r = Reader::versioned(bytes)?;
    let mut events = Vec::new();
    let mut position = first;
    while !r.is_empty() {
        let subject = read_subject(&mut r, lanes)?;
        events.push(FeedEvent { at, position, subject });
        position = position.next();
    }
    Ok(events)
}

fn read_subject(r: &mut Reader<'_>, lanes: &impl LaneNumbers) -> Result<Subject, Damaged> {
    match r.byte()? {
        WORKER => Ok(Subject::Worker(r.worker_id()?, one_of(&WorkerChange::ALL, r.byte()?)?)),
        QUEUE => {
            let queue = QueueName::new(r.text()?).map_err(|_| Damaged("not a queue"))?;
            Ok(Subject::Queue(queue, one_of(&QueueChange::ALL, r.byte()?)?))
        }
        kind => read_task(r, one_of(&EventKind::ALL, kind)?, lanes),
    }
}

fn read_task(
    r: &mut Reader<'_>,
    kind: EventKind,
    lanes: &impl LaneNumbers,
) -> Result<Subject, Damaged> {
    let states = r.byte()?;
    let from = match states >> 4 {
        NEW => None,
        state => Some(one_of(&StateName::ALL, state)?),
    };
    let mut notice = TaskNotice {
        from,
        to: one_of(&StateName::ALL, states & 0xF)?,
        id: r.task_id()?,
        lane: lanes.lane(r.number()?).ok_or(Damaged("unknown lane"))?,
        kind,
        priority: r.priority()?,
        attempt: r.small()?,
        worker: r.option(Reader::worker_id)?,
        fence: None,
        started: false,
        waited: None,
        due_at: None,
        duration: None,
        error: None,
        reason: None,
        progress: None,
    };
    match kind {
        EventKind::Claimed => {
            notice.fence = Some(r.fence()?);
            notice.started = r.flag()?;
            notice.waited = Some(r.span()?);
        }
        EventKind::Scheduled | EventKind::Released | EventKind::Updated | EventKind::Unblocked => {
            notice.due_at = r.option(Reader::time)?
        }
        EventKind::Completed => notice.duration = Some(r.span()?),
        EventKind::Retrying => {
            notice.duration = Some(r.span()?);
            notice.error = Some(Arc::new(r.failure()?));
            notice.due_at = Some(r.time()?);
        }
        EventKind::Failed | EventKind::DeadLettered => {
            notice.duration = Some(r.span()?);
            notice.reason = Some(Reason::Dead(r.dead_reason()?));
            notice.error = r.option(Reader::failure)?.map(Arc::new);
        }
        EventKind::Cancelled => notice.reason = Some(Reason::Cancelled(r.cancel_reason()?)),
        EventKind::Progressed => notice.progress = Some(Arc::new(r.progress()?)),
        _ => {}
    }
    Ok(Subject::Task(Box::new(notice)))
}
