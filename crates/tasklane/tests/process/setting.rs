//! What is set counts: a server with a file of settings does as they say. Which setting is shown by
//! which test is told in `src/config/tests/exercised.rs`.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{call, eventually};
use crate::server::Server;

const WITHIN: Duration = Duration::from_secs(20);

/// A server with a file of its own, and one worker.
struct Site {
    server: Server,
    worker: String,
    folder: TempDir,
}

impl Site {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tasklane.toml");
        std::fs::write(&file, config).unwrap();
        let store = folder.path().join("store");
        let server = Server::start(&store, &["--config", file.to_str().unwrap()]);
        let mut site = Self { server, worker: String::new(), folder };
        site.worker = site.register()["worker_id"].as_str().unwrap().to_owned();
        site
    }

    fn register(&self) -> Value {
        self.post("/internal/workers/register", &json!({"capacity": 100}))
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        call(self.server.address, method, path, body)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call("POST", path, body);
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    fn worker_path(&self, call: &str) -> String {
        format!("/internal/workers/{}/{call}", self.worker)
    }

    fn poll(&self, more: &Value) -> Vec<Value> {
        let mut poll = json!({"available_capacity": 1});
        poll.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.post(&self.worker_path("poll"), &poll);
        answer["tasks"].as_array().unwrap().clone()
    }

    /// The one task that is there to be claimed, sooner or later.
    fn claim(&self) -> Value {
        let tasks = self.poll(&json!({"wait_ms": 20_000}));
        assert_eq!(tasks.len(), 1);
        tasks[0].clone()
    }

    fn settle(&self, claimed: &Value, status: &str, more: &Value) -> Value {
        let mut report = json!({"task_id": claimed["id"], "lease_token": claimed["lease_token"],
            "status": status});
        report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post(&self.worker_path("result"), &report)
    }

    fn fail(&self, claimed: &Value, error: &Value) -> Value {
        let mut failure = json!({"message": "no"});
        failure.as_object_mut().unwrap().extend(error.as_object().unwrap().clone());
        self.settle(claimed, "failed", &json!({"error": failure}))
    }

    /// Submits a task and has the worker claim it.
    fn claimed(&self, task: &Value) -> Value {
        let mut task = task.clone();
        task.as_object_mut().unwrap().entry("type").or_insert(json!("a"));
        self.server.submit(task);
        self.claim()
    }

    /// Has the file changed and read anew.
    fn configure(&self, config: &str) {
        std::fs::write(self.folder.path().join("tasklane.toml"), config).unwrap();
        self.post("/admin/reload", &Value::Null);
    }

    fn eventually(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        eventually(what, || holds(self));
    }

    fn is_gone(&self, path: &str) -> bool {
        self.call("GET", path, &Value::Null).0 == 404
    }
}

/// How tasks are treated, for one section.
fn policy(section: &str) -> String {
    format!(
        "[{section}]\nmax_retries = 7\ntimeout_seconds = 77\ndead_letter = false\n\
         [{section}.retry]\nstrategy = \"linear\"\ninitial_seconds = 500\nfactor = 3.0\n\
         max_seconds = 600\njitter = \"none\"\n"
    )
}

#[test]
fn policies_of_priorities_queues_and_types_count_for_their_tasks() {
    let sections = ["priorities.low", "queues.mail", "types.slow"].map(policy).join("");
    let first = "[breaker]\nfailures = 1000\n[queues.first]\npriority = \"critical\"\n[types.urgent]\npriority = \"high\"\n";
    let site = Site::new(&format!("{sections}{first}"));
    for task in [json!({"priority": "low"}), json!({"queue": "mail"}), json!({"type": "slow"})] {
        let claimed = site.claimed(&task);
        assert_eq!(claimed["timeout_seconds"], 77, "{task}");
        let retrying = site.fail(&claimed, &json!({"kind": "transient"}));
        assert_eq!(retrying["state"], "retrying", "{task}");
        let shown = site.server.task(claimed["id"].as_str().unwrap());
        assert_eq!(shown["max_retries"], 7, "{task}");
        let retry = json!({"strategy": "linear", "initial_seconds": 500, "factor": 3.0,
            "max_seconds": 600, "jitter": "none"});
        assert_eq!(shown["retry"], retry, "{task}");
        let again = site.claimed(&task);
        assert_eq!(site.fail(&again, &json!({"kind": "bug"}))["state"], "failed", "{task}");
    }
    let priority = |task: Value| site.server.task(&site.server.submit(task))["priority"].clone();
    assert_eq!(priority(json!({"type": "a", "queue": "first"})), "critical");
    assert_eq!(priority(json!({"type": "urgent"})), "high");
}

