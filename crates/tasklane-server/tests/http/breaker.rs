//! Workers whose tasks fail one after the other.

use std::time::Duration;

use serde_json::json;

use crate::site::Site;

fn fail(site: &Site, worker: &crate::site::Worker<'_>) {
    site.submit(json!({"max_retries": 0}));
    worker.fail(&worker.claim_one(), json!({"message": "x"}));
}

#[test]
fn five_failures_in_a_row_stop_the_flow_for_a_minute_then_three_are_tried() {
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
    for _ in 0..5 {
        site.pass(Duration::from_secs(13));
        worker.call("heartbeat", &json!({}));
    }
    site.eventually("it may try", || {
        shown()["breaker"] == "half_open" && shown()["state"] == "active"
    });
    let tried = worker.poll(5);
    assert_eq!(tried.len(), 3);
    assert!(worker.poll(5).is_empty(), "no more than three");
    worker.complete(&tried[0]);
    assert_eq!(shown()["breaker"], "closed");
    assert_eq!(worker.poll(5).len(), 1);
}

#[test]
fn a_trial_that_fails_opens_it_again() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..5 {
        fail(&site, &worker);
    }
    let shown = || site.get(&format!("/admin/workers/{}", worker.id)).json();
    for _ in 0..5 {
        site.pass(Duration::from_secs(13));
        worker.call("heartbeat", &json!({}));
    }
    site.eventually("it may try", || {
        shown()["breaker"] == "half_open" && shown()["state"] == "active"
    });
    fail(&site, &worker);
    assert_eq!(shown()["breaker"], "open");
}

#[test]
fn trials_that_come_to_nothing_are_followed_by_others() {
    let site = Site::new();
    let worker = site.worker();
    for _ in 0..5 {
        fail(&site, &worker);
    }
    let shown = || site.get(&format!("/admin/workers/{}", worker.id)).json();
    let pass_a_minute = || {
        for _ in 0..5 {
            site.pass(Duration::from_secs(13));
            worker.call("heartbeat", &json!({}));
        }
    };
    pass_a_minute();
    site.eventually("it may try", || {
        shown()["breaker"] == "half_open" && shown()["state"] == "active"
    });
    for _ in 0..4 {
        site.submit(json!({}));
    }
    for held in worker.poll(5) {
        worker.report(&held, json!({"status": "released", "delay_seconds": 1}));
    }
    assert!(worker.poll(5).is_empty());
    pass_a_minute();
    site.eventually("it may try again", || !worker.poll(1).is_empty());
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
