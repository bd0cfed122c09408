//! Short words for what these tests do with a store.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tasklane_core::{
    CapabilitySet, Command, IdempotencyKey, Intent, LeaseToken, Names, NewTask, Outcome, Policies,
    Selection, State, TaskId, TaskType, WorkerId, WorkerSpec,
};
use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::{ClaimRequest, Claimed, Store, StoreError, Submission, Submitted};

/// How long to wait for what must come.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// The server that tests share, each in a namespace of its own.
pub(crate) fn shared() -> &'static TestServer {
    static SERVER: OnceLock<TestServer> = OnceLock::new();
    SERVER.get_or_init(|| TestServer::start(&["--appendonly", "no"]).unwrap())
}

pub(crate) fn run<T>(call: impl Future<Output = T>) -> T {
    let builder = &mut tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap().block_on(call)
}

/// Patient, because machines are busy.
pub(crate) fn options(mode: Mode) -> Options {
    Options { mode, command_time_max: LONG, connect_time_max: LONG, ..Options::default() }
}

pub(crate) async fn open(address: &str, mode: Mode) -> RedisStore {
    RedisStore::open(address, &options(mode)).await.unwrap()
}

pub(crate) fn tasks(count: usize) -> Vec<Submission> {
    let task = || NewTask::new(TaskType::new("a").unwrap(), "payload");
    let draft = || task().resolve(&Policies::default()).unwrap();
    vec![Submission { tasks: (0..count).map(|_| draft()).collect() }]
}

/// The same two tasks whenever it is sent: one is known by its id, one by its key.
pub(crate) fn repeatable() -> Vec<Submission> {
    let task = || NewTask::new(TaskType::new("a").unwrap(), "payload");
    let id = "01890000-0000-7000-8000-000000000001".parse().unwrap();
    let by_id = NewTask { id: Some(id), ..task() };
    let key = IdempotencyKey::new("once").unwrap();
    let by_key = NewTask { idempotency_key: Some(key), ..task() };
    let drafts = [by_id, by_key].map(|task| task.resolve(&Policies::default()).unwrap());
    vec![Submission { tasks: drafts.to_vec() }]
}

pub(crate) async fn submit(store: &RedisStore) -> Result<TaskId, StoreError> {
    let submitted: Vec<Submitted> = store.submit(tasks(1)).await?.remove(0).unwrap();
    Ok(submitted[0].id)
}

pub(crate) async fn worker(store: &RedisStore) -> WorkerId {
    let capabilities = CapabilitySet::default();
    let selection = Selection { queues: Names::All, types: Names::All, capabilities };
    store.register(WorkerSpec::new(selection, 1_000).unwrap()).await.unwrap()
}

pub(crate) async fn claim(store: &RedisStore, worker: WorkerId, count: usize) -> Vec<Claimed> {
    let request = ClaimRequest { worker, count, auto_start: true, narrowed: None };
    store.claim(vec![request]).await.unwrap().remove(0).unwrap()
}

pub(crate) fn token(claimed: &Claimed) -> LeaseToken {
    match &claimed.task.state {
        State::Assigned(lease) | State::Running(lease) => lease.token,
        other => panic!("not held: {other:?}"),
    }
}

pub(crate) fn completion(task: TaskId, token: LeaseToken) -> Command {
    Command { task, intent: Intent::Settle(token, Outcome::Completed(Bytes::new())) }
}

/// Asks again until it is so.
pub(crate) async fn until(mut so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !so().await {
        assert!(begun.elapsed() < LONG, "it did not come to that");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