#[test]
fn a_retry_comes_when_the_policy_says() {
    let section = |name: &str, retry: &str| {
        format!("[types.{name}.retry]\njitter = \"none\"\ninitial_seconds = 100\n{retry}\n")
    };
    let site = Site::new(
        &[
            "[breaker]\nfailures = 1000\n".to_owned(),
            section("fixed", "strategy = \"fixed\""),
            section("steep", "factor = 10.0\nmax_seconds = 5000"),
            section("capped", "factor = 10.0\nmax_seconds = 300"),
            section("blurred", "jitter = \"full\"").replacen("jitter = \"none\"\n", "", 1),
        ]
        .concat(),
    );
    // After the second failure: the worker's own wish is for the first delay alone.
    let second_delay = |task_type: &str| {
        let claimed = site.claimed(&json!({"type": task_type}));
        let error = json!({"message": "no", "kind": "transient"});
        let soon = json!({"error": error, "retry_after_seconds": 0.001});
        site.settle(&claimed, "failed", &soon);
        let answer = site.fail(&site.claim(), &json!({"kind": "transient"}));
        let due: String = answer["next_retry_at"].as_str().unwrap().to_owned();
        let shown = site.get("/admin/health");
        seconds_between(shown["now"].as_str().unwrap(), &due)
    };
    let near = |seconds: f64, expected: f64| (expected - 15.0..=expected + 1.0).contains(&seconds);
    for (task_type, expected) in [("fixed", 100.0), ("steep", 1_000.0), ("capped", 300.0)] {
        let delay = second_delay(task_type);
        assert!(near(delay, expected), "{task_type}: {delay}");
    }
    assert!(second_delay("blurred") <= 200.0);
}

fn seconds_between(from: &str, to: &str) -> f64 {
    let seconds = |time: &str| {
        let said = Command::new("date").args(["+%s", "-d", time]).output().unwrap();
        String::from_utf8(said.stdout).unwrap().trim().parse::<f64>().unwrap()
    };
    seconds(to) - seconds(from)
}

#[test]
fn what_kinds_of_failures_allow_and_which_kind_one_is_can_be_set() {
    let kinds = ["transient", "rate_limited", "timeout", "resource", "unknown"];
    let rules = "[[classify]]\ncode = \"E_GONE\"\nkind = \"permanent\"\n\
         [[classify]]\nmessage_contains = \"Out Of Cheese\"\nkind = \"bug\"\n";
    let none = kinds.map(|kind| format!("{kind} = 0\n")).concat();
    let calm = "[breaker]\nfailures = 1000\n";
    let as_it_is = Site::new(calm);
    let changed = Site::new(&format!("{calm}[retries]\n{none}{rules}"));
    let classified =
        [json!({"code": "E_GONE"}), json!({"message": "error: out of cheese", "code": "X"})];
    let errors = kinds.map(|kind| json!({"kind": kind}));
    for error in errors.iter().chain(&classified) {
        let state = |site: &Site| site.fail(&site.claimed(&json!({})), error)["state"].clone();
        assert_eq!(state(&as_it_is), "retrying", "{error}");
        assert_eq!(state(&changed), "dead_letter", "{error}");
    }
    let site = Site::new(&format!("{calm}{rules}"));
    for error in &classified {
        let state = site.fail(&site.claimed(&json!({})), error)["state"].clone();
        assert_eq!(state, "dead_letter", "by the rule alone: {error}");
    }
}

#[test]
fn leases_are_as_long_as_they_are_set() {
    let site = Site::new(
        "lease_ms = 700\nheartbeat_ms = 123\nlease_losses_max = 1\nassignment_ms = 50\n\
         [maintenance]\nlook_every_ms = 10\n",
    );
    let registered = site.register();
    let told = (&registered["lease_ms"], &registered["heartbeat_interval_ms"]);
    assert_eq!(told, (&json!(700), &json!(123)));
    // Not started in time, it goes back.
    let id = site.server.submit(json!({"type": "a"}));
    assert_eq!(site.poll(&json!({"auto_start": false})).len(), 1);
    site.eventually("given back", |site| site.server.task(&id)["state"] == "pending");
    // Started, and never heard of again: once is enough.
    let lost = site.claim();
    assert_eq!(lost["id"], id.as_str());
    site.server.await_state(&id, "dead_letter", WITHIN);
}

#[test]
fn a_worker_is_given_back_what_it_released_when_it_is_set() {
    let site = Site::new("withhold_ms = 0\n");
    let claimed = site.claimed(&json!({}));
    site.settle(&claimed, "released", &json!({}));
    assert_eq!(site.poll(&json!({})).len(), 1, "at once");
    let site = Site::new("withhold_ms = 3600000\n");
    let claimed = site.claimed(&json!({}));
    site.settle(&claimed, "released", &json!({}));
    assert_eq!(site.poll(&json!({"wait_ms": 1_200})).len(), 0, "longer than unless set");
}

