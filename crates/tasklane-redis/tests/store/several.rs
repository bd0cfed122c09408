//! Several servers on one store.

use std::collections::HashSet;
use std::time::Duration;

use tasklane_core::{
    Names, NewTask, Policies, Selection, StateName, TaskType, WorkerId, WorkerSpec,
};
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::{ClaimRequest, Store, Submission};
use tokio::runtime::Runtime;

use crate::server;

/// How long to wait for what must come.
const LONG: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn open(namespace: &str) -> RedisStore {
    let options = Options {
        namespace: namespace.into(),
        mode: Mode::Fast,
        command_time_max: LONG,
        ..Options::default()
    };
    RedisStore::open(&server::shared().address(), &options).await.unwrap()
}

fn tasks(count: usize) -> Vec<Submission> {
    let task = || NewTask::new(TaskType::new("a").unwrap(), "payload");
    let draft = || task().resolve(&Policies::default()).unwrap();
    vec![Submission { tasks: (0..count).map(|_| draft()).collect() }]
}

async fn worker(store: &RedisStore) -> WorkerId {
    let selection = Selection {
        queues: Names::All,
        types: Names::All,
        capabilities: tasklane_core::CapabilitySet::default(),
    };
    store.register(WorkerSpec::new(selection, 1_000).unwrap()).await.unwrap()
}

fn request(worker: WorkerId, count: usize) -> Vec<ClaimRequest> {
    vec![ClaimRequest { worker, count, auto_start: true, narrowed: None }]
}

#[test]
fn servers_that_write_at_once_give_out_each_task_once() {
    runtime().block_on(async {
        let stores = [open("several").await, open("several").await, open("several").await];
        let claim = async |store: &RedisStore| {
            let worker = worker(store).await;
            let mut claimed = Vec::new();
            for _ in 0..20 {
                store.submit(tasks(5)).await.unwrap().remove(0).unwrap();
                let tasks = store.claim(request(worker, 5)).await.unwrap().remove(0).unwrap();
                claimed.extend(tasks.into_iter().map(|claimed| claimed.task.id));
            }
            claimed
        };
        let [one, two, three] = &stores;
        let (one_has, two_has, three_has) = tokio::join!(claim(one), claim(two), claim(three));
        let all: Vec<_> = [one_has, two_has, three_has].concat();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "none twice");
        let stats = one.stats().await.unwrap();
        let waiting = stats.total(StateName::Pending) as usize;
        assert_eq!((all.len() + waiting, one.check().await.unwrap()), (300, vec![]));
    });
}

#[test]
fn what_one_server_writes_is_a_hint_to_the_others() {
    runtime().block_on(async {
        let (one, other) = (open("hint").await, open("hint").await);
        let mut hints = other.watch();
        let before = *hints.borrow_and_update();
        one.submit(tasks(3)).await.unwrap();
        let head = one.head().await.unwrap().position;
        let told = hints.wait_for(|signal| signal.last >= head);
        let told = *tokio::time::timeout(LONG, told).await.unwrap().unwrap();
        assert!(told.claimable >= before.claimable + 3);
    });
}

#[test]
fn scripts_that_redis_has_forgotten_are_sent_again() {
    runtime().block_on(async {
        let store = open("flush").await;
        for _ in 0..5 {
            redis::cmd("SCRIPT").arg("FLUSH").query::<()>(&mut server::shared().connect()).unwrap();
            store.submit(tasks(1)).await.unwrap().remove(0).unwrap();
        }
        assert_eq!(store.stats().await.unwrap().total(StateName::Pending), 5);
    });
}

#[test]
fn namespaces_know_nothing_of_each_other() {
    runtime().block_on(async {
        let (one, other) = (open("mine").await, open("yours").await);
        one.submit(tasks(2)).await.unwrap();
        assert_eq!(other.stats().await.unwrap().total(StateName::Pending), 0);
        assert_ne!(one.head().await.unwrap().epoch, other.head().await.unwrap().epoch);
    });
}
