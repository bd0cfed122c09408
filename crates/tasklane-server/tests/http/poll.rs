//! Claiming tasks, and waiting for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tasklane_server::engine::Poll;

use crate::kept::Kept;
use crate::site::Site;
use crate::stall::assert_within;

#[test]
fn a_claim_hands_over_everything_a_worker_needs() {
    let site = Site::new();
    let id = site.submit(json!({"payload": [1], "metadata": {"k": "v"}, "ordering_key": "o"}));
    let held = site.worker().claim_one();
    let expected = json!({"id": id, "type": "a", "queue": "default", "payload": [1],
        "priority": "normal", "attempt": 1, "max_retries": 3, "lease_ms": 30_000,
        "timeout_seconds": 600, "metadata": {"k": "v"}, "ordering_key": "o"});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&held.whole[name], value, "{name}");
    }
    assert_eq!(held.token.len(), 32);
    assert!(held.whole["fence"].as_u64().unwrap() > 0);
    let task = site.task(&id);
    assert_eq!((&task["state"], &task["deliveries"]), (&json!("running"), &json!(1)));
    assert!(task["started_at"].is_string() && task["worker_id"].is_string());
}

#[test]
fn the_most_urgent_come_first_and_equals_by_age() {
    let site = Site::new();
    let ids: Vec<String> = ["low", "normal", "critical", "high", "critical"]
        .into_iter()
        .map(|priority| site.submit(json!({"priority": priority})))
        .collect();
    let claimed: Vec<String> = site.worker().poll(10).into_iter().map(|held| held.id).collect();
    let expected = [2, 4, 3, 1, 0].map(|n: usize| ids[n].clone());
    assert_eq!(claimed, expected);
}

#[test]
fn a_worker_gets_only_what_fits_it() {
    let site = Site::new();
    let mail = site.submit(json!({"type": "email.send", "queue": "mail"}));
    let gpu = site.submit(json!({"required_capabilities": ["gpu"]}));
    let ids = |spec| {
        let held = site.register(spec).poll(10);
        held.into_iter().map(|held| held.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(json!({"types": ["sms.*"]})), Vec::<String>::new());
    assert_eq!(ids(json!({"queues": ["mail"], "types": ["email.*"]})), [mail]);
    assert_eq!(ids(json!({"capabilities": ["cpu"]})), Vec::<String>::new());
    let worker = site.register(json!({"capabilities": ["gpu"]}));
    let narrowed = worker.call("poll", &json!({"available_capacity": 1, "capabilities": []}));
    assert_eq!(narrowed.json()["tasks"], json!([]));
    assert_eq!(worker.claim_one().id, gpu);
}

#[test]
fn a_worker_never_holds_more_than_its_capacity() {
    let site = Site::new();
    for _ in 0..5 {
        site.submit(json!({}));
    }
    let worker = site.register(json!({"capacity": 2}));
    let held = worker.poll(10);
    assert_eq!((held.len(), worker.poll(10).len()), (2, 0));
    worker.complete(&held[0]);
    assert_eq!(worker.poll(10).len(), 1);
}

#[test]
fn a_worker_that_boasts_gets_what_it_can_hold_and_keeps_nobody_waiting() {
    let site = Site::new();
    site.submit(json!({}));
    let worker = site.register(json!({"capacity": 1}));
    assert_eq!(worker.poll(u32::MAX).len(), 1);
    assert!(site.worker().poll(u32::MAX).is_empty());
}

/// One task goes to the first of two polls; what comes due next must reach the other at once.
#[test]
fn a_poll_that_was_passed_over_gets_what_comes_due_next() {
    let site = Site::new();
    let workers = [site.worker(), site.worker()];
    let due = site.submit(json!({"delay_seconds": 20}));
    std::thread::scope(|scope| {
        let body = json!({"available_capacity": 1, "wait_ms": 20_000});
        let polls: Vec<_> = workers
            .iter()
            .map(|worker| {
                let body = body.clone();
                scope.spawn(move || worker.call("poll", &body).json()["tasks"][0]["id"].clone())
            })
            .collect();
        site.await_parked(2);
        let first = site.submit(json!({}));
        site.pass(Duration::from_secs(21));
        let passed = Instant::now();
        let mut got: Vec<_> = polls.into_iter().map(|poll| poll.join().unwrap()).collect();
        assert_within(passed, Duration::from_millis(800));
        let mut expected = vec![json!(first), json!(due)];
        got.sort_by_key(ToString::to_string);
        expected.sort_by_key(ToString::to_string);
        assert_eq!(got, expected);
    });
}

#[test]
fn a_waiting_poll_gets_a_task_that_is_submitted() {
    let site = Site::new();
    let worker = site.worker();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let body = json!({"available_capacity": 1, "wait_ms": 20_000});
            worker.call("poll", &body)
        });
        site.await_parked(1);
        let submitted = Instant::now();
        let id = site.submit(json!({}));
        let reply = waiting.join().unwrap();
        assert_eq!(reply.json()["tasks"][0]["id"], id);
        assert_within(submitted, Duration::from_secs(1));
    });
}

