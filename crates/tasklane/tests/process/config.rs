//! `tasklane config`, and a server that reads its configuration anew.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::call;
use crate::server::Server;

fn tasklane(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tasklane")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server with a file of its own.
fn serve(folder: &Path, config: &str) -> (Server, std::path::PathBuf) {
    let file = folder.join("tasklane.toml");
    std::fs::write(&file, config).unwrap();
    let server = Server::start(&folder.join("store"), &["--config", file.to_str().unwrap()]);
    (server, file)
}

fn reload(server: &Server) -> (u16, Value) {
    call(server.address, "POST", "/admin/reload", &Value::Null)
}

#[test]
fn check_says_what_is_wrong_and_what_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasklane.toml");
    let name = file.to_str().unwrap();
    std::fs::write(&file, "lease_ms = 5000\n\n[breaker]\nfailurs = 3\n").unwrap();
    let wrong = tasklane(&["config", "check", "--config", name]);
    assert_eq!(wrong.status.code(), Some(1));
    let said =
        format!("{name}:4: unknown setting breaker.failurs; did you mean breaker.failures?\n");
    assert_eq!(text(&wrong.stderr), said);
    // A server does not start with it either.
    let serving = tasklane(&["serve", "--config", name]);
    assert_eq!(serving.status.code(), Some(1));
    assert!(text(&serving.stderr).contains("did you mean breaker.failures?"));
    std::fs::write(&file, "lease_ms = 5000\n").unwrap();
    let right = tasklane(&["config", "check", "--config", name]);
    assert_eq!(right.status.code(), Some(0), "{}", text(&right.stderr));
    assert!(
        text(&right.stdout).starts_with("all is well; set by the file: 1, by the environment: 0")
    );
}

#[test]
fn the_default_file_is_right_and_print_shows_where_values_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasklane.toml");
    let default = tasklane(&["config", "default"]);
    std::fs::write(&file, [&default.stdout[..], b"\n[breaker]\ntrials = 9\n"].concat()).unwrap();
    let printed = Command::new(env!("CARGO_BIN_EXE_tasklane"))
        .args(["config", "print", "--lease-ms", "7000"])
        .env("TASKLANE_CONFIG", &file)
        .env("TASKLANE_LOG_LEVEL", "warn")
        .output()
        .unwrap();
    let printed = text(&printed.stdout);
    let origin = |line: &str| {
        let found = printed.lines().find(|shown| shown.starts_with(line)).unwrap_or("");
        found.split_once(" # ").map_or("", |(_, origin)| origin).to_owned()
    };
    assert_eq!(origin("lease_ms = 7000 "), "--lease-ms");
    assert_eq!(origin("level = \"warn\" "), "TASKLANE_LOG_LEVEL");
    let line = default.stdout.iter().filter(|byte| **byte == b'\n').count() + 3;
    assert_eq!(origin("trials = 9 "), format!("{}:{line}", file.display()));
    assert_eq!(origin("failures = 5 "), "default");
}

#[test]
fn a_file_counts_and_a_reload_applies_what_can_change() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        "[queues.mail]\npriority = \"high\"\nweight = 3\n[types.slow]\ntimeout_seconds = 77\n";
    let (server, file) = serve(folder.path(), config);
    let submitted = |task: Value| server.task(&server.submit(task));
    let task = submitted(json!({"type": "slow", "queue": "mail"}));
    assert_eq!((&task["priority"], &task["timeout_seconds"]), (&json!("high"), &json!(77)));
    let changed =
        "lease_ms = 9000\n[queues.mail]\npriority = \"low\"\n[limits]\npayload_bytes_max = 10\n";
    std::fs::write(&file, changed).unwrap();
    let (status, answer) = reload(&server);
    assert_eq!(status, 200, "{answer}");
    let applied = json!([
        "limits.payload_bytes_max",
        "queues.mail.priority",
        "queues.mail.weight",
        "types.slow.timeout_seconds"
    ]);
    assert_eq!(answer["applied"], applied);
    assert_eq!(answer["needs_restart"], json!(["lease_ms", "heartbeat_ms"]));
    let task = submitted(json!({"type": "slow", "queue": "mail"}));
    assert_eq!((&task["priority"], &task["timeout_seconds"]), (&json!("low"), &json!(900)));
    let large = json!({"type": "a", "payload": "more than ten"});
    assert_eq!(call(server.address, "POST", "/api/v1/tasks", &large).0, 413);
    let queue = call(server.address, "GET", "/admin/queues/mail", &Value::Null).1;
    assert_eq!((&queue["weight"], &queue["origins"]["weight"]), (&json!(1), &json!("default")));
}

#[test]
fn the_durability_that_is_set_is_the_one_that_counts() {
    let folder = tempfile::tempdir().unwrap();
    for (durability, shown) in [("fsync", "fsync"), ("interval", "interval"), ("none", "memory")] {
        let server = Server::start(&folder.path().join(durability), &["--durability", durability]);
        let health = call(server.address, "GET", "/admin/health", &Value::Null).1;
        assert_eq!(health["durability"], shown);
    }
}

#[test]
fn a_wrong_file_changes_nothing_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (server, file) = serve(folder.path(), "[limits]\npayload_bytes_max = 10\n");
    std::fs::write(&file, "[limits]\npayload_bytes_max = 1000\nbody_byte_max = 5000\n").unwrap();
    let (status, problem) = reload(&server);
    assert_eq!((status, &problem["type"]), (422, &json!("invalid-configuration")));
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.ends_with("did you mean limits.body_bytes_max?"), "{problem}");
    let large = json!({"type": "a", "payload": "more than ten"});
    assert_eq!(call(server.address, "POST", "/api/v1/tasks", &large).0, 413);
}

