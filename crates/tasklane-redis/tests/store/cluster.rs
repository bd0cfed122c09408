//! A cluster of three nodes: each store is on one of them, and is found there.

use std::sync::OnceLock;
use std::time::Duration;

use tasklane_core::StateName;
use tasklane_redis::test_server::{TestServer, free_port};
use tasklane_redis::{Mode, Options, RedisStore};
use tasklane_store::Store;

use crate::work::{LONG, open, options, run, submit, until};

tasklane_store::conformance_suite!(crate::fixture::OnRedis::in_cluster);

const SLOTS: u32 = 16_384;

pub(crate) struct Cluster {
    nodes: Vec<TestServer>,
}

/// The cluster that tests share, each in a namespace of its own.
pub(crate) fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(Cluster::start)
}

impl Cluster {
    fn start() -> Self {
        let node = || {
            let bus = free_port().unwrap().to_string();
            let settings = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            let node = TestServer::start(&settings).unwrap();
            (node, bus)
        };
        let nodes: Vec<_> = (0..3).map(|_| node()).collect();
        for (number, (node, bus)) in (0..).zip(&nodes) {
            let first = (SLOTS * number / 3).to_string();
            let last = (SLOTS * (number + 1) / 3 - 1).to_string();
            node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).unwrap();
            let epoch = (number + 1).to_string();
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).unwrap();
            let port = node.port().to_string();
            nodes[0].0.command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, bus]).unwrap();
        }
        let nodes: Vec<_> = nodes.into_iter().map(|(node, _)| node).collect();
        let begun = std::time::Instant::now();
        for node in &nodes {
            let ready = || {
                let info: String = node.command(&["CLUSTER", "INFO"]).unwrap();
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            };
            while !ready() {
                assert!(begun.elapsed() < LONG, "the cluster does not come together");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
        Self { nodes }
    }

    pub(crate) fn address(&self) -> String {
        let [one, two, three] = [0, 1, 2].map(|node| self.nodes[node].port());
        format!("redis+cluster://127.0.0.1:{one},127.0.0.1:{two},127.0.0.1:{three}/")
    }
}

#[test]
fn a_store_that_moves_to_another_node_is_followed() {
    let cluster = shared();
    let slot: u32 = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", "{moving}:meta"]).unwrap();
    let (slot_text, from) = (slot.to_string(), (slot * 3 / SLOTS) as usize);
    let (from, to) = (&cluster.nodes[from], &cluster.nodes[(from + 1) % 3]);
    let id = |node: &TestServer| node.command::<String>(&["CLUSTER", "MYID"]).unwrap();
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
    let cluster = Cluster::start();
    let slot: u32 = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", "{silent}:meta"]).unwrap();
    let holder = (slot * 3 / SLOTS) as usize;
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
