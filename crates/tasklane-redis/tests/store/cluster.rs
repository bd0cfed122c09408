//! A cluster of three nodes: each store is on one of them, and is found there.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tasklane_core::StateName;
use tasklane_redis::test_server::{TestServer, free_port};
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::Store;

use crate::traffic::{Told, judge, produce, repeat_what_is_over, work};
use crate::work::{DURABLE, LONG, open, options, run, submit, until};

tasklane_store::conformance_suite!(crate::fixture::OnRedis::in_cluster);

const SLOTS: u32 = 16_384;

pub(crate) struct Cluster {
    nodes: Vec<TestServer>,
}

/// The cluster that tests share, each in a namespace of its own.
pub(crate) fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(&[]))
}

impl Cluster {
    fn start(settings: &[&str]) -> Self {
        let nodes: Vec<_> = (0..3).map(|_| node(settings)).collect();
        for (number, (node, bus)) in (0..).zip(&nodes) {
            let first = (SLOTS * number / 3).to_string();
            let last = (SLOTS * (number + 1) / 3 - 1).to_string();
            node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).unwrap();
            let epoch = (number + 1).to_string();
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).unwrap();
            meet(&nodes[0].0, node, bus);
        }
        let nodes: Vec<_> = nodes.into_iter().map(|(node, _)| node).collect();
        let ready = |node: &TestServer| {
            let info: String = node.command(&["CLUSTER", "INFO"]).unwrap();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        await_all(&nodes, ready);
        Self { nodes }
    }

    /// Adds a replica of a node.
    fn add_replica(&mut self, of: usize, settings: &[&str]) {
        let (replica, bus) = node(settings);
        let of = &self.nodes[of];
        meet(of, &replica, &bus);
        let id = id(of);
        let knows = |node: &TestServer| {
            let known: String = node.command(&["CLUSTER", "NODES"]).unwrap();
            known.contains(&id) && known.lines().count() == 4 && !known.contains("handshake")
        };
        await_all(self.nodes.iter().chain([&replica]), knows);
        replica.command::<()>(&["CLUSTER", "REPLICATE", &id]).unwrap();
        await_all([&replica], |node| {
            let info: String = node.command(&["INFO", "replication"]).unwrap();
            info.contains("master_link_status:up")
        });
        self.nodes.push(replica);
    }

    /// Which node holds what is named so.
    fn holder(&self, key: &str) -> usize {
        let slot: u32 = self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]).unwrap();
        (slot * 3 / SLOTS) as usize
    }

    pub(crate) fn nodes(&self) -> &[TestServer] {
        &self.nodes
    }

    pub(crate) fn address(&self) -> String {
        let [one, two, three] = [0, 1, 2].map(|node| self.nodes[node].port());
        format!("redis+cluster://127.0.0.1:{one},127.0.0.1:{two},127.0.0.1:{three}/")
    }
}

/// A node, and the port that others know it by.
fn node(settings: &[&str]) -> (TestServer, String) {
    let bus = free_port().unwrap().to_string();
    let own = ["--cluster-enabled", "yes", "--cluster-port", &bus];
    (TestServer::start(&[&own, settings].concat()).unwrap(), bus)
}

fn meet(node: &TestServer, other: &TestServer, bus: &str) {
    let port = other.port().to_string();
    node.command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, bus]).unwrap();
}

fn id(node: &TestServer) -> String {
    node.command(&["CLUSTER", "MYID"]).unwrap()
}

fn await_all<'a>(
    nodes: impl IntoIterator<Item = &'a TestServer>,
    so: impl Fn(&TestServer) -> bool,
) {
    let begun = Instant::now();
    for node in nodes {
        while !so(node) {
            assert!(begun.elapsed() < LONG, "the cluster does not come together");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_store_that_moves_to_another_node_is_followed() {
    let cluster = shared();
    let slot: u32 = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", "{moving}:meta"]).unwrap();
    let (slot_text, from) = (slot.to_string(), (slot * 3 / SLOTS) as usize);
    let (from, to) = (&cluster.nodes[from], &cluster.nodes[(from + 1) % 3]);
    let set = |node: &TestServer, what: &str, other: &str| {
        node.command::<()>(&["CLUSTER", "SETSLOT", &slot_text, what, other]).unwrap();
    };
    run(async {
        let address = format!("{}?namespace=moving", cluster.address());
        let store = open(&address, Mode::Fast).await;
        let first = submit(&store).await.unwrap();
        set(to, "IMPORTING", &id(from));
        set(from, "MIGRATING", &id(to));
        let names = ["CLUSTER", "GETKEYSINSLOT", &slot_text, "1000"];
        let port = to.port().to_string();
        for key in from.command::<Vec<String>>(&names).unwrap() {
            from.command::<()>(&["MIGRATE", "127.0.0.1", &port, &key, "0", "60000"]).unwrap();
        }
        for node in [to, from] {
            set(node, "NODE", &id(to));
        }
        until(async || submit(&store).await.is_ok()).await;
        until(async || store.get(vec![first]).await.is_ok_and(|found| found[0].is_some())).await;
        assert_eq!(store.stats().await.unwrap().total(StateName::Pending), 2);
        assert_eq!(store.check().await.unwrap(), []);
    });
}

#[test]
fn a_node_that_is_silent_leaves_time_to_the_others() {
    let cluster = Cluster::start(&[]);
    let holder = cluster.holder("{silent}:meta");
    let (holder, silent) = (&cluster.nodes[holder], &cluster.nodes[(holder + 1) % 3]);
    silent.pause().unwrap();
    let (first, second) = (silent.port(), holder.port());
    let address = format!("redis+cluster://127.0.0.1:{first},127.0.0.1:{second}/?namespace=silent");
    // The others take it for gone after 15 s, and would then serve nobody.
    let options = Options { connect_time_max: Duration::from_secs(8), ..options(Mode::Fast) };
    run(async {
        let store = RedisStore::open(&address, &options).await.unwrap();
        submit(&store).await.unwrap();
    });
}

#[test]
fn a_node_that_is_killed_is_replaced_by_its_replica_and_nothing_answered_is_lost() {
    let settings = [&DURABLE[..], &["--cluster-node-timeout", "2000"]].concat();
    let mut cluster = Cluster::start(&settings);
    let holder = cluster.holder("{kept}:meta");
    cluster.add_replica(holder, &settings);
    let (killed, replica) = (&cluster.nodes[holder], &cluster.nodes[3]);
    let bound = Duration::from_secs(5);
    let options =
        Options { command_time_max: bound, connect_time_max: bound, ..options(Mode::Durable) };
    run(async {
        let address = format!("{}?namespace=kept&replicas=1", cluster.address());
        let store = RedisStore::open(&address, &options).await.unwrap();
        let told = Told::default();
        let kill = async {
            told.more(20).await;
            killed.kill().unwrap();
            let role = || replica.command::<String>(&["INFO", "replication"]).unwrap();
            until(async || role().contains("role:master")).await;
            // Until it is back, as a replica, nobody confirms.
            killed.begin().unwrap();
            told.more(20).await;
            repeat_what_is_over(&store, &told).await;
            told.end();
        };
        let produce = async || produce(&store, &told, 1).await;
        tokio::join!(kill, produce(), produce(), work(&store, &told, 10));
        judge(&store, &told).await;
    });
}