#[test]
fn timeouts_grow_as_it_is_set() {
    let site = Site::new("timeout_growth = 3.0\ntimeout_growth_max_seconds = 20\n");
    let grown = |timeout: u64| {
        let retry = json!({"initial_seconds": 0.001, "jitter": "none"});
        let claimed = site.claimed(&json!({"timeout_seconds": timeout, "retry": retry}));
        site.fail(&claimed, &json!({"kind": "resource"}));
        let again = site.claim();
        site.settle(&again, "completed", &json!({}));
        again["timeout_seconds"].clone()
    };
    assert_eq!((grown(2), grown(10)), (json!(6), json!(20)));
}

#[test]
fn breakers_and_strain_count_as_they_are_set() {
    let site = Site::new(
        "[breaker]\nfailures = 2\nopen_seconds = 0.3\ntrials = 1\n\
         [health]\nreports = 1\nmemory_percent = 50.0\ncpu_percent = 60.0\n",
    );
    let report = |health: Value| {
        site.post(&site.worker_path("heartbeat"), &json!({"health": health}));
    };
    let submit = || site.server.submit(json!({"type": "a"}));
    submit();
    for strain in [
        json!({"memory_percent": 55, "cpu_percent": 1}),
        json!({"memory_percent": 1, "cpu_percent": 65}),
    ] {
        report(strain);
        assert_eq!(site.poll(&json!({})).len(), 0, "one report of strain is enough");
        report(json!({"memory_percent": 45, "cpu_percent": 55}));
    }
    let first = site.claim();
    site.fail(&first, &json!({"kind": "bug"}));
    let second = site.claimed(&json!({}));
    site.fail(&second, &json!({"kind": "bug"}));
    let failed = Instant::now();
    (0..3).for_each(|_| drop(submit()));
    site.eventually("one may be tried", |site| {
        let tried = site.poll(&json!({"available_capacity": 3}));
        assert!(tried.len() <= 1, "one at a time");
        tried.len() == 1
    });
    assert!(failed.elapsed() >= Duration::from_millis(250), "not before its time");
}

#[test]
fn depths_count_for_all_queues_or_for_one() {
    let limits = "depth_limits = { normal = 1, high = 2, all = 3 }\n";
    for section in ["queue_defaults", "queues.mail"] {
        let site = Site::new(&format!("[{section}]\n{limits}"));
        let submit = |priority: &str| {
            let task = json!({"type": "a", "queue": "mail", "priority": priority});
            site.call("POST", "/api/v1/tasks", &task).0
        };
        assert_eq!(submit("low"), 201);
        // A queue that a task makes gets what is set for all a moment later.
        site.eventually("it is configured", |site| {
            site.get("/admin/queues/mail")["depth_limits"]["normal"] == 1
        });
        let answers = ["low", "high", "high", "critical", "critical"].map(submit);
        assert_eq!(answers, [429, 201, 429, 201, 503], "{section}");
    }
}

#[test]
fn waiting_raises_tasks_as_it_is_set_for_all_queues_or_for_one() {
    let site = Site::new("");
    for section in ["queue_defaults.aging", "queues.mail.aging"] {
        for (level, name) in [("normal", "normal"), ("high", "high"), ("critical", "critical")] {
            let times = ["normal", "high", "critical"].map(|other| match other == level {
                true => format!("{other}_seconds = 0.02\n"),
                false => format!("{other}_seconds = \"never\"\n"),
            });
            site.configure(&format!("[{section}]\n{}", times.concat()));
            let low = json!({"type": "a", "queue": "mail", "priority": "low"});
            let id = site.server.submit(low);
            site.eventually(&format!("{section}: {level}"), |site| {
                site.server.task(&id)["effective_priority"] == name
            });
        }
    }
}

#[test]
fn queues_draw_and_take_turns_as_it_is_set() {
    let drawn = "order = \"weighted\"\nweights = [1, 1, 1, 1000000]\n";
    for section in ["queue_defaults", "queues.mail"] {
        let site = Site::new(&format!("[{section}]\n{drawn}"));
        for priority in ["critical", "low"] {
            site.server.submit(json!({"type": "a", "queue": "mail", "priority": priority}));
        }
        site.eventually("it is configured", |site| {
            site.get("/admin/queues/mail")["order"] == "weighted"
        });
        assert_eq!(site.claim()["priority"], "low", "{section}");
    }
    let site = Site::new("[queues.heavy]\nweight = 1000\n");
    for queue in ["heavy", "light"] {
        (0..20).for_each(|_| drop(site.server.submit(json!({"type": "a", "queue": queue}))));
    }
    let claimed = site.poll(&json!({"available_capacity": 20}));
    let heavy = claimed.iter().filter(|task| task["queue"] == "heavy").count();
    assert!(heavy >= 18, "{heavy} of 20");
}

