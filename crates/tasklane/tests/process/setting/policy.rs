//! How tasks are retried, leased and bounded in time.

use super::*;

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
        "lease_ms = 5000\nheartbeat_ms = 123\nlease_losses_max = 1\nassignment_ms = 50\n\
         [maintenance]\nlook_every_ms = 10\n",
    );
    let registered = site.register();
    let told = (&registered["lease_ms"], &registered["heartbeat_interval_ms"]);
    assert_eq!(told, (&json!(5_000), &json!(123)));
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
    let site = Site::new("timeout_growth = 3.0\ntimeout_growth_max_seconds = 200\n");
    let grown = |timeout: u64| {
        let retry = json!({"initial_seconds": 0.001, "jitter": "none"});
        let claimed = site.claimed(&json!({"timeout_seconds": timeout, "retry": retry}));
        site.fail(&claimed, &json!({"kind": "resource"}));
        let again = site.claim();
        site.settle(&again, "completed", &json!({}));
        again["timeout_seconds"].clone()
    };
    assert_eq!((grown(20), grown(100)), (json!(60), json!(200)));
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
    let failed = Instant::now();
    site.fail(&second, &json!({"kind": "bug"}));
    (0..3).for_each(|_| drop(submit()));
    site.eventually("one may be tried", |site| {
        let tried = site.poll(&json!({"available_capacity": 3}));
        assert!(tried.len() <= 1, "one at a time");
        tried.len() == 1
    });
    assert!(failed.elapsed() >= Duration::from_millis(250), "not before its time");
}
