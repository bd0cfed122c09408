//! Live events as a stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::listener::{Heard, Listener, connect_narrow};
use crate::site::Site;
use crate::stall::assert_within;

pub(crate) fn submit_many(site: &Site, count: usize, task_type: &str, queue: &str) {
    let tasks: Vec<_> = (0..count).map(|_| json!({"type": task_type, "queue": queue})).collect();
    let reply = site.post("/api/v1/tasks/batch", &json!({ "tasks": tasks }));
    assert_eq!(reply.status, 201, "{reply:?}");
}

#[test]
fn every_change_of_a_task_comes_in_order_with_its_envelope() {
    let site = Site::new();
    let (mut listener, _) = Listener::live(&site, "kinds=task.*");
    let id = site.submit(json!({"queue": "mail", "priority": "high"}));
    let worker = site.worker();
    worker.complete(&worker.claim_one());
    let heard: Vec<Heard> = (0..3).map(|_| listener.expect()).collect();
    let kinds: Vec<_> = heard.iter().map(|heard| heard.kind.as_str()).collect();
    assert_eq!(kinds, ["task.submitted", "task.claimed", "task.completed"]);
    for heard in &heard {
        assert_eq!(heard.data["cursor"], heard.cursor());
        assert_eq!((&heard.data["v"], &heard.data["type"]), (&json!(1), &json!(heard.kind)));
        assert_eq!(heard.data["data"]["task_id"], id);
        assert_eq!(heard.data["data"]["queue"], "mail");
        assert!(heard.data["timestamp"].is_string());
    }
    assert_eq!(heard[1].data["data"]["worker_id"], worker.id);
    assert!(heard[2].data["data"]["duration_ms"].is_u64());
}

/// How many tasks flow and how often the reader comes back: 20000 and 1000 unless the environment
/// says otherwise.
pub(crate) fn load() -> (usize, usize) {
    let number = |name: &str, usual| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    (number("TASKLANE_EVENTS_TASKS", 20_000), number("TASKLANE_EVENTS_RECONNECTS", 1_000))
}

/// Submits and completes so many tasks.
pub(crate) fn flow(site: &Site, tasks: usize) {
    let worker = site.register(json!({"capacity": 1_000}));
    let mut done = 0;
    while done < tasks {
        submit_many(site, 500.min(tasks - done), "a", "default");
        loop {
            let held = worker.poll(500);
            if held.is_empty() {
                break;
            }
            let report = |held: &crate::site::Held| held.report(json!({"status": "completed"}));
            let reports: Vec<Value> = held.iter().map(report).collect();
            let reply = worker.call("result", &json!({ "results": reports }));
            assert_eq!(reply.status, 200, "{reply:?}");
            done += held.len();
        }
    }
}

#[test]
fn who_comes_back_again_and_again_misses_nothing() {
    let site = Site::new();
    let (tasks, reconnects) = load();
    // Submitted, claimed, completed; and one worker that joined.
    let expected = (3 * tasks + 1) as u64;
    let each = expected / reconnects as u64;
    let (mut listener, _) = Listener::live(&site, "");
    std::thread::scope(|scope| {
        scope.spawn(|| flow(&site, tasks));
        let (mut heard, mut connections) = (0, 1);
        let (mut last, mut completed) = (None, 0);
        let mut seen;
        while heard < expected {
            let event = listener.expect();
            if event.id.is_none() || event.kind.starts_with("system.") {
                continue;
            }
            if let Some(last) = last {
                assert_eq!(event.seq(), last + 1, "{event:?}");
            }
            (last, seen) = (Some(event.seq()), event.cursor());
            completed += usize::from(event.kind == "task.completed");
            heard += 1;
            if heard % each == 0 && heard < expected {
                listener = Listener::open(&site, "", Some(&seen));
                connections += 1;
            }
        }
        assert_eq!(completed, tasks);
        assert!(connections >= reconnects, "{connections} connections");
    });
}

#[test]
fn a_cursor_in_the_address_resumes_too() {
    let site = Site::new();
    let (mut listener, _) = Listener::live(&site, "");
    let (first, second) = (site.submit(json!({})), site.submit(json!({})));
    let heard = listener.expect_kind("task.submitted");
    assert_eq!(heard.data["data"]["task_id"], first);
    let mut again = Listener::open(&site, &format!("cursor={}", heard.cursor()), None);
    assert_eq!(again.expect().data["data"]["task_id"], second);
}

#[test]
fn the_oldest_that_is_kept_can_be_asked_for() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let mut listener = Listener::open(&site, &format!("cursor={}", "0".repeat(32)), None);
    assert_eq!(listener.expect().data["data"]["task_id"], id);
}

