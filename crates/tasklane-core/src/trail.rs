//! A task's own history. The common life (submitted, claimed, started, completed) costs no rows:
//! it is read off the task itself. Only what the task will forget is kept as entries.

use crate::event::{Entry, Event};
use crate::id::{Stamp, TaskId};
use crate::lifecycle::Illegal;
use crate::spec::Spec;
use crate::state::{Lease, State};
use crate::task::{Admission, Task};

/// What must be stored with `entry`, given the lease the task had before it: the entry itself
/// unless the task will show it, and what the task showed of a lease that now ends.
pub fn to_store(held: Option<&Lease>, entry: &Entry) -> Vec<Entry> {
    let shown = matches!(
        entry.event,
        Event::Submitted
            | Event::Scheduled
            | Event::Claimed { .. }
            | Event::Started
            | Event::Progressed(_)
            | Event::CancelRequested
            | Event::Completed { .. }
            | Event::Discarded
    );
    if shown {
        return Vec::new();
    }
    let mut entries = Vec::new();
    let keeps_lease = matches!(entry.event, Event::Updated(_));
    if let (Some(lease), false) = (held, keeps_lease) {
        entries.extend(of_lease(lease));
    }
    entries.push(entry.clone());
    entries
}

/// The whole trail: stored entries together with those that the task shows, in order.
pub fn whole(task: &Task, stored: Vec<Entry>) -> Vec<Entry> {
    let admission = &task.admission;
    let mut entries = vec![Entry { stamp: admission.created, event: admission_event(task) }];
    entries.extend(stored);
    match &task.state {
        State::Assigned(lease) | State::Running(lease) => entries.extend(of_lease(lease)),
        State::Completed { lease, ended, digest } => {
            entries.extend(of_lease(lease));
            entries.push(Entry { stamp: *ended, event: Event::Completed { digest: *digest } });
        }
        _ => {}
    }
    entries.sort_by_key(|entry| entry.stamp.sequence);
    entries
}

/// The task that a whole trail leads to, progress apart, which the trail does not keep.
pub fn replay(
    id: TaskId,
    spec: Spec,
    admission: Admission,
    trail: &[Entry],
) -> Result<Task, Illegal> {
    let mut task = Task::admitted(id, spec, admission);
    for entry in trail.iter().skip(1) {
        task.apply(entry)?;
    }
    Ok(task)
}

/// Whether a task is what its trail says, as far as a trail can tell.
pub fn agrees(task: &Task, replayed: &Task) -> bool {
    let comparable =
        |task: &Task| Task { progress: None, updated_at: crate::Timestamp::EPOCH, ..task.clone() };
    comparable(task) == comparable(replayed)
}

/// The event by which a task came into its store.
pub fn admission_event(task: &Task) -> Event {
    let admission = &task.admission;
    let later = admission.scheduled_at.is_some_and(|at| at > admission.created.at);
    if later && !admission.blocked { Event::Scheduled } else { Event::Submitted }
}

fn of_lease(lease: &Lease) -> impl Iterator<Item = Entry> {
    let at_claim = lease.started == Some(lease.claimed);
    let claimed = Event::Claimed {
        worker: lease.worker,
        token: lease.token,
        fence: lease.fence,
        started: at_claim,
    };
    let entry = |stamp: Stamp, event| Entry { stamp, event };
    let started = lease.started.filter(|_| !at_claim).map(|stamp| entry(stamp, Event::Started));
    let asked = lease.cancel_requested.map(|stamp| entry(stamp, Event::CancelRequested));
    std::iter::once(entry(lease.claimed, claimed)).chain(started).chain(asked)
}
