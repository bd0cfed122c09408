//! What the store asks of a server before tasks are entrusted to it, and of each write.

use std::time::Duration;

use tasklane_core::{NewTask, Policies, TaskType};
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::{Durability, Store, StoreError, Submission};

use crate::server::Server;

const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn options(mode: Mode) -> Options {
    Options { mode, command_time_max: Duration::from_secs(20), ..Options::default() }
}

fn run<T>(call: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(call)
}

fn one_task() -> Vec<Submission> {
    let task = NewTask::new(TaskType::new("a").unwrap(), "payload");
    vec![Submission { tasks: vec![task.resolve(&Policies::default()).unwrap()] }]
}

fn refusal(server: &Server, mode: Mode) -> String {
    run(RedisStore::open(&server.address(), &options(mode))).unwrap_err().to_string()
}

#[test]
fn a_server_without_its_file_is_refused_and_told_what_to_set() {
    let server = Server::start(&["--appendonly", "no"]);
    assert!(refusal(&server, Mode::Durable).contains("appendonly yes"));
    let store = run(RedisStore::open(&server.address(), &options(Mode::Fast))).unwrap();
    assert_eq!(store.status().durability, Durability::Memory);
}

#[test]
fn a_file_that_is_synced_later_is_not_enough_where_that_cannot_be_waited_for() {
    let server = Server::start(&["--appendonly", "yes", "--appendfsync", "no"]);
    assert!(refusal(&server, Mode::Durable).contains("appendfsync always"));
}

#[test]
fn a_server_that_syncs_every_write_keeps_tasks_and_says_so() {
    let server = Server::start(&DURABLE);
    run(async {
        let store = RedisStore::open(&server.address(), &options(Mode::Durable)).await.unwrap();
        assert_eq!(store.status().durability, Durability::Aof);
        store.submit(one_task()).await.unwrap();
    });
}

#[test]
fn a_server_that_would_remove_tasks_is_refused() {
    let server = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    assert!(refusal(&server, Mode::Fast).contains("noeviction"));
    server.configure("maxmemory-policy", "noeviction");
    run(RedisStore::open(&server.address(), &options(Mode::Fast))).unwrap();
}

#[test]
fn a_server_without_memory_refuses_and_goes_on_when_there_is_some() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    run(async {
        let store = RedisStore::open(&server.address(), &options(Mode::Fast)).await.unwrap();
        store.submit(one_task()).await.unwrap();
        server.configure("maxmemory", "1");
        let refused = store.submit(one_task()).await;
        assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
        assert!(store.status().trouble.is_some());
        server.configure("maxmemory", "0");
        store.submit(one_task()).await.unwrap();
        assert_eq!(store.status().trouble, None);
        assert_eq!(store.check().await.unwrap(), []);
        let stats = store.stats().await.unwrap();
        assert_eq!(stats.total(tasklane_core::StateName::Pending), 2);
    });
}

#[test]
fn a_replica_is_refused() {
    let primary = Server::with_port(&[]);
    let of = format!("127.0.0.1 {}", primary.port);
    let replica = Server::start(&["--replicaof", &of]);
    assert!(refusal(&replica, Mode::Fast).contains("primary"));
}

#[test]
fn a_write_that_too_few_replicas_have_is_reported_as_unknown() {
    let primary = Server::with_port(&DURABLE);
    let of = format!("127.0.0.1 {}", primary.port);
    let replica = Server::start(&["--replicaof", &of]);
    primary.wait_for_replica();
    let address = format!("{}?replicas=1", primary.address());
    run(async {
        let options = Options { command_time_max: Duration::from_secs(4), ..Options::default() };
        let store = RedisStore::open(&address, &options).await.unwrap();
        store.submit(one_task()).await.unwrap();
        // A primary whose replica has gone waits for it in vain.
        drop(replica);
        let unknown = store.submit(one_task()).await;
        assert!(matches!(unknown, Err(StoreError::OutcomeUnknown(_))), "{unknown:?}");
    });
}
