//! Entries of a task's trail.

use std::sync::Arc;

use tasklane_core::{Death, Entry, Event, EventKind, Settled, Update, Withheld};

use super::primitive::{Damaged, Reader, Writer, one_of};

/// Packs an entry.
pub fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut w = Writer::versioned(Vec::with_capacity(64));
    w.stamp(entry.stamp);
    w.byte(entry.event.kind() as u8);
    match &entry.event {
        Event::Submitted
        | Event::Scheduled
        | Event::Due
        | Event::Unblocked
        | Event::Started
        | Event::CancelRequested
        | Event::LeaseLost
        | Event::Requeued
        | Event::Discarded => {}
        Event::Promoted { from, to } => {
            w.byte(from.number());
            w.byte(to.number());
        }
        Event::Claimed { worker, token, fence, started } => {
            w.id(worker.as_bytes());
            w.id(token.as_bytes());
            w.number(fence.as_u64());
            w.flag(*started);
        }
        Event::Progressed(progress) => w.progress(progress),
        Event::Completed { digest } => w.id(digest.as_bytes()),
        Event::Retrying { failure, due_at, timeout, settled } => {
            w.failure(failure);
            w.time(*due_at);
            w.span(*timeout);
            w.option(*settled, write_settled);
        }
        Event::Failed(death) | Event::DeadLettered(death) => {
            w.dead_reason(death.reason);
            w.option(death.failure.as_deref(), Writer::failure);
            w.option(death.settled, write_settled);
        }
        Event::Cancelled { reason, settled } => {
            w.cancel_reason(*reason);
            w.option(*settled, write_settled);
        }
        Event::Released { due_at, withheld, settled } => {
            w.option(*due_at, Writer::time);
            w.option(*withheld, |w, held| {
                w.id(held.worker.as_bytes());
                w.time(held.until);
            });
            w.option(*settled, write_settled);
        }
        Event::Replayed { priority, reset_attempts, blocked } => {
            w.option(*priority, |w, priority| w.byte(priority.number()));
            w.flag(*reset_attempts);
            w.flag(*blocked);
        }
        Event::Updated(update) => {
            w.option(update.priority, |w, priority| w.byte(priority.number()));
            w.option(update.scheduled_at, Writer::time);
            w.option(update.metadata.as_ref(), Writer::metadata);
        }
    }
    w.0
}

/// Unpacks an entry.
pub fn decode_entry(bytes: &[u8]) -> Result<Entry, Damaged> {
    let mut r = Reader::versioned(bytes)?;
    let stamp = r.stamp()?;
    let event = match one_of(&EventKind::ALL, r.byte()?)? {
        EventKind::Submitted => Event::Submitted,
        EventKind::Scheduled => Event::Scheduled,
        EventKind::Due => Event::Due,
        EventKind::Unblocked => Event::Unblocked,
        EventKind::Started => Event::Started,
        EventKind::CancelRequested => Event::CancelRequested,
        EventKind::LeaseLost => Event::LeaseLost,
        EventKind::Requeued => Event::Requeued,
        EventKind::Discarded => Event::Discarded,
        EventKind::Promoted => Event::Promoted { from: r.priority()?, to: r.priority()? },
        EventKind::Claimed => Event::Claimed {
            worker: r.worker_id()?,
            token: r.token()?,
            fence: r.fence()?,
            started: r.flag()?,
        },
        EventKind::Progressed => Event::Progressed(Arc::new(r.progress()?)),
        EventKind::Completed => Event::Completed { digest: r.digest()? },
        EventKind::Retrying => Event::Retrying {
            failure: Arc::new(r.failure()?),
            due_at: r.time()?,
            timeout: r.span()?,
            settled: r.option(read_settled)?,
        },
        EventKind::Failed => Event::Failed(read_death(&mut r)?),
        EventKind::DeadLettered => Event::DeadLettered(read_death(&mut r)?),
        EventKind::Cancelled => {
            Event::Cancelled { reason: r.cancel_reason()?, settled: r.option(read_settled)? }
        }
        EventKind::Released => Event::Released {
            due_at: r.option(Reader::time)?,
            withheld: r.option(|r| Ok(Withheld { worker: r.worker_id()?, until: r.time()? }))?,
            settled: r.option(read_settled)?,
        },
        EventKind::Replayed => Event::Replayed {
            priority: r.option(Reader::priority)?,
            reset_attempts: r.flag()?,
            blocked: r.flag()?,
        },
        EventKind::Updated => Event::Updated(Update {
            priority: r.option(Reader::priority)?,
            scheduled_at: r.option(Reader::time)?,
            metadata: r.option(Reader::metadata)?,
        }),
    };
    r.finish()?;
    Ok(Entry { stamp, event })
}

fn write_settled(w: &mut Writer, settled: Settled) {
    w.id(settled.token.as_bytes());
    w.id(settled.digest.as_bytes());
}

fn read_settled(r: &mut Reader<'_>) -> Result<Settled, Damaged> {
    Ok(Settled { token: r.token()?, digest: r.digest()? })
}

fn read_death(r: &mut Reader<'_>) -> Result<Death, Damaged> {
    Ok(Death {
        reason: r.dead_reason()?,
        failure: r.option(Reader::failure)?.map(Arc::new),
        settled: r.option(read_settled)?,
    })
}