#[test]
fn many_waiting_polls_each_get_one() {
    let site = Site::new();
    let workers: Vec<_> = (0..8).map(|_| site.worker()).collect();
    let body = &json!({"available_capacity": 1, "wait_ms": 20_000});
    std::thread::scope(|scope| {
        let waiting: Vec<_> = workers
            .iter()
            .map(|worker| scope.spawn(move || worker.call("poll", body).json()["tasks"].clone()))
            .collect();
        site.await_parked(8);
        let mut ids: Vec<String> = (0..8).map(|_| site.submit(json!({}))).collect();
        let mut got: Vec<String> = waiting
            .into_iter()
            .map(|waiting| waiting.join().unwrap()[0]["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        got.sort();
        assert_eq!(got, ids);
    });
}

#[test]
fn a_waiting_poll_is_not_woken_by_what_it_does_not_take() {
    let site = Site::new();
    let worker = site.register(json!({"types": ["b"]}));
    std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| worker.call("poll", &json!({"available_capacity": 1, "wait_ms": 20_000})));
        site.await_parked(1);
        site.submit(json!({"type": "a"}));
        let id = site.submit(json!({"type": "b"}));
        assert_eq!(waiting.join().unwrap().json()["tasks"][0]["id"], id);
    });
}

#[test]
fn a_poll_that_waits_in_vain_ends_empty() {
    let site = Site::new();
    let started = Instant::now();
    let reply = site.worker().call("poll", &json!({"available_capacity": 1, "wait_ms": 100}));
    assert_eq!(reply.json(), json!({"tasks": [], "directive": "none"}));
    assert!(started.elapsed() >= Duration::from_millis(100));
}

#[test]
fn a_task_claimed_for_a_client_that_went_away_is_given_back() {
    use std::io::Write;
    let site = Site::new();
    let worker = site.worker();
    let body = json!({"available_capacity": 1, "wait_ms": 20_000}).to_string();
    let head = format!(
        "POST /internal/workers/{}/poll HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        worker.id,
        body.len()
    );
    let mut stream = site.connect();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    site.await_parked(1);
    drop(stream);
    let id = site.submit(json!({}));
    let other = site.worker();
    site.eventually("another worker gets it", || other.poll(1).iter().any(|held| held.id == id));
    assert_eq!(site.task(&id)["attempts"], 0);
}

#[test]
fn without_auto_start_a_task_is_assigned_until_it_is_started() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    let reply = worker.call("poll", &json!({"available_capacity": 1, "auto_start": false}));
    let token = reply.string("/tasks/0/lease_token");
    assert_eq!(site.state(&id), "assigned");
    let lease = json!({"task_id": id, "lease_token": token});
    let started = worker.call("start", &lease);
    assert_eq!((started.status, started.json()["state"].clone()), (200, json!("running")));
    worker
        .call("start", &json!({"task_id": id, "lease_token": "0".repeat(32)}))
        .refused(409, "lease-lost");
    let many = worker.call("start", &json!({"tasks": [lease]}));
    assert_eq!(many.status, 200, "{many:?}");
    for bad in [
        json!({}),
        json!({"task_id": id}),
        json!({"task_id": id, "lease_token": token, "tasks": []}),
    ] {
        worker.call("start", &bad).refused(422, "validation-failed");
    }
}

