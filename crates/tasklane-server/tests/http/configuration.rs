//! Settings that change while the server runs, and who decides about a queue's.

use std::time::Duration;

use serde_json::{Value, json};
use tasklane_core::{Aging, DepthLimits, Order, QueueName, Retention, Weight};
use tasklane_server::QueueDefaults;

use crate::key::Keyed;
use crate::site::{Reply, Site};

fn patch(site: &Site, body: Value) -> Reply {
    let headers = [("content-type", "application/json")];
    site.send("PATCH", "/admin/queues/mail", &headers, body.to_string().as_bytes())
}

fn mail() -> QueueName {
    QueueName::new("mail").unwrap()
}

fn weight(weight: u32) -> QueueDefaults {
    QueueDefaults { weight: Some(Weight::new(weight).unwrap()), ..QueueDefaults::default() }
}

/// Puts the weight of `mail` into the configuration.
fn configure(site: &Site, queue: QueueDefaults) {
    let mut settings = (*site.engine.settings()).clone();
    settings.queues.insert(mail(), queue);
    site.run(site.engine.change_settings(settings)).unwrap();
}

#[test]
fn a_configured_queue_is_there_from_the_start() {
    let site = Site::with(|settings, _| {
        let order = Some(Order::Aging(Aging::OFF));
        settings.queue_defaults = QueueDefaults { order, ..QueueDefaults::default() };
        let depth = Some(DepthLimits::flat(1));
        settings.queues.insert(mail(), QueueDefaults { depth, ..weight(3) });
    });
    let queue = site.get("/admin/queues/mail").json();
    assert_eq!(queue["weight"], 3);
    assert_eq!(queue["aging"], json!({}), "what is configured for all queues counts too");
    let origins = json!({"order": "configuration", "weight": "configuration",
        "depth_limits": "configuration", "retention": "default"});
    assert_eq!(queue["origins"], origins);
    site.submit(json!({"queue": "mail"}));
    let full = site.post("/api/v1/tasks", &json!({"type": "a", "queue": "mail"}));
    full.refused(503, "queue-full");
}

#[test]
fn what_an_operator_set_wins_until_it_is_given_back() {
    let site = Site::with(|settings, _| {
        settings.queues.insert(mail(), weight(3));
    });
    let shown = |queue: &Value| (queue["weight"].clone(), queue["origins"]["weight"].clone());
    let queue = patch(&site, json!({"weight": 5})).json();
    assert_eq!(shown(&queue), (json!(5), json!("operator")));
    configure(&site, weight(4));
    let queue = site.get("/admin/queues/mail").json();
    assert_eq!(shown(&queue), (json!(5), json!("operator")), "the configuration changed in vain");
    let queue = patch(&site, json!({"reset": ["weight"]})).json();
    assert_eq!(shown(&queue), (json!(4), json!("configuration")));
    configure(&site, QueueDefaults::default());
    let queue = site.get("/admin/queues/mail").json();
    assert_eq!(shown(&queue), (json!(1), json!("default")));
    patch(&site, json!({"reset": ["colour"]})).refused(422, "validation-failed");
}

#[test]
fn a_pause_is_not_configured_away() {
    let site = Site::new();
    site.post("/admin/queues/mail/pause", &json!({}));
    configure(&site, weight(2));
    let queue = site.get("/admin/queues/mail").json();
    assert_eq!((&queue["paused"], &queue["weight"]), (&json!(true), &json!(2)));
}

#[test]
fn a_queue_that_a_task_makes_gets_what_is_configured_for_all() {
    let retention = Some(Retention::NOTHING);
    let site = Site::with(|settings, _| {
        settings.queue_defaults = QueueDefaults { retention, ..QueueDefaults::default() };
    });
    site.submit(json!({"queue": "mail"}));
    site.eventually("it is configured", || {
        let queue = site.get("/admin/queues/mail").json();
        queue["retention"]["completed_seconds"] == 0.0
    });
}

