//! Servers on one PostgreSQL database.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use serde_json::{Value, json};
use tasklane_postgres::test_server::{Care, TestServer};

use crate::client::{PATIENCE, call, eventually, try_call};
use crate::server::Server;

const ANYWHERE: &str = "127.0.0.1:0";

/// The database of most tests. It stays up.
fn database() -> &'static TestServer {
    static DATABASE: OnceLock<TestServer> = OnceLock::new();
    DATABASE.get_or_init(|| TestServer::start(Care::Fast).unwrap())
}

fn tasklane(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tasklane")).args(arguments).output().unwrap()
}

fn register(server: &Server) -> String {
    let (status, worker) =
        call(server.address, "POST", "/internal/workers/register", &json!({"capacity": 10}));
    assert_eq!(status, 201, "{worker}");
    format!("/internal/workers/{}", worker["worker_id"].as_str().unwrap())
}

/// Tasks claimed by a worker.
fn poll(server: &Server, worker: &str, count: u64) -> Vec<Value> {
    let body = json!({"available_capacity": count});
    let (status, polled) = call(server.address, "POST", &format!("{worker}/poll"), &body);
    assert_eq!(status, 200, "{polled}");
    polled["tasks"].as_array().unwrap().clone()
}

fn completion(task: &Value) -> Value {
    json!({"task_id": task["id"], "lease_token": task["lease_token"], "status": "completed"})
}

fn is_ready(server: &Server) -> bool {
    try_call(server.address, "GET", "/readyz", &Value::Null).is_ok_and(|(status, _)| status == 200)
}

#[test]
fn a_task_goes_through_several_servers() {
    let store = database().new_database().unwrap();
    let [one, two, three] = [0; 3].map(|_| Server::start_on(ANYWHERE, &store, &[]));
    let id = one.submit(json!({"type": "a", "payload": {"n": 1}}));
    let worker = register(&two);
    let held = poll(&three, &worker, 1);
    assert_eq!(held[0]["id"], id.as_str());
    let (status, settled) =
        call(two.address, "POST", &format!("{worker}/result"), &completion(&held[0]));
    assert_eq!((status, &settled["state"]), (200, &json!("completed")), "{settled}");
    assert_eq!(one.task(&id)["state"], "completed");
}

#[test]
fn a_poll_on_one_server_is_served_by_a_submission_on_another() {
    let store = database().new_database().unwrap();
    let [one, two] = [0; 2].map(|_| Server::start_on(ANYWHERE, &store, &[]));
    let worker = register(&one);
    let body = json!({"available_capacity": 1, "wait_ms": 20_000});
    let path = format!("{worker}/poll");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| call(one.address, "POST", &path, &body));
        eventually("the poll waits", || {
            let (_, health) = call(one.address, "GET", "/admin/health", &Value::Null);
            health["parked_polls"] == 1
        });
        let id = two.submit(json!({"type": "a"}));
        let (_, polled) = waiting.join().unwrap();
        assert_eq!(polled["tasks"][0]["id"], id.as_str());
    });
}