#[test]
fn only_what_was_asked_for_comes() {
    let site = Site::new();
    let (mut kinds, _) = Listener::live(&site, "kinds=worker.*,task.cancelled");
    let (mut queue, _) = Listener::live(&site, "queue=mail,fax&kinds=task.submitted");
    let (mut types, _) = Listener::live(&site, "type=b&kinds=task.*");
    site.submit(json!({}));
    let worker = site.worker();
    let mail = site.submit(json!({"queue": "mail"}));
    let other = site.post("/api/v1/tasks", &json!({"type": "b"})).string("/id");
    site.delete(&format!("/api/v1/tasks/{mail}"));
    let (mut task, _) = Listener::live(&site, &format!("task_id={other}&kinds=task.cancelled"));
    site.delete(&format!("/api/v1/tasks/{other}"));
    assert_eq!(kinds.expect().data["data"]["worker_id"], worker.id);
    assert_eq!(kinds.expect().data["data"]["task_id"], mail);
    assert_eq!(queue.expect().data["data"]["task_id"], mail);
    assert_eq!(types.expect().data["data"]["task_id"], other);
    let heard = task.expect();
    assert_eq!(
        (heard.kind.as_str(), &heard.data["data"]["task_id"]),
        ("task.cancelled", &json!(other))
    );
}

#[test]
fn bad_wishes_are_refused() {
    let site = Site::new();
    for path in ["/events", "/api/v1/events", "/ws", "/api/v1/ws"] {
        site.get(&format!("{path}?color=red")).refused(422, "validation-failed");
        site.get(&format!("{path}?kinds=nothing")).refused(422, "validation-failed");
        site.get(&format!("{path}?cursor=xyz")).refused(400, "invalid-cursor");
    }
    let header = [("last-event-id", "xyz")];
    site.send("GET", "/events", &header, b"").refused(400, "invalid-cursor");
}

#[test]
fn who_is_behind_what_is_kept_is_told_of_the_gap() {
    let site = Site::with(|settings, _| {
        settings.prune.events_max = 100;
        settings.prune_every = Duration::from_millis(5);
        settings.slow_reader_after = Duration::from_secs(600);
    });
    let (mut listener, hello) = Listener::live(&site, "");
    // More than stay in memory, so that the store has to answer.
    for _ in 0..8 {
        submit_many(&site, 10_000, "a", "default");
    }
    while listener.expect().data["seq"].as_u64() != Some(80_000) {}
    let pruned = || {
        let mut late = Listener::open(&site, "", Some(&hello.cursor()));
        let first = late.expect();
        (first.kind == "system.gap").then_some((late, first))
    };
    site.eventually("old events are removed", || pruned().is_some());
    let (mut late, gap) = pruned().unwrap();
    assert_eq!(gap.data["data"]["gap"], "retention");
    let next = late.expect();
    assert_eq!(next.kind, "task.submitted");
    let mut again = Listener::open(&site, "", Some(&gap.cursor()));
    let heard = again.expect();
    assert!(heard.kind == "system.gap" || heard.seq() >= next.seq(), "{heard:?}");
}

#[test]
fn a_cursor_of_another_life_is_told_of_a_restore() {
    let site = Site::new();
    let id = site.submit(json!({}));
    let foreign = format!("{:016x}{:016x}", 77, 1);
    let mut listener = Listener::open(&site, "", Some(&foreign));
    let gap = listener.expect();
    assert_eq!((gap.kind.as_str(), &gap.data["data"]["gap"]), ("system.gap", &json!("restore")));
    assert_eq!(listener.expect().data["data"]["task_id"], id);
}

/// Names as long as they may be, so that few events fill the buffers of a connection; no more tasks
/// than a queue takes.
pub(crate) fn flood(site: &Site, until: impl Fn() -> bool) {
    let name = "n".repeat(128);
    let mut submitted = 0;
    while !until() {
        if submitted < 400_000 {
            submit_many(site, 2_000, &name, &name);
            submitted += 2_000;
        } else {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn who_falls_too_far_behind_is_told_and_dropped() {
    let site = Site::with(|settings, _| settings.slow_reader_behind = 1_000);
    let mut listener = Listener::on(connect_narrow(site.address), "kinds=task.*", None);
    let hello = listener.expect();
    assert_eq!(hello.kind, "system.hello");
    site.submit(json!({}));
    assert_eq!(listener.expect().kind, "task.submitted");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&site, || over.load(Ordering::Relaxed)));
        let (mut before, mut last) = (None, None);
        while let Some(heard) = listener.next() {
            // Reads on, but not as fast as it comes.
            std::thread::sleep(Duration::from_millis(1));
            before = last.replace(heard);
        }
        over.store(true, Ordering::Relaxed);
        let gap = last.unwrap();
        assert_eq!(gap.kind, "system.gap", "{gap:?}");
        assert_eq!(Some(gap.cursor()), before.map(|before: Heard| before.cursor()));
        assert_eq!(gap.data["data"]["gap"], "slow_reader");
        let mut again = Listener::open(&site, "", Some(&gap.cursor()));
        assert_eq!(again.expect().kind, "task.submitted", "its cursor is where it left off");
    });
}

