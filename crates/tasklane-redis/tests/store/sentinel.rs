//! Sentinels: one primary, two replicas, and the primary is killed again and again.

use std::time::Duration;

use tasklane_core::TaskId;
use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::{Store, StoreError};
use tempfile::TempDir;

use crate::durable::replica_of;
use crate::traffic::{Lost, Told, lost, produce, repeat_what_is_over, work};
use crate::work::{DURABLE, open, options, run, submit, until};

/// How often the primary is killed in the short form.
const FAILOVERS: u32 = 5;
/// Tasks that are taken between two of them, at least.
const MORE: usize = 200;
/// How many replicas there are.
const REPLICAS: u32 = 2;

struct Watched {
    servers: Vec<TestServer>,
    sentinels: Vec<TestServer>,
    _folder: TempDir,
}

impl Watched {
    fn start() -> Self {
        Self::around(TestServer::start(&DURABLE).unwrap(), "")
    }

    /// With these further lines in the files of the sentinels.
    fn around(primary: TestServer, more: &str) -> Self {
        let replicas = (0..REPLICAS).map(|_| replica_of(&primary, &DURABLE)).collect::<Vec<_>>();
        let folder = tempfile::tempdir().unwrap();
        let port = primary.port();
        let settings = format!(
            "sentinel monitor main 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds main 1000\n\
             sentinel failover-timeout main 5000\n\
             {more}"
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

#[test]
fn what_all_replicas_have_confirmed_survives_primaries_that_are_killed() {
    let watched = Watched::start();
    let given = |name| std::env::var(name).ok().map(|text| text.parse::<u32>().unwrap());
    // `make failover` asks for more of them, and for fewer that confirm: then some may be lost.
    let count = given("TASKLANE_FAILOVERS").unwrap_or(FAILOVERS);
    let replicas = given("TASKLANE_REPLICAS").unwrap_or(REPLICAS);
    let all_confirm = replicas == REPLICAS;
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
                told.more(MORE).await;
                watched.fail_over().await;
                if all_confirm {
                    repeat_what_is_over(&store, &told).await;
                }
            }
            told.more(MORE).await;
            told.end();
        };
        let produce = async || produce(&store, &told, 1).await;
        let work = async || work(&beside, &told, 10).await;
        tokio::join!(kill, produce(), produce(), produce(), produce(), work(), work());
        let (acknowledged, lost) = (told.count(), lost(&store, &told).await);
        let figures = format!(
            "{count} promotions, {acknowledged} acknowledged, {} lost, with replicas={replicas}",
            lost.tasks + lost.undone
        );
        eprintln!("{figures}");
        assert!(!all_confirm || lost == Lost::default(), "{figures}: {lost:?}");
    });
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

/// A primary that knows no command by which sentinels could make it a replica.
fn stubborn() -> TestServer {
    let deaf = ["SLAVEOF", "REPLICAOF"].map(|name| ["--rename-command", name, ""]).concat();
    TestServer::start(&[&DURABLE[..], &deaf].concat()).unwrap()
}

/// Has another server promoted while the old primary stays as it is, and waits until a store writes to
/// the new one.
fn is_left_for_its_successor(replicas: u32) {
    let watched = Watched::around(stubborn(), "");
    let bound = Duration::from_secs(4);
    let options =
        Options { command_time_max: bound, connect_time_max: bound, ..options(Mode::Durable) };
    run(async {
        until(async || watched.is_complete()).await;
        let store = RedisStore::open(&watched.address(replicas), &options).await.unwrap();
        until(async || submit(&store).await.is_ok()).await;
        let before = watched.primary();
        let promote = ["SENTINEL", "FAILOVER", "main"];
        until(async || watched.sentinels[0].command::<()>(&promote).is_ok()).await;
        until(async || watched.primary() != before).await;
        let primary = watched.primary();
        let successor = watched.servers.iter().find(|server| server.port() == primary).unwrap();
        let is_there = async || match submit(&store).await {
            Ok(id) => has(successor, id),
            Err(_) => false,
        };
        until(is_there).await;
        let before = &watched.servers[0];
        let info: String = before.command(&["INFO", "replication"]).unwrap();
        assert!(info.contains("role:master"), "it was made a replica: {info}");
        assert_eq!(store.check().await.unwrap(), []);
    });
}

/// Whether a server has a task.
fn has(server: &TestServer, id: TaskId) -> bool {
    let text = id.to_string().replace('-', "");
    // Its bytes, which are no text.
    let script = "return redis.call('HEXISTS', KEYS[1], (string.gsub(ARGV[1], '%x%x', \
                  function(byte) return string.char(tonumber(byte, 16)) end)))";
    server.command::<u32>(&["EVAL", script, "1", "{tasklane}:task", &text]).unwrap() == 1
}

#[test]
fn a_primary_that_does_not_know_of_its_successor_is_left_though_it_answers() {
    is_left_for_its_successor(0);
}

#[test]
fn a_primary_whose_replicas_have_gone_to_its_successor_is_left() {
    is_left_for_its_successor(1);
}

#[test]
fn sentinels_that_ask_for_a_user_are_told_one() {
    let more = "user default off\n\
                user watcher on >a-secret -@all +@connection +sentinel|get-master-addr-by-name\n";
    let watched = Watched::around(TestServer::start(&DURABLE).unwrap(), more);
    let address = format!("{}&sentinel_user=watcher", watched.address(0));
    run(async {
        let store = open(&format!("{address}&sentinel_password=a-secret"), Mode::Durable).await;
        submit(&store).await.unwrap();
        let guessed = format!("{address}&sentinel_password=guessed");
        let refused = RedisStore::open(&guessed, &options(Mode::Durable)).await.unwrap_err();
        assert!(!refused.to_string().contains("guessed"), "{refused}");
    });
}