#[test]
fn what_has_ended_is_kept_as_long_as_it_is_set() {
    let states = ["completed", "cancelled", "failed", "dead_letter"];
    let kept = |section: &str, how_long: &str| {
        let members = states.map(|state| format!("{state}_seconds = {how_long}\n")).concat();
        format!("[{section}]\n{members}")
    };
    let prune = "[maintenance]\nprune_every_ms = 10\n";
    let site = Site::new(prune);
    // What is set for all, and for one queue against it.
    for (all, mail) in [("0", "\"forever\""), ("\"forever\"", "0")] {
        site.configure(
            &[prune, &kept("retention", all), &kept("queues.mail.retention", mail)].concat(),
        );
        let (gone, stays) = if all == "0" { ("default", "mail") } else { ("mail", "default") };
        let paths = |queue: &str| {
            let task = |more: Value| {
                let mut task = json!({"queue": queue, "dead_letter": true});
                task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                site.claimed(&task)
            };
            let completed = task(json!({}));
            site.settle(&completed, "completed", &json!({}));
            let cancelled = task(json!({}));
            site.settle(&cancelled, "cancelled", &json!({}));
            let failed = task(json!({"dead_letter": false}));
            site.fail(&failed, &json!({"kind": "permanent"}));
            let dead = task(json!({}));
            site.fail(&dead, &json!({"kind": "permanent"}));
            [completed, cancelled, failed, dead]
                .map(|task| format!("/api/v1/tasks/{}", task["id"].as_str().unwrap()))
        };
        let (stays, gone) = (paths(stays), paths(gone));
        for path in &gone {
            site.eventually("nothing is kept", |site| site.is_gone(path));
        }
        for (path, state) in stays.iter().zip(states) {
            assert_eq!(site.get(path)["state"], state);
        }
    }
}

#[test]
fn events_keys_and_workers_are_kept_as_long_as_it_is_set() {
    let removed = |config: &str| {
        let rare = "lease_ms = 20\n[maintenance]\nprune_every_ms = 3600000\n";
        let site = Site::new(&format!("{rare}{config}"));
        let id = site.server.submit(json!({"type": "a", "idempotency_key": "k"}));
        assert_eq!(site.call("DELETE", &format!("/api/v1/tasks/{id}"), &Value::Null).0, 200);
        let worker = format!("/admin/workers/{}", site.worker);
        site.eventually("it is dead", |site| site.get(&worker)["state"] == "dead");
        let removed = site.post("/admin/maintenance", &json!({}));
        ["events", "idempotency_records", "workers"].map(|name| removed[name] != 0)
    };
    assert_eq!(removed(""), [false, false, false]);
    for (setting, expected) in [
        ("events_seconds = 0", [true, false, false]),
        ("events_max = 1", [true, false, false]),
        ("idempotency_seconds = 0", [false, true, false]),
        ("workers_seconds = 0", [false, false, true]),
    ] {
        assert_eq!(removed(&format!("[retention]\n{setting}\n")), expected, "{setting}");
    }
}

#[test]
fn a_call_that_does_not_end_holds_up_the_end_as_long_as_it_is_set() {
    let mut site = Site::new("[limits]\nshutdown_ms = 100\n");
    let mut slow = TcpStream::connect(site.server.address).unwrap();
    slow.write_all(
        b"POST /api/v1/tasks HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
    )
    .unwrap();
    // The call has begun once one behind it has been answered.
    site.get("/admin/health");
    let asked = Instant::now();
    site.server.signal("TERM");
    let ended = site.server.child.wait().unwrap();
    assert!(!ended.success(), "a call was cut off, and that is told");
    assert!(asked.elapsed() < WITHIN, "sooner than unless set");
}

#[test]
fn only_lines_of_the_level_that_is_set_are_logged() {
    let site = Site::new("");
    site.get("/admin/health");
    assert_eq!(site.server.lines("DEBUG"), 0);
    site.configure("[log]\nlevel = \"warn,tasklane_server=debug\"\n");
    site.get("/admin/health");
    site.eventually("lines of debug", |site| site.server.lines("DEBUG") > 0);
    site.configure("[log]\nlevel = \"error\"\n");
    site.eventually("no more lines of debug", |site| {
        let before = site.server.lines("DEBUG");
        site.get("/admin/health");
        site.get("/admin/health");
        site.server.lines("DEBUG") == before
    });
}
