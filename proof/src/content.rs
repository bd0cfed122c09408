//! What a store holds: every task, with what its own trail tells.

use std::sync::Arc;

use tasklane_core::{Entry, Event, EventKind, LeaseToken, StateName, TaskId};
use tasklane_store::conformance::block_on;
use tasklane_store::{Filter, Query, Store, StoreError, StoredTask, Trail};

use crate::Failure;
use crate::perform::body_of;

/// Tasks of one page, and trails asked for at once.
const PAGE_TASKS: usize = 500;

/// A task as the store holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its id.
    pub id: TaskId,
    /// Its idempotency key.
    pub key: Option<Box<str>>,
    /// What its payload says it is made of.
    pub body: Option<u64>,
    /// Where it is in its life.
    pub state: StateName,
    /// The last fence handed out.
    pub fence: u64,
    /// What happened to it.
    pub marks: Vec<Mark>,
    /// The same, in the words of the feed.
    pub kinds: Vec<EventKind>,
}

/// What the checker needs of an entry in a trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Claimed.
    Claimed {
        /// With this proof.
        token: LeaseToken,
        /// And this fence.
        fence: u64,
    },
    /// Settled, but not ended: it is retried or was given back.
    Left {
        /// By the holder of this token; by time otherwise.
        token: Option<LeaseToken>,
    },
    /// Ended.
    Ended {
        /// How.
        state: StateName,
        /// By the holder of this token; by time or by an operator otherwise.
        token: Option<LeaseToken>,
    },
    /// An operator revived it.
    Revived,
    /// Anything else: it moved between states in which it waits, or its lease was lost.
    Moved,
}

/// Reads everything a store holds.
pub fn read(store: &Arc<dyn Store>) -> Result<Vec<Stored>, Failure> {
    let mut content = Vec::new();
    let mut query = Query { bodies: true, ..Query::new(Filter::default(), PAGE_TASKS) };
    loop {
        let page = block_on(store.list(query.clone()))?;
        // Asked for together, so that the readers' threads are never idle.
        let trails: Vec<_> = page.tasks.iter().map(|stored| store.trail(stored.task.id)).collect();
        for (stored, trail) in page.tasks.iter().zip(trails) {
            content.push(stored_task(stored, block_on(trail)?));
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(content),
        }
    }
}

/// How many tasks have not ended, by the store's own count.
pub(crate) fn live(store: &Arc<dyn Store>) -> Result<u64, StoreError> {
    let stats = block_on(store.stats())?;
    let live = StateName::ALL.into_iter().filter(|state| !state.is_terminal());
    Ok(live.map(|state| stats.total(state)).sum())
}

fn stored_task(stored: &StoredTask, trail: Option<Trail>) -> Stored {
    let task = &stored.task;
    let entries = trail.map(|trail| trail.entries).unwrap_or_default();
    Stored {
        id: task.id,
        key: task.spec.idempotency_key.as_ref().map(|key| Box::from(key.as_str())),
        body: body_of(&stored.payload),
        state: task.state.name(),
        fence: task.fence.as_u64(),
        marks: marks(&entries),
        kinds: entries.iter().map(|entry| entry.event.kind()).collect(),
    }
}

fn marks(entries: &[Entry]) -> Vec<Mark> {
    let mut holder = None;
    let mut marks = Vec::with_capacity(entries.len());
    for entry in entries {
        let settled = entry.event.settled().map(|settled| settled.token);
        let ended = |state, token| Mark::Ended { state, token };
        marks.push(match &entry.event {
            Event::Claimed { token, fence, .. } => {
                holder = Some(*token);
                Mark::Claimed { token: *token, fence: fence.as_u64() }
            }
            Event::Retrying { .. } | Event::Released { .. } => Mark::Left { token: settled },
            Event::Completed { .. } => ended(StateName::Completed, holder),
            Event::Failed(_) => ended(StateName::Failed, settled),
            Event::DeadLettered(_) => ended(StateName::DeadLetter, settled),
            Event::Cancelled { .. } => ended(StateName::Cancelled, settled),
            Event::Replayed { .. } => Mark::Revived,
            _ => Mark::Moved,
        });
    }
    marks
}