#[test]
fn a_paused_worker_gets_none_and_is_told() {
    let site = Site::new();
    site.submit(json!({}));
    let worker = site.worker();
    let direct =
        |verb: &str| site.post(&format!("/admin/workers/{}/{verb}", worker.id), &json!({}));
    assert_eq!(direct("pause").status, 200);
    let poll = || worker.call("poll", &json!({"available_capacity": 1})).json();
    assert_eq!(poll(), json!({"tasks": [], "directive": "pause"}));
    assert_eq!(direct("resume").status, 200);
    assert_eq!(poll()["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(direct("drain").status, 200);
    assert_eq!(poll(), json!({"tasks": [], "directive": "drain"}));
}

#[test]
fn a_worker_that_left_is_gone_and_what_it_had_not_started_goes_back() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let worker = site.worker();
    worker.call("poll", &json!({"available_capacity": 1, "auto_start": false}));
    let gone = site.delete(&format!("/internal/workers/{}", worker.id));
    assert_eq!((gone.status, gone.header("durability")), (204, Some(Kept::chosen().durability())));
    let task = site.task(&id);
    assert_eq!((&task["state"], &task["attempts"]), (&json!("pending"), &json!(0)));
    let body = json!({"available_capacity": 1});
    worker.call("poll", &body).refused(410, "worker-gone");
    worker.call("heartbeat", &json!({})).refused(410, "worker-gone");
    site.delete(&format!("/internal/workers/{}", worker.id)).refused(410, "worker-gone");
    site.post("/internal/workers/nobody/poll", &body).refused(404, "not-found");
}

/// The hint must be read before the claim: a task that comes between the two would otherwise wait
/// for the next hint.
#[test]
fn a_task_submitted_while_a_result_carries_a_poll_is_not_missed() {
    let site = Site::new();
    let worker = site.worker();
    let mut held: Option<crate::site::Held> = None;
    for round in 0..150_u64 {
        let results = held.take().map(|held| held.report(json!({"status": "completed"})));
        let results: Vec<_> = results.into_iter().collect();
        let body =
            json!({"results": results, "poll": {"available_capacity": 1, "wait_ms": 20_000}});
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| worker.call("result", &body));
            std::thread::sleep(Duration::from_micros(round * 20));
            let submitted = Instant::now();
            let id = site.submit(json!({}));
            let reply = waiting.join().unwrap();
            assert_eq!(reply.json()["tasks"][0]["id"], id, "round {round}: {reply:?}");
            assert_within(submitted, Duration::from_millis(900));
            held = Some(crate::site::Held::from(&reply.json()["tasks"][0]));
        });
    }
}

#[test]
fn polls_that_wait_are_not_bothered_by_tasks_for_others() {
    let site = Site::new();
    let worker = |queue: &str| {
        let spec = json!({"queues": [queue], "capacity": 1_000});
        let id = site.register(spec).id;
        id.parse::<tasklane_core::WorkerId>().unwrap()
    };
    let poll = |worker, count| {
        let wait = Duration::from_secs(60);
        let poll = Poll { worker, count, wait, auto_start: true, narrowed: None };
        let engine = Arc::clone(&site.engine);
        site.spawn(async move { engine.poll(poll).await })
    };
    let one = worker("a");
    let waiting: Vec<_> = (0..500).map(|_| poll(one, 1)).collect();
    site.await_parked(500);
    let task = |queue: &str| {
        let task_type = tasklane_core::TaskType::new("t").unwrap();
        let mut task = tasklane_core::NewTask::new(task_type, "{}");
        task.queue = tasklane_core::QueueName::new(queue).unwrap();
        task
    };
    let (started, before) = (Instant::now(), site.engine.parked_claims());
    for _ in 0..200 {
        let submits = (0..50).map(|_| {
            let drafts = site.engine.drafts(vec![task("b")]).unwrap();
            site.engine.submit(drafts)
        });
        for submitted in site.run(futures_util::future::join_all(submits)) {
            submitted.unwrap();
        }
    }
    let claims = site.engine.parked_claims() - before;
    // Each looks for itself every second.
    let allowed = 500 * (started.elapsed().as_secs() + 2);
    assert!(claims <= allowed, "{claims} claims, {allowed} allowed");
    // What is for them still comes at once, one each.
    let before = site.engine.parked_claims();
    let drafts = site.engine.drafts((0..500).map(|_| task("a")).collect()).unwrap();
    site.run(site.engine.submit(drafts)).unwrap();
    for served in waiting {
        assert_eq!(site.run(served).unwrap().unwrap().tasks.len(), 1);
    }
    let claims = site.engine.parked_claims() - before;
    assert!(claims <= 2 * 500 + 500, "{claims} claims");
}
