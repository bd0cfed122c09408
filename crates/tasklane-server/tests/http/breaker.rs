//! Workers whose tasks fail one after the other.

use std::time::Duration;

use serde_json::json;

use crate::site::{Held, Site, Worker};

fn fail(site: &Site, worker: &Worker<'_>) {
    site.submit(json!({"max_retries": 0}));
    worker.fail(&worker.claim_one(), json!({"message": "x"}));
}

/// Lets the minute of an open breaker pass. The worker gives signs of life meanwhile.
fn pass_a_minute(site: &Site, worker: &Worker<'_>) {
    for _ in 0..5 {
        site.pass(Duration::from_secs(13));
        worker.call("heartbeat", &json!({}));
    }
}

/// What a worker gets to try, as soon as it gets something: the store knows that it may before the
/// server does.
fn trials(site: &Site, worker: &Worker<'_>, count: u32) -> Vec<Held> {
    let mut tried = Vec::new();
    site.eventually("it may try", || {
        tried = worker.poll(count);
        !tried.is_empty()
    });
    tried
}

#[test]
fn five_consecutive_failures_stop_the_flow_for_a_minute_then_three_are_tried() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..5 {
        fail(&site, &worker);
    }
    for _ in 0..5 {
        site.submit(json!({}));
    }
    assert!(worker.poll(5).is_empty());
    let shown = || site.get(&format!("/admin/workers/{}", worker.id)).json();
    assert_eq!(shown()["breaker"], "open");
    site.eventually("it is marked", || shown()["state"] == "unhealthy");
    let other = site.worker();
    let taken = other.poll(1);
    assert_eq!(taken.len(), 1, "others still get tasks");
    other.complete(&taken[0]);
    pass_a_minute(&site, &worker);
    site.eventually("it recovers", || {
        shown()["breaker"] == "half_open" && shown()["state"] == "active"
    });
    let tried = trials(&site, &worker, 5);
    assert_eq!(tried.len(), 3);
    assert!(worker.poll(5).is_empty(), "no more than three");
    worker.complete(&tried[0]);
    assert_eq!(shown()["breaker"], "closed");
    assert_eq!(worker.poll(5).len(), 1);
}

/// Tells of failures and asks for more in one call; gives what came.
fn fail_and_poll(worker: &Worker<'_>, failing: &[Held], count: u32) -> Vec<Held> {
    let failed = json!({"status": "failed", "error": {"message": "x"}});
    let results: Vec<_> = failing.iter().map(|held| held.report(failed.clone())).collect();
    let poll = json!({"available_capacity": count});
    let reply = worker.call("result", &json!({"results": results, "poll": poll}));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["tasks"].as_array().unwrap().iter().map(Held::from).collect()
}

#[test]
fn the_answer_to_the_failure_that_opens_it_brings_no_more_tasks() {
    for together in [1, 5] {
        let site = Site::new();
        let worker = site.worker();
        for _ in together..5 {
            fail(&site, &worker);
        }
        for _ in 0..together + 3 {
            site.submit(json!({"max_retries": 0}));
        }
        let held = worker.poll(together);
        assert!(fail_and_poll(&worker, &held, 3).is_empty(), "with {together} failures");
        let shown = || site.get(&format!("/admin/workers/{}", worker.id)).json();
        assert_eq!(shown()["breaker"], "open");
        site.eventually("it has none", || shown()["leases"] == 0);
        let mut others = Vec::new();
        let other = site.worker();
        site.eventually("others get them", || {
            others.extend(other.poll(9));
            others.len() == 3
        });
    }
}

#[test]
fn a_poll_that_was_waiting_when_it_opened_gets_nothing() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..5 {
        site.submit(json!({"max_retries": 0}));
    }
    let held = worker.poll(5);
    let poll = json!({"available_capacity": 3, "wait_ms": 1000});
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| worker.call("poll", &poll).json());
        site.await_parked(1);
        for held in &held {
            worker.fail(held, json!({"message": "x"}));
        }
        for _ in 0..3 {
            site.submit(json!({}));
        }
        assert_eq!(waiting.join().unwrap()["tasks"], json!([]));
    });
    let other = site.worker();
    let mut others = 0;
    site.eventually("others get them", || {
        others += other.poll(9).len();
        others == 3
    });
}

