//! The contract of a store, in one page.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use tasklane_core::{ApiKey, ApiKeyId, AuditEntry, AuditRecord, NewApiKey};
use tasklane_core::{Command, Lane, QueueName, QueueSettings, Refusal, TaskId};
use tasklane_core::{Timestamp, Worker, WorkerId, WorkerSpec};
use tokio::sync::watch;

use crate::error::{ApiKeyRefusal, StoreError, SubmitRefusal, WorkerRefusal};
use crate::feed::{Cursor, FeedPage, Position};
use crate::figures::Figures;
use crate::query::{AuditFrom, Page, Query, StoredTask, Trail};
use crate::request::{
    Admit, Changed, ClaimRequest, Claimed, Direction, Overdue, Prune, Pruned, Renewal, Renewed,
    Requested, Submission, Submitted,
};
use crate::stats::{QueueState, Stats};

/// What every call gives: a result once the store has answered.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The verdicts of [`Store::execute_and_claim`], those of its commands first.
pub type ExecutedAndClaimed =
    (Vec<Result<Changed, Refusal>>, Vec<Result<Vec<Claimed>, WorkerRefusal>>);

/// Where tasks live.
///
/// - Batch first: a call carries many units, from many callers. Units are independent: each has
///   its own verdict, and one caller's failure never fails another's. A unit is atomic.
/// - A call is queued when it is made, before its answer is awaited, so that calls made one after
///   the other may share one write. Dropping the answer does not undo the call. Calls in flight
///   together take effect in any order.
/// - An answer that is `Ok` is as durable as [`Status::durability`] says (S1).
/// - All time is the store's own clock, read inside the call (S7).
/// - The store loads a task under its own isolation, lets core decide at that moment, and writes
///   change, trail, event, idempotency record and freed successor in one atomic unit.
pub trait Store: Send + Sync + 'static {
    /// Admits tasks. A submission is admitted whole or refused whole (S13, S20).
    fn submit(
        &self,
        submissions: Vec<Submission>,
    ) -> Answer<'_, Vec<Result<Vec<Submitted>, SubmitRefusal>>>;

    /// Whether applications may ask for tasks inside the store itself.
    fn takes_requests(&self) -> bool {
        false
    }

    /// Tasks that were asked for so, and that nobody has admitted yet; at most `limit`.
    fn requested(&self, limit: usize) -> Answer<'_, Vec<Requested>> {
        let _ = limit;
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Admits them, or makes dead letters of what is not acceptable: each once, by whoever is first.
    /// Says which of these it was that brought them in.
    fn admit(&self, requests: Vec<Admit>) -> Answer<'_, Vec<bool>> {
        let nobody = requests.iter().map(|_| false).collect();
        Box::pin(std::future::ready(Ok(nobody)))
    }

    /// Hands the next tasks to workers, by S8, up to their free capacity. Never waits for tasks.
    /// Payloads are bounded by [`CLAIM_BYTES_MAX`](tasklane_core::limits::CLAIM_BYTES_MAX): a request
    /// may get fewer tasks than there are, but never none.
    fn claim(
        &self,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, Vec<Result<Vec<Claimed>, WorkerRefusal>>>;

    /// Carries out commands, each on the state it meets.
    fn execute(&self, commands: Vec<Command>) -> Answer<'_, Vec<Result<Changed, Refusal>>>;

    /// Carries out commands, then claims, in this order: capacity that a settle frees is there for
    /// the claim. After an error the commands may have been carried out: they may be sent again.
    fn execute_and_claim(
        &self,
        commands: Vec<Command>,
        requests: Vec<ClaimRequest>,
    ) -> Answer<'_, ExecutedAndClaimed> {
        let executing = self.execute(commands);
        Box::pin(async move {
            let executed = executing.await?;
            Ok((executed, self.claim(requests).await?))
        })
    }

    /// Renews leases and notes signs of life. Never a write per lease.
    fn renew(&self, renewals: Vec<Renewal>) -> Answer<'_, Vec<Result<Renewed, WorkerRefusal>>>;

    /// Lists what time has done, as commands for [`Store::execute`]; at most `limit` of them.
    /// Each call goes on where the last one stopped, so that nothing starves behind what is refused.
    fn overdue(&self, limit: usize) -> Answer<'_, Overdue>;

    /// The tasks with these ids, in order.
    fn get(&self, ids: Vec<TaskId>) -> Answer<'_, Vec<Option<StoredTask>>>;

    /// A task and everything that happened to it.
    fn trail(&self, id: TaskId) -> Answer<'_, Option<Trail>>;

    /// When the lease of a task ends unless it is renewed, by the store's wall clock; passed where it
    /// has ended and nobody has reclaimed it yet. `None` where there is no lease.
    fn lease_ends(&self, id: TaskId) -> Answer<'_, Option<Timestamp>>;

    /// Tasks that match, newest first, a page at a time and within bounds of number and bytes.
    fn list(&self, query: Query) -> Answer<'_, Page>;

    /// Counters of every lane; never a scan.
    fn stats(&self) -> Answer<'_, Stats>;

    /// Makes a worker known.
    fn register(&self, spec: WorkerSpec) -> Answer<'_, WorkerId>;

    /// Changes what a worker may do. Leaving gives its unstarted tasks back.
    fn direct(
        &self,
        worker: WorkerId,
        direction: Direction,
    ) -> Answer<'_, Result<(), WorkerRefusal>>;

    /// All workers known, the dead ones included until they are pruned.
    fn workers(&self) -> Answer<'_, Vec<Worker>>;

    /// All queues known, with their settings.
    fn queues(&self) -> Answer<'_, Vec<QueueState>>;

    /// Sets a queue's settings; makes the queue known.
    fn configure(&self, queue: QueueName, settings: QueueSettings) -> Answer<'_, ()>;

    /// Tells in the feed that an operator has cancelled what waited in these queues. Queues that
    /// are not known are left out.
    fn announce_purge(&self, queues: Vec<QueueName>) -> Answer<'_, ()>;

    /// Makes an API key. Its end must be ahead.
    fn add_api_key(&self, key: NewApiKey) -> Answer<'_, Result<ApiKey, ApiKeyRefusal>>;

    /// All API keys, by id; those that no longer open anything included until they are pruned.
    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>>;

    /// Takes an API key back for good; again changes nothing. `None` if there is none.
    fn revoke_api_key(&self, id: ApiKeyId) -> Answer<'_, Option<ApiKey>>;

    /// Adds to the audit log, numbered and chained without gaps, in one write.
    fn append_audit(&self, entries: Vec<AuditEntry>) -> Answer<'_, Vec<AuditRecord>>;

    /// Records of the audit log; at most `limit` of them.
    fn audit(&self, from: AuditFrom, limit: usize) -> Answer<'_, Vec<AuditRecord>>;

    /// Events after a cursor, in order (S17).
    fn events_after(&self, cursor: Cursor, limit: usize) -> Answer<'_, FeedPage>;

    /// The cursor after the last event.
    fn head(&self) -> Answer<'_, Cursor>;

    /// A hint that something became claimable or happened. Losing it costs latency only.
    fn watch(&self) -> watch::Receiver<Signal>;

    /// Where tasks have become claimable since the hint was `seen`, from memory: these lanes, and
    /// perhaps others. `None` where that is not known: anywhere.
    fn claimable_since(&self, seen: u64) -> Option<Vec<Lane>> {
        let _ = seen;
        None
    }

    /// Removes one slice of what has been kept long enough (S21).
    fn prune(&self, prune: Prune) -> Answer<'_, Pruned>;

    /// Writes a consistent copy to a new file while serving (S19), where the store can.
    fn backup(&self, to: &Path) -> Answer<'_, ()>;

    /// Looks for contradictions: the engine's own check, and each task against its trail (S18).
    fn check(&self) -> Answer<'_, Vec<Finding>>;

    /// How the store is doing, from memory.
    fn status(&self) -> Status;

    /// Whether writes that come together share one commit anyway, so that a caller gains nothing by
    /// gathering them first.
    fn gathers(&self) -> bool {
        false
    }

    /// The store's wall time, as near as it can be told from memory: to show ages and the like.
    fn now(&self) -> Timestamp;
}

/// What changed, coalesced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signal {
    /// Rises by at least the number of tasks that became claimable and were not claimed in the same
    /// write, so that a waiter can tell roughly how many there are to share. It may rise by more,
    /// and without any.
    pub claimable: u64,
    /// The last event.
    pub last: Position,
}

/// How the store is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What an `Ok` means.
    pub durability: Durability,
    /// Why the store takes no writes, or soon will not; `None` when all is well.
    pub trouble: Option<String>,
    /// What the store has measured of itself.
    pub figures: Figures,
}

/// What the success answer of a write means (S1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk.
    Fsync,
    /// Committed by a database server.
    Committed,
    /// In Redis' log, and acknowledged by its replicas as configured.
    Aof,
    /// In memory, on disk within an interval.
    Interval,
    /// In memory.
    Memory,
}

impl Durability {
    /// Its word in the `Durability` header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Committed => "committed",
            Self::Aof => "aof",
            Self::Interval => "interval",
            Self::Memory => "memory",
        }
    }
}

/// A contradiction in what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}