#[test]
fn a_hangup_reads_the_configuration_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (server, file) = serve(folder.path(), "");
    std::fs::write(&file, "[limits]\npayload_bytes_max = 10\n").unwrap();
    server.signal("HUP");
    let large = json!({"type": "a", "payload": "more than ten"});
    let asked = Instant::now();
    while call(server.address, "POST", "/api/v1/tasks", &large).0 != 413 {
        assert!(asked.elapsed() < Duration::from_secs(10), "it was not read");
    }
}

#[test]
fn every_reload_is_recorded_with_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (server, file) = serve(folder.path(), "");
    let records = || {
        let log = call(server.address, "GET", "/admin/audit?oldest_first=true", &Value::Null).1;
        let record = |record: &Value| {
            ["who", "action", "outcome"].map(|name| record[name].as_str().unwrap().to_owned())
        };
        log["records"].as_array().unwrap().iter().map(record).collect::<Vec<_>>()
    };
    let recorded = |count: usize| {
        let asked = Instant::now();
        while records().len() < count {
            assert!(asked.elapsed() < Duration::from_secs(10), "it was not recorded");
        }
    };
    server.signal("HUP");
    recorded(1);
    assert_eq!(reload(&server).0, 200);
    std::fs::write(&file, "nonsense = 1\n").unwrap();
    server.signal("HUP");
    recorded(3);
    assert_eq!(reload(&server).0, 422);
    let expected = [
        ["machine", "SIGHUP", "done"],
        ["anyone", "POST /admin/reload", "done"],
        ["machine", "SIGHUP", "invalid-configuration"],
        ["anyone", "POST /admin/reload", "invalid-configuration"],
    ];
    assert_eq!(records(), expected);
}

#[test]
fn a_reload_reads_the_keys_of_tokens_anew() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "the first secret has thirty-two bytes").unwrap();
    let config = format!(
        "auth = \"off\"\n[jwt]\nkey_file = {:?}\nalgorithm = \"HS256\"\nissuer = \"x\"\n",
        secret.to_str().unwrap()
    );
    let (server, file) = serve(folder.path(), &config);
    let check = || tasklane(&["config", "check", "--config", file.to_str().unwrap()]);
    assert!(check().status.success());
    assert_eq!(reload(&server).1["applied"], json!([]));
    std::fs::write(&secret, "the second secret has thirty-two bytes").unwrap();
    assert_eq!(reload(&server).1["applied"], json!(["jwt.key_file"]));
    std::fs::write(&secret, "short").unwrap();
    let (status, problem) = reload(&server);
    assert_eq!((status, &problem["type"]), (422, &json!("invalid-configuration")));
    let what = "holds a secret of less than 32 bytes";
    assert!(problem["detail"].as_str().unwrap().ends_with(what), "{problem}");
    assert!(text(&check().stderr).trim_end().ends_with(what));
}

#[test]
fn reloads_under_load_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (server, file) = serve(folder.path(), "");
    let address = server.address;
    let worker = call(address, "POST", "/internal/workers/register", &json!({"capacity": 100})).1;
    let base = format!("/internal/workers/{}", worker["worker_id"].as_str().unwrap());
    let (over, has_produced) = (AtomicBool::new(false), AtomicBool::new(false));
    let (submitted, completed) = std::thread::scope(|scope| {
        let produce = scope.spawn(|| {
            let ids = (0..).take_while(|_| !over.load(Ordering::Relaxed));
            ids.map(|_| server.submit(json!({"type": "a"}))).collect::<Vec<_>>()
        });
        let work = scope.spawn(|| {
            let mut completed = Vec::new();
            let mut idle = 0;
            while idle < 2 {
                let poll = json!({"available_capacity": 10, "wait_ms": 200});
                let (status, answer) = call(address, "POST", &format!("{base}/poll"), &poll);
                assert_eq!(status, 200, "{answer}");
                let tasks = answer["tasks"].as_array().unwrap();
                let is_last = has_produced.load(Ordering::SeqCst) && tasks.is_empty();
                idle = if is_last { idle + 1 } else { 0 };
                for task in tasks {
                    let report = json!({"task_id": task["id"], "lease_token": task["lease_token"],
                        "status": "completed"});
                    let (status, answer) =
                        call(address, "POST", &format!("{base}/result"), &report);
                    assert_eq!(status, 200, "{answer}");
                    completed.push(task["id"].as_str().unwrap().to_owned());
                }
            }
            completed
        });
        for round in 1..=50 {
            let config =
                format!("[breaker]\nfailures = {round}\n[queues.default]\nweight = {round}\n");
            std::fs::write(&file, config).unwrap();
            // In turns by a call and by a signal, after which one has to look.
            if round % 2 == 0 {
                let (status, answer) = reload(&server);
                assert_eq!(status, 200, "{answer}");
                assert_eq!(answer["applied"], json!(["breaker.failures", "queues.default.weight"]));
                continue;
            }
            server.signal("HUP");
            let asked = Instant::now();
            let weight =
                || call(address, "GET", "/admin/queues/default", &Value::Null).1["weight"].clone();
            while weight() != round {
                assert!(asked.elapsed() < Duration::from_secs(10), "it was not read");
            }
        }
        over.store(true, Ordering::Relaxed);
        let submitted = produce.join();
        has_produced.store(true, Ordering::SeqCst);
        (submitted.unwrap(), work.join().unwrap())
    });
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert!(!submitted.is_empty());
    assert_eq!(sorted(submitted), sorted(completed));
    let queue = call(address, "GET", "/admin/queues/default", &Value::Null).1;
    assert_eq!(queue["weight"], 50);
}
