//! Depths and figures that live readers are told now and then.

use std::time::Duration;

use serde_json::json;

use crate::listener::{Heard, Listener};
use crate::site::Site;

#[test]
fn depths_and_figures_are_told_to_those_who_are_live() {
    let site = Site::with(|settings, _| settings.metrics_every = Duration::from_secs(1));
    let (mut depths, _) = Listener::live(&site, "kinds=queue.depth&queue=mail");
    let (mut figures, _) = Listener::live(&site, "kinds=system.metrics");
    site.submit(json!({"queue": "mail", "priority": "critical"}));
    let heard = depths.expect();
    assert_eq!((heard.kind.as_str(), heard.id.clone()), ("queue.depth", None));
    assert_eq!(heard.data["data"]["queue"], "mail");
    assert_eq!(heard.data["data"]["depths"], json!([1, 0, 0, 0]));
    let worker = site.worker();
    worker.complete(&worker.claim_one());
    let heard = depths.expect();
    assert_eq!(heard.data["data"]["depths"], json!([0, 0, 0, 0]));
    let done = |heard: &Heard| heard.data["data"]["throughput"]["completed_last_minute"] == 1;
    while !done(&figures.expect_kind("system.metrics")) {}
    let heard = figures.expect();
    assert_eq!(heard.data["data"]["stats"]["total_tasks"], 1);
    assert_eq!(heard.data["data"]["stats"]["throughput"], heard.data["data"]["throughput"]);
}

#[test]
fn who_joins_later_hears_of_queues_that_do_not_change() {
    let site = Site::with(|settings, _| settings.metrics_every = Duration::from_secs(1));
    site.submit(json!({"queue": "mail"}));
    for _ in 0..2 {
        let (mut depths, _) = Listener::live(&site, "kinds=queue.depth&queue=mail");
        assert_eq!(depths.expect().data["data"]["depths"], json!([0, 0, 1, 0]));
    }
}

#[test]
fn figures_come_though_nothing_happens() {
    let site = Site::with(|settings, _| settings.metrics_every = Duration::from_secs(1));
    let (mut figures, _) = Listener::live(&site, "kinds=system.metrics");
    assert_eq!(figures.expect().kind, "system.metrics");
}