#[test]
fn a_server_without_a_configuration_reads_none_anew() {
    let site = Site::new();
    site.send("POST", "/admin/reload", &[], b"").refused(501, "not-supported");
}

#[test]
fn reading_the_configuration_anew_is_for_admins_and_recorded() {
    let keyed = Keyed::new();
    let reload = |key: &str| keyed.call(key, "POST", "/admin/reload", None);
    reload(&keyed.key(json!([{"verb": "operate"}]))).refused(403, "insufficient-scope");
    reload(&keyed.root).refused(501, "not-supported");
    let records = keyed.get(&keyed.root, "/admin/audit").json();
    let recorded = records["records"].as_array().unwrap().iter().any(|record| {
        record["action"] == "POST /admin/reload" && record["outcome"] == "not-supported"
    });
    assert!(recorded, "{records}");
}

#[test]
fn new_settings_never_open_a_server_that_asks_for_keys() {
    let keyed = Keyed::new();
    let settings = tasklane_server::Settings::default();
    keyed.site.run(keyed.site.engine.change_settings(settings)).unwrap();
    keyed.site.get("/api/v1/tasks").refused(401, "unauthenticated");
    assert_eq!(keyed.get(&keyed.root, "/api/v1/tasks").status, 200);
}

#[test]
fn what_was_configured_and_is_no_more_is_undone_by_the_next_server() {
    let site = Site::with(|settings, _| {
        settings.queues.insert(mail(), weight(3));
    });
    assert_eq!(site.get("/admin/queues/mail").json()["weight"], 3);
    let next = tasklane_server::Server::new(site.store.clone(), Default::default());
    site.run(next.engine().configure_queues()).unwrap();
    assert_eq!(site.get("/admin/queues/mail").json()["weight"], 1);
}

#[test]
fn settings_that_change_count_from_the_next_call_on() {
    let site = Site::new();
    let task = json!({"type": "a", "payload": "x".repeat(200)});
    assert_eq!(site.post("/api/v1/tasks", &task).status, 201);
    let mut settings = (*site.engine.settings()).clone();
    settings.policies.payload_bytes_max = 100;
    settings.breaker.failures = 1;
    site.run(site.engine.change_settings(settings.clone())).unwrap();
    site.post("/api/v1/tasks", &task).refused(413, "payload-too-large");
    let worker = site.worker();
    worker.fail(&worker.claim_one(), json!({"message": "x"}));
    let shown = site.get(&format!("/admin/workers/{}", worker.id)).json();
    assert_eq!(shown["breaker"], "open");
    settings.body_bytes_max = 100;
    site.run(site.engine.change_settings(settings.clone())).unwrap();
    site.post("/api/v1/tasks", &task).refused(413, "payload-too-large");
    (settings.body_bytes_max, settings.reading_bytes_max) = (1_000, 100);
    site.run(site.engine.change_settings(settings)).unwrap();
    site.post("/api/v1/tasks", &task).refused(503, "overloaded");
}

#[test]
fn a_loop_that_sleeps_hears_of_a_shorter_interval() {
    let site = Site::with(|settings, _| settings.prune_every = Duration::from_secs(3_600));
    let worker = site.worker();
    let id = site.submit(json!({}));
    worker.complete(&worker.claim_one());
    let mut settings = (*site.engine.settings()).clone();
    settings.prune.retention = Retention::NOTHING;
    settings.prune_every = Duration::from_millis(5);
    site.run(site.engine.change_settings(settings)).unwrap();
    site.eventually("it is removed", || site.get(&format!("/api/v1/tasks/{id}")).status == 404);
}

#[test]
fn connections_beyond_the_bound_are_closed() {
    let site = Site::with(|settings, _| settings.connections_max = 1);
    let _first = site.connect();
    site.eventually("a second one is closed", || site.get("/livez").status == 0);
}
