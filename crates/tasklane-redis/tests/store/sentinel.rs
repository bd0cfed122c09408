//! Sentinels: one primary, two replicas, and the primary is killed again and again.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tasklane_core::{StateName, TaskId};
use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::{ClaimRequest, Store, StoreError};
use tempfile::TempDir;

use crate::durable::replica_of;
use crate::work::{DURABLE, LONG, completion, options, run, submit, tasks, token, until, worker};

/// How often the primary is killed in the short form.
const FAILOVERS: u32 = 5;
/// Ids asked for in one call.
const PAGE: usize = 500;

struct Watched {
    servers: Vec<TestServer>,
    sentinels: Vec<TestServer>,
    _folder: TempDir,
}

impl Watched {
    fn start() -> Self {
        let primary = TestServer::start(&DURABLE).unwrap();
        let replicas = [replica_of(&primary, &DURABLE), replica_of(&primary, &DURABLE)];
        let folder = tempfile::tempdir().unwrap();
        let port = primary.port();
        let settings = format!(
            "sentinel monitor main 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds main 1000\n\
             sentinel failover-timeout main 5000\n"
        );
        let sentinel = |number: usize| {
            let file = folder.path().join(format!("{number}.conf"));
            std::fs::write(&file, &settings).unwrap();
            TestServer::start(&[file.to_str().unwrap(), "--sentinel"]).unwrap()
        };
        let sentinels = (0..3).map(sentinel).collect();
        let servers = [primary].into_iter().chain(replicas).collect();
        Self { servers, sentinels, _folder: folder }
    }

    fn address(&self, replicas: u32) -> String {
        let ports: Vec<_> = self
            .sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port()))
            .collect();
        format!("redis+sentinel://{}/main?replicas={replicas}", ports.join(","))
    }

    /// The port of the primary, as the first sentinel sees it.
    fn primary(&self) -> u16 {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"];
        self.sentinels[0].command::<(String, u16)>(&ask).unwrap().1
    }

    /// Whether all sentinels know of two replicas and of each other.
    fn is_complete(&self) -> bool {
        let port = self.primary();
        let complete = self.sentinels.iter().all(|sentinel| {
            let info: String = sentinel.command(&["INFO", "sentinel"]).unwrap();
            info.contains(&format!("address=127.0.0.1:{port},slaves=2,sentinels=3"))
        });
        let primary = self.servers.iter().find(|server| server.port() == port).unwrap();
        let info: String = primary.command(&["INFO", "replication"]).unwrap_or_default();
        complete && info.contains("role:master") && info.matches("state=online").count() == 2
    }

    /// Kills the primary, waits for its successor, and brings it back as a replica of that.
    async fn fail_over(&self) {
        let before = self.primary();
        let killed = self.servers.iter().find(|server| server.port() == before).unwrap();
        killed.kill().unwrap();
        until(async || self.primary() != before).await;
        killed.begin().unwrap();
        let port = self.primary().to_string();
        killed.command::<()>(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
        until(async || self.is_complete()).await;
    }
}

/// What callers were told.
#[derive(Default)]
pub(crate) struct Told {
    submitted: Mutex<Vec<TaskId>>,
    completed: Mutex<Vec<TaskId>>,
    over: AtomicBool,
}

impl Told {
    /// Until some more were taken.
    pub(crate) async fn some_more(&self) {
        let before = self.submitted.lock().unwrap().len();
        until(async || self.submitted.lock().unwrap().len() > before + 20).await;
    }

