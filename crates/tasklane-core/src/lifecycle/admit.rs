//! Admission: a draft becomes a task.

use crate::error::Invalid;
use crate::event::Event;
use crate::id::{Stamp, TaskId};
use crate::limits;
use crate::spec::Draft;
use crate::task::{Admission, Task};
use crate::time::Timestamp;

/// Checks what only the store's clock can tell.
pub fn check_admission(draft: &Draft, now: Timestamp) -> Result<(), Invalid> {
    let horizon = now.plus(limits::SCHEDULE_AHEAD_MAX);
    let scheduled_at = draft.schedule.map(|when| when.resolve(now));
    if scheduled_at.is_some_and(|at| at > horizon) {
        return Err(Invalid::out_of_range("scheduled_at", "at most five years ahead"));
    }
    let expires_at = draft.expires.map(|when| when.resolve(now));
    if expires_at.is_some_and(|at| at <= now || at > horizon) {
        return Err(Invalid::out_of_range("expires_at", "in the future, at most five years ahead"));
    }
    // Such a task could never run: rather tell now than cancel it later.
    if expires_at.zip(scheduled_at).is_some_and(|(expires, due)| expires <= due) {
        return Err(Invalid::out_of_range("expires_at", "after the scheduled time"));
    }
    Ok(())
}

/// The task that a checked draft becomes, and the event that says so. `blocked`: another live
/// task has its ordering key.
pub fn admit(draft: Draft, id: TaskId, created: Stamp, blocked: bool) -> (Task, Event) {
    let resolve = |when: Option<crate::spec::When>| when.map(|when| when.resolve(created.at));
    let admission = Admission {
        created,
        scheduled_at: resolve(draft.schedule),
        expires_at: resolve(draft.expires),
        blocked,
    };
    let task = Task::admitted(id, draft.spec, admission);
    let event = crate::trail::admission_event(&task);
    (task, event)
}
