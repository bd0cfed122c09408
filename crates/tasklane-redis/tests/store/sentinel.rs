//! Sentinels: one primary, two replicas, and the primary is killed again and again.

use std::time::Duration;

use tasklane_redis::test_server::TestServer;
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::StoreError;
use tempfile::TempDir;

use crate::durable::replica_of;
use crate::traffic::{Lost, Told, lost, produce, repeat_what_is_over, work};
use crate::work::{DURABLE, options, run, submit, until};

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
        let primary = TestServer::start(&DURABLE).unwrap();
        let replicas = (0..REPLICAS).map(|_| replica_of(&primary, &DURABLE)).collect::<Vec<_>>();
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