#[test]
fn who_takes_nothing_any_more_is_cut_off() {
    let site = Site::with(|settings, _| {
        settings.slow_reader_after = Duration::from_millis(200);
    });
    let mut listener = Listener::on(connect_narrow(site.address), "", None);
    assert_eq!(listener.expect().kind, "system.hello");
    let started = Instant::now();
    flood(&site, || {
        assert_within(started, Duration::from_secs(20));
        site.engine.feed().readers() == 0
    });
    assert!(listener.ends());
}

#[test]
fn the_end_of_the_server_ends_streams() {
    let site = Site::new();
    let mut streams: Vec<_> = (0..5).map(|_| Listener::live(&site, "").0).collect();
    let started = Instant::now();
    site.begin_shutdown();
    for stream in &mut streams {
        let last = stream.expect_kind("system.shutdown");
        assert_eq!(last.retry.as_deref(), Some("1000"));
        assert_eq!(last.data["data"]["retry_after_ms"], 1_000);
        assert!(stream.next().is_none());
    }
    assert!(site.ended().is_ok());
    assert_within(started, Duration::from_secs(2));
}

/// Whether a reader in whose way the end came was told so; then by where it is.
fn is_told_of_the_end_in_the_middle() -> bool {
    let site = Site::new();
    let mut listener = Listener::on(connect_narrow(site.address), "kinds=task.*", None);
    let mut last = listener.expect();
    assert_eq!(last.kind, "system.hello");
    for _ in 0..5 {
        submit_many(&site, 2_000, &"n".repeat(128), &"n".repeat(128));
    }
    site.begin_shutdown();
    let mut received = 0;
    while let Some(heard) = listener.next() {
        if heard.kind == "system.shutdown" {
            assert_eq!(heard.cursor(), last.cursor(), "behind what came, after {received}");
            return received < 10_000;
        }
        (last, received) = (heard, received + 1);
    }
    false
}

#[test]
fn who_is_told_of_the_end_goes_on_where_it_was() {
    // One that does not read in time is not told, and one that has everything was not in the middle.
    assert!((0..5).any(|_| is_told_of_the_end_in_the_middle()));
}

#[test]
fn the_server_ends_though_a_reader_takes_nothing() {
    let site = Site::new();
    let mut listener = Listener::on(connect_narrow(site.address), "", None);
    assert_eq!(listener.expect().kind, "system.hello");
    for _ in 0..5 {
        submit_many(&site, 2_000, &"n".repeat(128), &"n".repeat(128));
    }
    let started = Instant::now();
    assert!(site.ended().is_ok());
    assert_within(started, Duration::from_secs(5));
    drop(listener);
}

#[test]
fn a_purge_is_told_once_for_each_queue_that_lost_tasks() {
    let site = Site::new();
    let (mut listener, _) = Listener::live(&site, "kinds=queue.purged,queue.updated");
    for queue in ["mail", "post", "mail"] {
        site.submit(json!({ "queue": queue }));
    }
    site.submit(json!({"queue": "urgent", "priority": "high"}));
    assert_eq!(site.delete("/admin/queues/normal").json()["changed"], 3);
    assert_eq!(site.delete("/admin/queues/normal").json()["changed"], 0);
    assert_eq!(site.post_text("/admin/queues/mail/resume", "").status, 200);
    for (kind, queue) in [("purged", "mail"), ("purged", "post"), ("updated", "mail")] {
        let heard = listener.expect();
        assert_eq!(heard.kind, format!("queue.{kind}"));
        assert_eq!(heard.data["data"]["queue"], queue);
    }
}

#[test]
fn there_is_room_for_so_many_readers_and_no_more() {
    let site = Site::new();
    let places: Vec<_> =
        std::iter::from_fn(|| site.engine.feed().enter(tasklane_server::engine::Through::Stream))
            .collect();
    assert_eq!(places.len(), tasklane_server::limits::READERS_MAX);
    site.get("/events").refused(503, "overloaded");
    drop(places);
    Listener::live(&site, "");
}

#[test]
fn a_reader_that_leaves_frees_its_place() {
    let site = Site::new();
    let (listener, _) = Listener::live(&site, "");
    assert_eq!(site.engine.feed().readers(), 1);
    drop(listener);
    // The next write finds nobody there.
    site.eventually("the place is free", || {
        site.submit(json!({}));
        site.engine.feed().readers() == 0
    });
}

/// Prints how long it takes from a call's answer back to its event; see the figures it prints.
#[test]
fn an_event_is_there_soon_after_its_call() {
    let site = Site::new();
    let (mut listener, _) = Listener::live(&site, "kinds=task.submitted");
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let started = Instant::now();
            let id = site.submit(json!({}));
            let heard = listener.expect();
            assert_eq!(heard.data["data"]["task_id"], id);
            started.elapsed()
        })
        .collect();
    times.sort();
    println!("submit to event: p50 {:?}, p99 {:?}", times[100], times[197]);
    // Without its hint each would wait for the next look.
    assert!(times[20] < Duration::from_millis(100), "{:?}", times[20]);
}
