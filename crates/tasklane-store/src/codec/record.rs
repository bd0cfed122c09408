//! What has happened to a task so far: the part that changes.

use std::sync::Arc;

use tasklane_core::{Counts, Fence, Lease, Place, State, Task, Timestamp, Withheld};

use super::primitive::{Damaged, Reader, Writer};

/// Packs all of a task that its admission does not tell.
pub fn encode_record(buffer: Vec<u8>, task: &Task) -> Vec<u8> {
    let mut w = Writer::versioned(buffer);
    write_state(&mut w, &task.state);
    // Mostly what the admission or the lease tells already: then a flag is enough.
    let admitted =
        Place { ready_at: task.admission.created.at, sequence: task.admission.created.sequence };
    w.option(Some(task.place).filter(|place| *place != admitted), Writer::place);
    let Counts { attempts, deliveries, lease_losses, replays } = task.counts;
    for count in [attempts, deliveries, lease_losses, replays] {
        w.number(count.into());
    }
    w.option(Some(task.fence).filter(|fence| *fence != leased_fence(task)), |w, fence| {
        w.number(fence.as_u64());
    });
    w.option(Some(task.timeout).filter(|timeout| *timeout != task.spec.timeout), Writer::span);
    w.option(task.expires_at, Writer::time);
    w.option(Some(task.updated_at).filter(|at| Some(*at) != told_at(task)), Writer::time);
    w.byte(task.spec.priority.number());
    w.option(task.error.as_deref(), Writer::failure);
    w.option(task.progress.as_deref(), Writer::progress);
    w.option(Some(&task.spec.metadata).filter(|_| task.relabelled), Writer::metadata);
    w.0
}

/// Unpacks a record onto the task as it was admitted.
pub fn decode_record(bytes: &[u8], mut task: Task) -> Result<Task, Damaged> {
    let mut r = Reader::versioned(bytes)?;
    task.state = read_state(&mut r)?;
    let created = task.admission.created;
    let admitted = Place { ready_at: created.at, sequence: created.sequence };
    task.place = r.option(Reader::place)?.unwrap_or(admitted);
    task.counts = Counts {
        attempts: r.small()?,
        deliveries: r.small()?,
        lease_losses: r.small()?,
        replays: r.small()?,
    };
    let fence = r.option(Reader::fence)?;
    task.fence = fence.unwrap_or_else(|| leased_fence(&task));
    task.timeout = r.option(Reader::span)?.unwrap_or(task.spec.timeout);
    task.expires_at = r.option(Reader::time)?;
    let updated_at = r.option(Reader::time)?.or_else(|| told_at(&task));
    task.updated_at = updated_at.ok_or(Damaged("no time of the last change"))?;
    task.spec.priority = r.priority()?;
    task.error = r.option(Reader::failure)?.map(Arc::new);
    task.progress = r.option(Reader::progress)?.map(Arc::new);
    if let Some(metadata) = r.option(Reader::metadata)? {
        task.spec.metadata = metadata;
        task.relabelled = true;
    }
    r.finish()?;
    Ok(task)
}

/// Since when a task is in its state, where the state itself tells.
fn told_at(task: &Task) -> Option<Timestamp> {
    let name = task.state.name();
    (name.is_leased() || name.is_terminal()).then(|| task.state_since())
}

/// The fence of the lease a task has or ended with.
fn leased_fence(task: &Task) -> Fence {
    match &task.state {
        State::Assigned(lease) | State::Running(lease) | State::Completed { lease, .. } => {
            lease.fence
        }
        _ => Fence::default(),
    }
}

fn write_state(w: &mut Writer, state: &State) {
    match state {
        State::Scheduled { due_at } => {
            w.byte(0);
            w.time(*due_at);
        }
        State::Blocked => w.byte(1),
        State::Pending { withheld } => {
            w.byte(2);
            w.option(*withheld, |w, held| {
                w.id(held.worker.as_bytes());
                w.time(held.until);
            });
        }
        State::Assigned(lease) => {
            w.byte(3);
            write_lease(w, lease);
        }
        State::Running(lease) => {
            w.byte(4);
            write_lease(w, lease);
        }
        State::Retrying { due_at } => {
            w.byte(5);
            w.time(*due_at);
        }
        State::Completed { lease, ended, digest } => {
            w.byte(6);
            write_lease(w, lease);
            w.stamp(*ended);
            w.id(digest.as_bytes());
        }
        State::Failed { ended, reason } => {
            w.byte(7);
            w.stamp(*ended);
            w.dead_reason(*reason);
        }
        State::Cancelled { ended, reason } => {
            w.byte(8);
            w.stamp(*ended);
            w.cancel_reason(*reason);
        }
        State::DeadLetter { ended, reason } => {
            w.byte(9);
            w.stamp(*ended);
            w.dead_reason(*reason);
        }
    }
}

fn read_state(r: &mut Reader<'_>) -> Result<State, Damaged> {
    Ok(match r.byte()? {
        0 => State::Scheduled { due_at: r.time()? },
        1 => State::Blocked,
        2 => State::Pending {
            withheld: r.option(|r| Ok(Withheld { worker: r.worker_id()?, until: r.time()? }))?,
        },
        3 => State::Assigned(read_lease(r)?),
        4 => State::Running(read_lease(r)?),
        5 => State::Retrying { due_at: r.time()? },
        6 => State::Completed { lease: read_lease(r)?, ended: r.stamp()?, digest: r.digest()? },
        7 => State::Failed { ended: r.stamp()?, reason: r.dead_reason()? },
        8 => State::Cancelled { ended: r.stamp()?, reason: r.cancel_reason()? },
        9 => State::DeadLetter { ended: r.stamp()?, reason: r.dead_reason()? },
        _ => return Err(Damaged("unknown state")),
    })
}

fn write_lease(w: &mut Writer, lease: &Lease) {
    w.id(lease.token.as_bytes());
    w.id(lease.worker.as_bytes());
    w.number(lease.fence.as_u64());
    w.stamp(lease.claimed);
    // Most are started by their claim: say so in a byte.
    let at_claim = lease.started == Some(lease.claimed);
    w.byte(if at_claim { 2 } else { u8::from(lease.started.is_some()) });
    if let (Some(started), false) = (lease.started, at_claim) {
        w.stamp(started);
    }
    w.option(lease.cancel_requested, Writer::stamp);
}

fn read_lease(r: &mut Reader<'_>) -> Result<Lease, Damaged> {
    let (token, worker, fence) = (r.token()?, r.worker_id()?, r.fence()?);
    let claimed = r.stamp()?;
    let started = match r.byte()? {
        0 => None,
        1 => Some(r.stamp()?),
        2 => Some(claimed),
        _ => return Err(Damaged("unknown start")),
    };
    let cancel_requested = r.option(Reader::stamp)?;
    Ok(Lease { token, worker, fence, claimed, started, cancel_requested })
}