#[test]
fn the_password_is_shown_nowhere() {
    let store = format!("{}&password=hunter2", database().new_database().unwrap());
    let server = Server::start_on(ANYWHERE, &store, &["--log-level", "trace"]);
    server.submit(json!({"type": "a"}));
    let log = Value::from(server.log()).to_string();
    assert!(log.contains("password=********"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
    let elsewhere = store.replace("user=postgres", "user=nobody");
    for arguments in [
        vec!["config", "print", "--store", &store],
        vec!["check", "--store", &store],
        vec!["keys", "list", "--store", &store],
        vec!["serve", "--listen", ANYWHERE, "--store", &elsewhere],
        vec!["serve", "--listen", "0.0.0.0:0", "--store", &store],
    ] {
        let output = tasklane(&arguments);
        let said = format!("{output:?}");
        assert!(!said.contains("hunter2"), "{arguments:?}: {said}");
    }
}

#[test]
fn operators_work_on_the_store_beside_its_servers() {
    let store = database().new_database().unwrap();
    let server = Server::start_on(ANYWHERE, &store, &[]);
    server.submit(json!({"type": "a"}));
    let checked = tasklane(&["check", "--store", &store]);
    assert!(checked.status.success(), "{checked:?}");
    let made = tasklane(&["keys", "bootstrap", "--store", &store]);
    assert!(made.status.success(), "{made:?}");
    let listed = tasklane(&["keys", "list", "--store", &store]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("admin"), "{listed:?}");
    let copied = tasklane(&["backup", "copy.db", "--store", &store]);
    assert!(String::from_utf8_lossy(&copied.stderr).contains("pg_dump"), "{copied:?}");
}

#[test]
fn a_program_older_than_the_tables_says_so() {
    let store = database().new_database().unwrap();
    drop(Server::start_on(ANYWHERE, &store, &[]));
    let name = store.trim_start_matches("postgres:///").split('?').next().unwrap();
    let newer = "UPDATE tasklane.meta SET value = 99 WHERE name = 'version'";
    database().sql(name, newer).unwrap();
    let refused = tasklane(&["serve", "--listen", ANYWHERE, "--store", &store]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("use a newer program"), "{said}");
}

#[test]
fn servers_recover_by_themselves_when_the_database_comes_back() {
    let database = TestServer::start(Care::Durable).unwrap();
    let store = database.new_database().unwrap();
    let server = Server::start_on(ANYWHERE, &store, &[]);
    let id = server.submit(json!({"type": "a"}));
    for crash in [true, false] {
        assert!(is_ready(&server));
        if crash {
            database.crash().unwrap()
        } else {
            database.stop().unwrap()
        }
        eventually("the server says that it is not ready", || !is_ready(&server));
        let task = json!({"type": "a"});
        let (status, refused) = call(server.address, "POST", "/api/v1/tasks", &task);
        assert_eq!((status, &refused["type"]), (503, &json!("store-unavailable")), "{refused}");
        database.begin().unwrap();
        eventually("the server is ready again", || is_ready(&server));
        assert_eq!(server.task(&id)["state"], "pending");
        server.submit(json!({"type": "a"}));
    }
}

#[test]
fn who_locks_one_task_delays_only_what_concerns_it() {
    let store = database().new_database().unwrap();
    let server = Server::start_on(ANYWHERE, &store, &[]);
    for _ in 0..8 {
        server.submit(json!({"type": "a"}));
    }
    let worker = register(&server);
    let held = poll(&server, &worker, 8);
    let name = store.trim_start_matches("postgres:///").split('?').next().unwrap();
    let stranger = Stranger::locks(name, held[3]["id"].as_str().unwrap());
    let (address, path) = (server.address, &format!("{worker}/result"));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let settles: Vec<_> = held
            .iter()
            .map(|task| scope.spawn(move || call(address, "POST", path, &completion(task))))
            .collect();
        for (number, settle) in settles.into_iter().enumerate() {
            let (status, settled) = settle.join().unwrap();
            match number {
                3 => assert_eq!((status, &settled["type"]), (503, &json!("overloaded"))),
                _ => assert_eq!(status, 200, "{settled}"),
            }
        }
    });
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    drop(stranger);
    let (status, settled) = call(address, "POST", path, &completion(&held[3]));
    assert_eq!(status, 200, "{settled}");
}

#[test]
fn a_task_asked_for_in_an_applications_own_transaction_is_done() {
    let store = database().new_database().unwrap();
    let server = Server::start_on(ANYWHERE, &store, &[]);
    let name = store.trim_start_matches("postgres:///").split('?').next().unwrap();
    let outbox = "CREATE TABLE orders(id int PRIMARY KEY); BEGIN; INSERT INTO orders VALUES (1);
                  SELECT tasklane.submit('order.confirm', '{\"order\": 1}', priority => 'high');
                  COMMIT";
    let id = database().sql(name, outbox).unwrap();
    let found = || call(server.address, "GET", &format!("/api/v1/tasks/{id}"), &Value::Null);
    eventually("it is admitted", || found().0 == 200);
    let worker = register(&server);
    let held = poll(&server, &worker, 1);
    assert_eq!(held[0]["payload"], json!({"order": 1}));
    let (status, _) =
        call(server.address, "POST", &format!("{worker}/result"), &completion(&held[0]));
    assert_eq!(status, 200);
    // What no server would take is told where failures are.
    let refused = "SELECT tasklane.submit('a', expires_at => '2001-01-01')";
    let id = database().sql(name, refused).unwrap();
    let path = format!("/api/v1/tasks/{id}");
    eventually("it is refused", || call(server.address, "GET", &path, &Value::Null).0 == 200);
    let task = server.task(&id);
    assert_eq!(task["state"], "dead_letter");
    assert_eq!(task["reason"], "refused");
    assert!(task["error"]["message"].as_str().unwrap().contains("expires_at"), "{task}");
}

/// Somebody who holds a task's row in a transaction of their own.
struct Stranger(std::process::Child);

impl Stranger {
    fn locks(database: &str, task: &str) -> Self {
        let mut session = self::database().session(database).unwrap();
        session.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = session.spawn().unwrap();
        let lock =
            format!("BEGIN; SELECT 'locked' FROM tasklane.task WHERE id = '{task}' FOR UPDATE;\n");
        child.stdin.as_mut().unwrap().write_all(lock.as_bytes()).unwrap();
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        assert_eq!(line.trim(), "locked");
        Self(child)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // Its input ends, and so does its transaction.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
