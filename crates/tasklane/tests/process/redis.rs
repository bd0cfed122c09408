//! Servers that share a store on Redis.

use std::process::Command;

use serde_json::{Value, json};
use tasklane_redis::test_server::TestServer;

use crate::client::{call, eventually, try_call};
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

#[test]
fn a_server_says_that_its_store_is_away_and_recovers_by_itself() {
    let redis = redis(&DURABLE);
    let server = Server::start_on(ANYWHERE, &address(&redis, PASSWORD), &[]);
    let id = server.submit(json!({"type": "a"}));
    let ready =
        || try_call(server.address, "GET", "/readyz", &Value::Null).map(|(status, _)| status);
    assert_eq!(ready().unwrap(), 200);
    redis.kill().unwrap();
    eventually("it is not ready", || ready().is_ok_and(|status| status == 503));
    let (status, problem) = call(server.address, "POST", "/api/v1/tasks", &json!({"type": "a"}));
    assert_eq!(status, 503, "{problem}");
    redis.begin().unwrap();
    eventually("it is ready again", || ready().is_ok_and(|status| status == 200));
    assert_eq!(server.task(&id)["state"], "pending");
    server.submit(json!({"type": "a"}));
}
