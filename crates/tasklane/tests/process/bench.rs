//! `tasklane bench` against real servers.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::cli::first_key;
use crate::client::call;
use crate::server::Server;

fn bench(url: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tasklane"))
        .arg("bench")
        .args(more)
        .args(["--server", url])
        .env_remove("TASKLANE_API_KEY")
        .output()
        .unwrap()
}

/// The report of a run that went well.
fn report(server: &Server, more: &[&str]) -> Value {
    let output = bench(&url(server), &[more, &["-o", "json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

/// What waits in a queue, by priority.
fn depths(server: &Server, queue: &str) -> [u64; 4] {
    let path = format!("/api/v1/queue/stats?queue={queue}");
    let (status, stats) = call(server.address, "GET", &path, &Value::Null);
    if status == 404 {
        // Nothing has ever gone there.
        return [0; 4];
    }
    let queues = &stats["queues"];
    ["critical", "high", "normal", "low"].map(|word| queues[word]["depth"].as_u64().unwrap())
}

fn workers(server: &Server) -> usize {
    let (_, page) = call(server.address, "GET", "/admin/workers", &Value::Null);
    page["workers"].as_array().unwrap().len()
}

#[test]
fn tasks_go_to_a_queue_of_their_own_and_workers_leave_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let seen = report(&server, &["submit", "--tasks", "500", "--connections", "4"]);
    let measure = &seen["measures"][0];
    assert_eq!((&measure["tasks"], &measure["calls"]), (&json!(500), &json!(500)), "{seen}");
    assert_eq!((&measure["refused"], &measure["wrong"]), (&json!(0), &json!(0)), "{seen}");
    let latency = &measure["latency_ms"];
    let at = |name: &str| latency[name].as_f64().unwrap();
    assert!(0.0 < at("p50") && at("p50") <= at("p99") && at("p99") <= at("longest"), "{seen}");
    let shared = measure["distribution"].as_array().unwrap().iter();
    assert_eq!(shared.map(|step| step[1].as_u64().unwrap()).sum::<u64>(), 500);
    assert_eq!(seen["left"], json!({"queue": "bench", "waiting": 500, "ended": 0}));
    assert_eq!(depths(&server, "bench"), [0, 0, 500, 0]);

    let drain = ["drain", "--filled", "--tasks", "500", "--batch", "10", "--workers", "3"];
    let seen = report(&server, &drain);
    assert_eq!(seen["measures"][0]["tasks"], 500, "{seen}");
    assert_eq!(seen["left"], json!({"queue": "bench", "waiting": 0, "ended": 500}));
    assert_eq!((depths(&server, "bench"), workers(&server)), ([0; 4], 0));
}

#[test]
fn batches_are_mixed_by_priority_and_cleaned_away() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let batches = ["submit", "--tasks", "1000", "--batch", "100", "--queue", "mine"];
    let seen = report(&server, &[&batches[..], &["--priority", "high=1,low=3"]].concat());
    assert_eq!(
        (&seen["measures"][0]["tasks"], &seen["measures"][0]["calls"]),
        (&json!(1_000), &json!(10))
    );
    assert_eq!(depths(&server, "mine"), [0, 250, 0, 750]);
    assert_eq!(depths(&server, "bench"), [0; 4]);
    let cleaned = bench(&url(&server), &["clean", "--queue", "mine"]);
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert!(
        String::from_utf8_lossy(&cleaned.stderr).contains("Cancelled 1000 tasks"),
        "{cleaned:?}"
    );
    assert_eq!(depths(&server, "mine"), [0; 4]);
}

#[test]
fn every_task_sent_at_a_rate_is_followed_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let seen = report(&server, &["latency", "--rate", "100", "--seconds", "1", "--events"]);
    let measures = seen["measures"].as_array().unwrap();
    let names: Vec<_> = measures.iter().map(|measure| measure["name"].as_str().unwrap()).collect();
    let expected = ["answer at 100/s", "pickup at 100/s", "completion at 100/s", "events at 100/s"];
    assert_eq!(names, expected);
    for measure in measures {
        // One is due every 10 ms until a second is over, however late any of them was sent.
        assert_eq!((&measure["tasks"], &measure["wrong"]), (&json!(99), &json!(0)), "{measure}");
    }
    assert_eq!((seen["left"]["waiting"].as_u64(), workers(&server)), (Some(0), 0));
}

#[test]
fn what_is_left_is_what_the_server_has() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    for scenario in ["end-to-end", "overload"] {
        let few = ["--connections", "4", "--workers", "2", "--seconds", "2", "--queue", scenario];
        let seen = report(&server, &[&[scenario][..], &few].concat());
        let names: Vec<_> =
            seen["measures"].as_array().unwrap().iter().map(|one| &one["tasks"]).collect();
        assert!(names.iter().all(|tasks| tasks.as_u64() > Some(0)), "{seen}");
        let waiting: u64 = depths(&server, scenario).iter().sum();
        assert_eq!(seen["left"]["waiting"].as_u64(), Some(waiting), "{seen}");
        assert_eq!(workers(&server), 0);
    }
}

#[test]
fn refusals_under_load_are_counted_by_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.submit(json!({"type": "a", "queue": "bench"}));
    let limits = json!({"depth_limits": {"normal": 50, "high": 60, "all": 70}});
    let (status, queue) = call(server.address, "PATCH", "/admin/queues/bench", &limits);
    assert_eq!(status, 200, "{queue}");
    let seen = report(&server, &["submit", "--tasks", "100", "--connections", "1"]);
    let measure = &seen["measures"][0];
    assert_eq!((&measure["tasks"], &measure["refused"]), (&json!(49), &json!(51)), "{seen}");
    assert_eq!(measure["answers"], json!({"429 queue-full": 51}), "{seen}");
    let output = bench(&url(&server), &["submit", "--tasks", "5"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("refused 5, wrong 0") && text.contains("5 × 429 queue-full"), "{text}");
}

#[test]
fn people_get_a_chart_and_scripts_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let output = bench(&url(&server), &["submit", "--tasks", "200", "--connections", "2"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("200 tasks in ") && text.contains("█"), "{text}");
    assert!(text.contains("200 tasks wait in the queue bench"), "{text}");
    let output = bench(&url(&server), &["submit", "--tasks", "200", "-o", "line"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("submit by 1: tasks=200 calls=200 per_second="), "{text}");
}

#[test]
fn what_cannot_be_measured_says_so_by_its_exit_code() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(bench(&gone, &["submit"]).status.code(), Some(4));
    for wrong in [&["submit", "--queue", "a{b"][..], &["submit", "--priority", "urgent"]] {
        assert_eq!(bench(&gone, wrong).status.code(), Some(2), "{wrong:?}");
    }
    let below = bench(&format!("{gone}/below"), &["submit"]);
    assert_eq!(below.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&below.stderr).contains("not for a path"), "{below:?}");
    let folder = tempfile::tempdir().unwrap();
    let key = first_key(folder.path());
    let server = Server::start(folder.path(), &[]);
    let refused = bench(&url(&server), &["submit"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("401 unauthenticated"), "{text}");
    let taken = Command::new(env!("CARGO_BIN_EXE_tasklane"))
        .args(["bench", "end-to-end", "--seconds", "0.1", "--server", &url(&server)])
        .env("TASKLANE_API_KEY", key)
        .output()
        .unwrap();
    assert!(taken.status.success(), "{taken:?}");
}