    /// Nobody begins anything any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Submits so many tasks at a time.
pub(crate) async fn produce(store: &RedisStore, told: &Told, count: usize) {
    while !told.over.load(Ordering::Relaxed) {
        match store.submit(tasks(count)).await {
            Ok(mut submitted) => {
                let submitted = submitted.remove(0).unwrap();
                told.submitted.lock().unwrap().extend(submitted.iter().map(|task| task.id));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Claims so many tasks at a time and completes them.
pub(crate) async fn work(store: &RedisStore, told: &Told, count: usize) {
    let mut own = worker(store).await;
    while !told.over.load(Ordering::Relaxed) {
        let request = ClaimRequest { worker: own, count, auto_start: true, narrowed: None };
        let claimed = match store.claim(vec![request]).await.map(|mut answers| answers.remove(0)) {
            Ok(Ok(claimed)) => claimed,
            // It may have been forgotten.
            Ok(Err(_)) => {
                own = worker(store).await;
                continue;
            }
            Err(_) => Vec::new(),
        };
        let ids: Vec<_> = claimed.iter().map(|claimed| claimed.task.id).collect();
        let ends: Vec<_> =
            claimed.iter().map(|claimed| completion(claimed.task.id, token(claimed))).collect();
        if let Ok(ended) = store.execute(ends).await {
            let done = ids.into_iter().zip(ended).filter(|(_, ended)| ended.is_ok());
            told.completed.lock().unwrap().extend(done.map(|(id, _)| id));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn what_all_replicas_have_confirmed_survives_primaries_that_are_killed() {
    let watched = Watched::start();
    let count = std::env::var("TASKLANE_FAILOVERS").map_or(FAILOVERS, |text| text.parse().unwrap());
    let replicas = std::env::var("TASKLANE_REPLICAS").map_or(2, |text| text.parse().unwrap());
    run(async {
        until(async || watched.is_complete()).await;
        let bound = Duration::from_secs(5);
        let options =
            Options { command_time_max: bound, connect_time_max: bound, ..options(Mode::Durable) };
        let address = watched.address(replicas);
        let store = RedisStore::open(&address, &options).await.unwrap();
        let beside = RedisStore::open(&address, &options).await.unwrap();
        let told = Told::default();
        let kill = async {
            for _ in 0..count {
                told.some_more().await;
                watched.fail_over().await;
            }
            told.some_more().await;
            told.end();
        };
        let produce = async || produce(&store, &told, 1).await;
        let work = async || work(&beside, &told, 10).await;
        tokio::join!(kill, produce(), produce(), produce(), produce(), work(), work());
        judge(&store, &told).await;
    });
}

/// What a store says as soon as it answers: the last failover has just been.
async fn answered<T>(mut ask: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn judge(store: &RedisStore, told: &Told) {
    let submitted = told.submitted.lock().unwrap().clone();
    let completed = told.completed.lock().unwrap().clone();
    let mut lost = 0;
    let mut states = Vec::new();
    for ids in submitted.chunks(PAGE) {
        let found = answered(async || store.get(ids.to_vec()).await).await;
        lost += found.iter().filter(|task| task.is_none()).count();
        states.extend(
            found.into_iter().flatten().map(|found| (found.task.id, found.task.state.name())),
        );
    }
    let ended: HashSet<_> = states
        .iter()
        .filter(|(_, state)| *state == StateName::Completed)
        .map(|(id, _)| *id)
        .collect();
    let known: HashSet<_> = submitted.iter().collect();
    let undone = completed.iter().filter(|id| known.contains(id) && !ended.contains(id)).count();
    let twice = completed.len() - completed.iter().collect::<HashSet<_>>().len();
    println!(
        "{} submitted, {} completed; {lost} lost, {undone} undone, {twice} twice",
        submitted.len(),
        completed.len()
    );
    assert_eq!((lost, undone, twice), (0, 0, 0), "lost, undone, twice");
    assert_eq!(answered(async || store.check().await).await, []);
}

#[test]
fn a_sentinel_that_is_silent_leaves_time_to_the_others() {
    let watched = Watched::start();
    watched.sentinels[0].pause().unwrap();
    let options = Options { connect_time_max: Duration::from_secs(12), ..options(Mode::Durable) };
    run(async {
        let store = RedisStore::open(&watched.address(0), &options).await.unwrap();
        submit(&store).await.unwrap();
    });
}

#[test]
fn a_name_that_the_sentinels_do_not_know_is_said_to_be_so() {
    let watched = Watched::start();
    let address = watched.address(0).replace("/main", "/other");
    let refused = run(RedisStore::open(&address, &options(Mode::Durable)));
    assert!(
        matches!(&refused, Err(StoreError::Unavailable(text)) if text.contains("\"other\"")),
        "{refused:?}"
    );
}
