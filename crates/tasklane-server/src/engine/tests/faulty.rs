//! A store whose feed and keys cannot be read now and then, and which refuses what it is told to.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tasklane_core::lifecycle::Rules;
use tasklane_core::{ApiKey, ApiKeyId, AuditEntry, AuditRecord, NewApiKey};
use tasklane_core::{Command, QueueName, QueueSettings, Refusal, TaskId};
use tasklane_core::{Timestamp, Worker, WorkerId, WorkerSpec};
use tasklane_store::conformance::{ManualClock, NaiveStore};
use tasklane_store::{
    Answer, ApiKeyRefusal, AuditFrom, Changed, ClaimRequest, Claimed, Cursor, Direction, FeedPage,
    Finding, Overdue, Page, Prune, Pruned, Query, QueueState, Renewal, Renewed, Signal, Stats,
    Status, Store, StoreError, StoredTask, Submission, SubmitRefusal, Submitted, Trail,
    WorkerRefusal,
};
use tokio::sync::watch;

pub(crate) struct Faulty {
    inner: NaiveStore,
    /// What submissions get, if anything else than usual.
    pub(crate) refuses: Mutex<Option<StoreError>>,
    pub(super) fails: AtomicBool,
    /// Says that it has trouble.
    pub(super) is_troubled: AtomicBool,
    /// Gives more events than it is asked for.
    pub(super) generous: AtomicBool,
}

impl Faulty {
    pub(crate) fn new() -> Arc<Self> {
        let clock = Arc::new(ManualClock::default());
        let inner = NaiveStore::new(clock, Rules::default(), 1);
        let no = || AtomicBool::new(false);
        let (fails, is_troubled, generous) = (no(), no(), no());
        Arc::new(Self { inner, refuses: Mutex::default(), fails, is_troubled, generous })
    }

    fn unless_failing<'a, T: Send + 'a>(&self, answer: Answer<'a, T>) -> Answer<'a, T> {
        if self.fails.load(Ordering::Relaxed) {
            return Box::pin(async { Err(StoreError::Unavailable("as the test wishes".into())) });
        }
        answer
    }
}

macro_rules! pass_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($argument: $type),*) -> $answer {
            self.inner.$name($($argument),*)
        }
    )*};
}

type Each<'a, T, E> = Answer<'a, Vec<Result<T, E>>>;

impl Store for Faulty {
    fn events_after(&self, cursor: Cursor, limit: usize) -> Answer<'_, FeedPage> {
        let more = if self.generous.load(Ordering::Relaxed) { 100 } else { 0 };
        self.unless_failing(self.inner.events_after(cursor, limit + more))
    }

    fn submit(&self, all: Vec<Submission>) -> Each<'_, Vec<Submitted>, SubmitRefusal> {
        match self.refuses.lock().unwrap().clone() {
            Some(error) => Box::pin(async { Err(error) }),
            None => self.inner.submit(all),
        }
    }

    fn status(&self) -> Status {
        let trouble = self.is_troubled.load(Ordering::Relaxed).then(|| "as it wishes".to_owned());
        Status { trouble, ..self.inner.status() }
    }

    fn head(&self) -> Answer<'_, Cursor> {
        self.unless_failing(self.inner.head())
    }

    fn api_keys(&self) -> Answer<'_, Vec<ApiKey>> {
        self.unless_failing(self.inner.api_keys())
    }

    pass_on! {
        fn claim(all: Vec<ClaimRequest>) -> Each<'_, Vec<Claimed>, WorkerRefusal>;
        fn execute(all: Vec<Command>) -> Each<'_, Changed, Refusal>;
        fn renew(all: Vec<Renewal>) -> Each<'_, Renewed, WorkerRefusal>;
        fn overdue(limit: usize) -> Answer<'_, Overdue>;
        fn get(ids: Vec<TaskId>) -> Answer<'_, Vec<Option<StoredTask>>>;
        fn trail(id: TaskId) -> Answer<'_, Option<Trail>>;
        fn lease_ends(id: TaskId) -> Answer<'_, Option<Timestamp>>;
        fn list(query: Query) -> Answer<'_, Page>;
        fn stats() -> Answer<'_, Stats>;
        fn register(spec: WorkerSpec) -> Answer<'_, WorkerId>;
        fn direct(worker: WorkerId, to: Direction) -> Answer<'_, Result<(), WorkerRefusal>>;
        fn workers() -> Answer<'_, Vec<Worker>>;
        fn queues() -> Answer<'_, Vec<QueueState>>;
        fn configure(queue: QueueName, settings: QueueSettings) -> Answer<'_, ()>;
        fn announce_purge(queues: Vec<QueueName>) -> Answer<'_, ()>;
        fn add_api_key(key: NewApiKey) -> Answer<'_, Result<ApiKey, ApiKeyRefusal>>;
        fn revoke_api_key(id: ApiKeyId) -> Answer<'_, Option<ApiKey>>;
        fn append_audit(entries: Vec<AuditEntry>) -> Answer<'_, Vec<AuditRecord>>;
        fn audit(from: AuditFrom, limit: usize) -> Answer<'_, Vec<AuditRecord>>;
        fn watch() -> watch::Receiver<Signal>;
        fn prune(prune: Prune) -> Answer<'_, Pruned>;
        fn backup(to: &Path) -> Answer<'_, ()>;
        fn check() -> Answer<'_, Vec<Finding>>;
        fn now() -> Timestamp;
    }
}