#[test]
fn a_failure_that_does_not_count_keeps_no_tasks_back() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..4 {
        fail(&site, &worker);
    }
    let gone = site.submit(json!({}));
    let held = worker.claim_one();
    worker.report(&held, json!({"status": "released", "delay_seconds": 60}));
    let waiting = site.submit(json!({}));
    let got = fail_and_poll(&worker, &[held], 5);
    assert_eq!(got.iter().map(|held| &held.id).collect::<Vec<_>>(), [&waiting], "not {gone}");
}

#[test]
fn a_worker_whose_tasks_run_too_long_gets_no_more_either() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..5 {
        site.submit(json!({"max_retries": 0, "timeout_seconds": 1}));
    }
    assert_eq!(worker.poll(5).len(), 5);
    site.pass(Duration::from_secs(2));
    let shown = || site.get(&format!("/admin/workers/{}", worker.id)).json();
    site.eventually("its breaker opens", || shown()["breaker"] == "open");
    let metrics = site.get("/metrics").text;
    assert!(metrics.contains("\ntasklane_worker_breaker_open 1\n"), "{metrics}");
}

#[test]
fn a_time_out_that_is_reported_counts_once() {
    let site = Site::new();
    let worker = site.worker();
    let shown = || site.get(&format!("/admin/workers/{}", worker.id)).json();
    for count in 1..=4 {
        site.submit(json!({"max_retries": 0}));
        worker.fail(&worker.claim_one(), json!({"message": "x", "kind": "timeout"}));
        site.eventually("it is counted", || shown()["consecutive_failures"] == count);
    }
    assert_eq!(shown()["breaker"], "closed");
}

#[test]
fn a_trial_that_fails_opens_it_again() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..5 {
        fail(&site, &worker);
    }
    let shown = || site.get(&format!("/admin/workers/{}", worker.id)).json();
    pass_a_minute(&site, &worker);
    site.submit(json!({"max_retries": 0}));
    let tried = trials(&site, &worker, 1);
    assert_eq!(shown()["breaker"], "half_open");
    worker.fail(&tried[0], json!({"message": "x"}));
    assert_eq!(shown()["breaker"], "open");
}

#[test]
fn trials_that_come_to_nothing_are_followed_by_others() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..5 {
        fail(&site, &worker);
    }
    for _ in 0..4 {
        site.submit(json!({}));
    }
    pass_a_minute(&site, &worker);
    for held in trials(&site, &worker, 5) {
        worker.report(&held, json!({"status": "released", "delay_seconds": 1}));
    }
    assert!(worker.poll(5).is_empty());
    pass_a_minute(&site, &worker);
    trials(&site, &worker, 1);
}

#[test]
fn an_operator_may_close_it() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..5 {
        fail(&site, &worker);
    }
    site.submit(json!({}));
    let resume = format!("/admin/workers/{}/resume", worker.id);
    site.eventually("it is marked", || {
        site.get(&format!("/admin/workers/{}", worker.id)).json()["state"] == "unhealthy"
    });
    assert_eq!(site.post(&resume, &json!({})).status, 200);
    assert_eq!(worker.poll(1).len(), 1);
}

#[test]
fn a_success_in_between_starts_the_count_anew() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..4 {
        fail(&site, &worker);
    }
    site.submit(json!({}));
    worker.complete(&worker.claim_one());
    for _ in 0..4 {
        fail(&site, &worker);
    }
    let shown = site.get(&format!("/admin/workers/{}", worker.id)).json();
    assert_eq!((&shown["breaker"], &shown["consecutive_failures"]), (&json!("closed"), &json!(4)));
}
