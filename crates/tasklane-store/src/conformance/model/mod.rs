//! The executable specification: a store so naive that it can be read as one.
//!
//! Every call is a full scan over plain collections under one lock, every decision is core's, and
//! nothing is kept that could be computed. Other stores are compared with it, call by call. What
//! the contract leaves open and this model settles:
//!
//! - Events are numbered from 1. A submission numbers its tasks in order, a claim `promoted` (if
//!   any) before `claimed` for each task; what a terminal task frees follows it immediately.
//! - For each task of a claim the rotation chooses among the queues in which one waits that the
//!   worker takes. If the first one there has expired it is cancelled, if the worker gave it back a
//!   moment ago it is passed over; either uses up the queue's turn.
//! - A replayed submission writes nothing, not even a record for a key it names for the first time.
//! - A direction to a worker that is already so, writes nothing. Leaving gives unstarted tasks back
//!   in the order of their ids, before the worker's own notice.
//! - Settings that change `paused` are announced as that and nothing else; all others as updated.
//! - All events of one call are one write. Pruning removes whole writes from the old end on, as
//!   long as each is too old or too many; the newest stays.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test support: a contradiction inside the model must stop the test"
)]

mod access;
mod claim;
mod execute;
mod feed;
mod memory;
mod overdue;
mod prune;
mod query;
mod submit;
mod worker;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tasklane_core::lifecycle::Rules;
use tasklane_core::{
    ApiKey, ApiKeyId, AuditEntry, AuditRecord, Clock, Command, NewApiKey, QueueName, QueueSettings,
    Refusal, TaskId, Timestamp, Worker, WorkerId, WorkerSpec,
};
use tokio::sync::watch;

use self::memory::{Memory, Now};
use crate::error::{ApiKeyRefusal, StoreError, SubmitRefusal, WorkerRefusal};
use crate::feed::{Cursor, FeedPage};
use crate::figures::Figures;
use crate::query::{AuditFrom, Page, Query, StoredTask, Trail};
use crate::request::{
    Changed, ClaimRequest, Claimed, Direction, Overdue, Prune, Pruned, Renewal, Renewed,
    Submission, Submitted,
};
use crate::stats::{QueueState, Stats};
use crate::store::{Answer, Durability, ExecutedAndClaimed, Finding, Signal, Status, Store};

/// A store in memory that is obviously right and never fast.
pub struct NaiveStore {
    clock: Arc<dyn Clock>,
    memory: Mutex<Memory>,
    signal: watch::Sender<Signal>,
}

impl NaiveStore {
    /// An empty store. Tokens and ids follow from `seed`.
    pub fn new(clock: Arc<dyn Clock>, rules: Rules, seed: u64) -> Self {
        let memory = Mutex::new(Memory::new(rules, seed));
        Self { clock, memory, signal: watch::Sender::default() }
    }

    /// What a restart does to a store that keeps everything but its monotonic clock: leases,
    /// execution timeouts and signs of life start anew; what workers reported and whose turn it was
    /// among the queues is forgotten.
    pub fn restart(&self) {
        self.write(|memory, now| memory.restart(now));
    }

    /// What a restart does to a store whose clock is elsewhere and goes on: only whose turn it was
    /// among the queues is forgotten.
    pub fn forget(&self) {
        self.write(|memory, _| memory.forget());
    }

    /// One call: one reading of the clocks, one write.
    fn write<T>(&self, call: impl FnOnce(&mut Memory, Now) -> T) -> T {
        let now = Now { wall: self.clock.wall(), monotonic: self.clock.monotonic() };
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = memory.one_write(|memory| call(memory, now));
        let (last, pending) = (memory.last_position(), memory.pending());
        self.signal.send_if_modified(|signal| {
            let happened = signal.last != last;
            if happened {
                // What became claimable waits now, or had an event when it was taken again.
                let claimable = signal.claimable + pending + (last.0 - signal.last.0);
                *signal = Signal { claimable, last };
            }
            happened
        });
        answer
    }

    fn answer<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Memory, Now) -> T,
    ) -> Answer<'static, T> {
        Box::pin(std::future::ready(Ok(self.write(call))))
    }
}

