//! Servers that share a store on Redis.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use serde_json::{Value, json};
use tasklane_redis::test_server::TestServer;

use crate::client::{PATIENCE, call, eventually, try_call};
use crate::server::Server;

const PASSWORD: &str = "correct-horse";
const LOCKED: [&str; 2] = ["--requirepass", PASSWORD];
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
const ANYWHERE: &str = "127.0.0.1:0";

fn address(redis: &TestServer, password: &str) -> String {
    format!("redis://:{password}@127.0.0.1:{}/", redis.port())
}

fn redis(settings: &[&str]) -> TestServer {
    TestServer::start(&[&LOCKED, settings].concat()).unwrap()
}

#[test]
fn servers_share_a_store_and_never_show_its_password() {
    let redis = redis(&DURABLE);
    let start = || Server::start_on(ANYWHERE, &address(&redis, PASSWORD), &[]);
    let (one, other) = (start(), start());
    let id = one.submit(json!({"type": "a"}));
    assert_eq!(other.task(&id)["state"], "pending");
    let worker = json!({"capacity": 1});
    let (status, worker) = call(other.address, "POST", "/internal/workers/register", &worker);
    assert_eq!(status, 201, "{worker}");
    let path = format!("/internal/workers/{}", worker["worker_id"].as_str().unwrap());
    let poll = json!({"available_capacity": 1});
    let (_, polled) = call(other.address, "POST", &format!("{path}/poll"), &poll);
    let task = &polled["tasks"][0];
    assert_eq!(task["id"], id.as_str(), "{polled}");
    let result = json!({"task_id": id, "lease_token": task["lease_token"], "status": "completed"});
    let (status, settled) = call(one.address, "POST", &format!("{path}/result"), &result);
    assert_eq!((status, &settled["state"]), (200, &Value::from("completed")), "{settled}");
    for server in [&one, &other] {
        let log = Value::from(server.log()).to_string();
        assert!(log.contains("\"aof\"") && !log.contains(PASSWORD), "{log}");
    }
}

#[test]
fn a_server_that_could_lose_tasks_is_refused_without_its_password() {
    let redis = redis(&["--appendonly", "no"]);
    for (password, word) in [(PASSWORD, "appendonly yes"), ("guessed", "cannot open")] {
        let refused = Command::new(env!("CARGO_BIN_EXE_tasklane"))
            .args(["serve", "--listen", ANYWHERE, "--store", &address(&redis, password)])
            .output()
            .unwrap();
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && text.contains(word), "{text}");
        assert!(!text.contains(PASSWORD) && !text.contains("guessed"), "{text}");
    }
}

#[test]
fn memory_alone_is_enough_where_it_was_asked_for() {
    let redis = redis(&["--appendonly", "no"]);
    let server = Server::start_on(ANYWHERE, &address(&redis, PASSWORD), &["--durability", "none"]);
    server.submit(json!({"type": "a"}));
    let log = Value::from(server.log()).to_string();
    assert!(log.contains("\"memory\""), "{log}");
}

fn readiness(server: &Server) -> u16 {
    try_call(server.address, "GET", "/readyz", &Value::Null).map_or(0, |(status, _)| status)
}

/// The whole answer to a submission.
fn submission(address: SocketAddr) -> String {
    let body = json!({"type": "a"}).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /api/v1/tasks HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.to_lowercase()
}

#[test]
fn an_answer_waits_for_the_replica_and_says_so_where_it_is_silent() {
    let primary = redis(&DURABLE);
    let of = format!("127.0.0.1 {}", primary.port());
    let replica = redis(&["--masterauth", PASSWORD, "--replicaof", &of]);
    let store = format!("{}?replicas=1", address(&primary, PASSWORD));
    let log = || std::fs::read_to_string(replica.folder().join("log")).unwrap();
    eventually("the replica follows", || log().contains("Finished with success"));
    let server = Server::start_on(ANYWHERE, &store, &[]);
    let is_kept = || {
        let kept = submission(server.address);
        kept.starts_with("http/1.1 201 ") && kept.contains("\r\ndurability: aof\r\n")
    };
    eventually("the replica confirms", is_kept);
    replica.pause().unwrap();
    let unknown = submission(server.address);
    let problem = unknown.starts_with("http/1.1 503 ") && unknown.contains("\"outcome-unknown\"");
    assert!(problem, "{unknown}");
    assert_eq!(readiness(&server), 503);
    replica.resume().unwrap();
    eventually("it is ready again", || readiness(&server) == 200);
    eventually("the replica confirms again", is_kept);
}

#[test]
fn a_server_says_that_its_store_is_away_and_recovers_by_itself() {
    let redis = redis(&DURABLE);
    let server = Server::start_on(ANYWHERE, &address(&redis, PASSWORD), &[]);
    let id = server.submit(json!({"type": "a"}));
    assert_eq!(readiness(&server), 200);
    redis.kill().unwrap();
    eventually("it is not ready", || readiness(&server) == 503);
    let (status, problem) = call(server.address, "POST", "/api/v1/tasks", &json!({"type": "a"}));
    assert_eq!(status, 503, "{problem}");
    redis.begin().unwrap();
    eventually("it is ready again", || readiness(&server) == 200);
    assert_eq!(server.task(&id)["state"], "pending");
    server.submit(json!({"type": "a"}));
}