impl Store for NaiveStore {
    fn submit(
        &self,
        submissions: Vec<Submission>,
    ) -> Answer<'_, Vec<Result<Vec<Submitted>, SubmitRefusal>>> {
        self.answer(|memory, now| submissions.into_iter().map(|s| memory.submit(s, now)).collect())
    }

    fn claim(
        &self,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, Vec<Result<Vec<Claimed>, WorkerRefusal>>> {
        self.answer(|memory, now| memory.claim(&requests, now))
    }

    fn execute(&self, commands: Vec<Command>) -> Answer<'_, Vec<Result<Changed, Refusal>>> {
        self.answer(|memory, now| commands.iter().map(|c| memory.execute(c, now)).collect())
    }

    fn execute_and_claim(
        &self,
        commands: Vec<Command>,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, ExecutedAndClaimed> {
        self.answer(|memory, now| {
            let executed = commands.iter().map(|c| memory.execute(c, now)).collect();
            (executed, memory.claim(&requests, now))
        })
    }

    fn renew(&self, renewals: Vec<Renewal>) -> Answer<'_, Vec<Result<Renewed, WorkerRefusal>>> {
        self.answer(|memory, now| renewals.iter().map(|r| memory.renew(r, now)).collect())
    }

    fn overdue(&self, limit: usize) -> Answer<'_, Overdue> {
        self.answer(|memory, now| memory.overdue(limit, now))
    }

    fn get(&self, ids: Vec<TaskId>) -> Answer<'_, Vec<Option<StoredTask>>> {
        self.answer(|memory, _| ids.into_iter().map(|id| memory.get(id)).collect())
    }

    fn trail(&self, id: TaskId) -> Answer<'_, Option<Trail>> {
        self.answer(|memory, _| memory.trail(id))
    }

    fn lease_ends(&self, id: TaskId) -> Answer<'_, Option<Timestamp>> {
        self.answer(|memory, now| memory.lease_ends(id, now))
    }

    fn list(&self, query: Query) -> Answer<'_, Page> {
        self.answer(|memory, _| memory.list(&query))
    }

    fn stats(&self) -> Answer<'_, Stats> {
        self.answer(|memory, now| memory.stats(now))
    }

    fn register(&self, spec: WorkerSpec) -> Answer<'_, WorkerId> {
        Box::pin(std::future::ready(self.write(|memory, now| memory.register(spec, now))))
    }

    fn direct(
        &self,
        worker: WorkerId,
        direction: Direction,
    ) -> Answer<'_, Result<(), WorkerRefusal>> {
        self.answer(|memory, now| memory.direct(worker, direction, now))
    }

    fn workers(&self) -> Answer<'_, Vec<Worker>> {
        self.answer(|memory, _| memory.workers())
    }

    fn queues(&self) -> Answer<'_, Vec<QueueState>> {
        self.answer(|memory, _| memory.queue_states())
    }

    fn configure(&self, queue: QueueName, settings: QueueSettings) -> Answer<'_, ()> {
        self.answer(|memory, now| memory.configure(queue, settings, now))
    }

    fn announce_purge(&self, queues: Vec<QueueName>) -> Answer<'_, ()> {
        self.answer(|memory, now| memory.announce_purge(queues, now))
    }

    fn add_api_key(&self, key: NewApiKey) -> Answer<'_, Result<ApiKey, ApiKeyRefusal>> {
        self.answer(|memory, now| memory.add_api_key(key, now))
    }

    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.answer(|memory, _| memory.api_keys.values().cloned().collect())
    }

    fn revoke_api_key(&self, id: ApiKeyId) -> Answer<'_, Option<ApiKey>> {
        self.answer(|memory, now| memory.revoke_api_key(id, now))
    }

    fn append_audit(&self, entries: Vec<AuditEntry>) -> Answer<'_, Vec<AuditRecord>> {
        self.answer(|memory, now| memory.append_audit(entries, now))
    }

    fn audit(&self, from: AuditFrom, limit: usize) -> Answer<'_, Vec<AuditRecord>> {
        self.answer(|memory, _| memory.audit(from, limit))
    }

    fn events_after(&self, cursor: Cursor, limit: usize) -> Answer<'_, FeedPage> {
        self.answer(|memory, _| memory.events_after(cursor, limit))
    }

    fn head(&self) -> Answer<'_, Cursor> {
        self.answer(|memory, _| memory.head())
    }

    fn watch(&self) -> watch::Receiver<Signal> {
        self.signal.subscribe()
    }

    fn prune(&self, prune: Prune) -> Answer<'_, Pruned> {
        self.answer(|memory, now| memory.prune(&prune, now))
    }

    fn backup(&self, _to: &Path) -> Answer<'_, ()> {
        let refused = StoreError::Unsupported("the model writes no backup");
        Box::pin(std::future::ready(Err(refused)))
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        self.answer(|memory, _| memory.check())
    }

    fn status(&self) -> Status {
        Status { durability: Durability::Memory, trouble: None, figures: Figures::default() }
    }

    fn now(&self) -> Timestamp {
        self.clock.wall()
    }
}
