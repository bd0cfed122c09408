use std::time::Duration;

use serde_json::{Value, json};
use tasklane_client::wire::Event;

use super::*;

fn depth(depth: u64, age: u64, running: u64) -> Value {
    json!({"depth": depth, "oldest_age_seconds": age, "running": running})
}

fn depths() -> Value {
    json!({"critical": depth(0, 0, 0), "high": depth(3, 5, 1), "normal": depth(1_500, 200, 2),
        "low": depth(0, 0, 0)})
}

/// A server with two queues, two workers and a dead letter.
pub(in crate::top) fn seen(at_seconds: u64, submitted: f64) -> Update {
    let stats = json!({"queues": depths(), "scheduled": 4, "retrying": 1, "blocked": 0,
        "dlq_size": 1, "total_tasks": 1_600,
        "workers": {"active": 1, "paused": 0, "draining": 1, "unhealthy": 0, "dead": 0,
            "total_capacity": 20, "used_capacity": 3},
        "throughput": {"completed_last_minute": 60, "failed_last_minute": 1,
            "avg_task_duration_seconds": 0.5},
        "waits": {"p50_seconds": 0.004, "p95_seconds": 1.5, "max_bound_seconds": 3_600},
        "recovery": {"lease_losses_last_hour": 0, "timeouts_last_hour": 0}});
    let health = json!({"status": "ok", "version": "0.1.0", "durability": "fsync",
        "now": "2026-11-15T12:00:00Z", "uptime_seconds": 185, "workers": stats["workers"],
        "parked_polls": 1, "open_breakers": 0});
    let worker = |number: u32, name: &str, state: &str| {
        json!({"worker_id": format!("0198f000-0000-7000-8000-00000000000{number}"), "name": name,
            "state": state, "breaker": "closed", "consecutive_failures": 0, "capabilities": [],
            "capacity": 10, "leases": 2, "registered_at": "2026-11-15T11:00:00Z",
            "seen_at": "2026-11-15T11:59:57Z"})
    };
    let dead = json!({"id": "0198f000-0000-7000-8000-0000000000aa", "type": "email.send",
        "queue": "mail", "priority": "normal", "effective_priority": "normal",
        "state": "dead_letter", "reason": "permanent", "attempts": 1, "max_retries": 3,
        "deliveries": 1, "lease_losses": 0, "replays": 0, "timeout_seconds": 300,
        "error": {"message": "no such mailbox", "kind": "permanent"},
        "created_at": "2026-11-15T11:00:00Z", "updated_at": "2026-11-15T11:58:00Z",
        "age_seconds": 3_600, "state_seconds": 120, "trace_id": "00", "required_capabilities": [],
        "retry": {"strategy": "exponential"}, "metadata": {}});
    let queue = |name: &str, paused: bool, depths| QueueLine {
        name: name.into(),
        paused,
        depth: 1_503,
        depths,
    };
    let workers = [worker(1, "alpha", "active"), worker(2, "beta", "draining")];
    let read = |worker: Value| serde_json::from_value(worker).unwrap();
    Update::Seen(Box::new(Seen {
        at: Duration::from_secs(at_seconds),
        stats: serde_json::from_value(stats).unwrap(),
        health: Some(serde_json::from_value(health).unwrap()),
        counters: Some(Counters { submitted, completed: submitted / 2.0, failed: 0.0 }),
        queues: Ok(vec![
            queue("default", false, Some(serde_json::from_value(depths()).unwrap())),
            queue("mail", true, None),
        ]),
        workers: Ok(workers.into_iter().map(read).collect()),
        dead_letters: Ok(vec![serde_json::from_value(dead).unwrap()]),
    }))
}

pub(in crate::top) fn event(kind: &str) -> Update {
    let event: Event = serde_json::from_value(json!({"v": 1, "type": kind,
        "timestamp": "2026-11-15T11:59:55Z",
        "data": {"queue": "mail", "type": "email.send", "error": {"kind": "bug", "code": "E7", "retryable": false}}}))
    .unwrap();
    Update::Event(Box::new(event))
}

pub(in crate::top) fn watching() -> State {
    let mut state = State::new("http://127.0.0.1:7170");
    state.apply(seen(0, 0.0));
    state.apply(seen(1, 1_000.0));
    state.apply(event("task.failed"));
    state
}

fn press(state: &mut State, keys: &str) -> Option<Command> {
    keys.chars().map(|key| state.press(Key::Character(key))).last().flatten()
}

#[test]
fn rates_come_from_two_looks() {
    let mut state = State::new("http://a");
    state.apply(seen(0, 500.0));
    assert_eq!(state.submitted.last(), None);
    state.apply(seen(2, 1_500.0));
    assert_eq!((state.submitted.last(), state.completed.last()), (Some(500.0), Some(250.0)));
}

#[test]
fn a_server_that_is_away_keeps_what_was_seen_and_comes_back() {
    let mut state = watching();
    state.apply(Update::Away("refused".to_owned()));
    assert_eq!(state.away.as_deref(), Some("refused"));
    assert_eq!(state.queues().len(), 2);
    state.apply(seen(3, 1_200.0));
    assert_eq!(state.away, None);
}

#[test]
fn nothing_is_done_before_it_is_confirmed() {
    let mut state = watching();
    assert_eq!(press(&mut state, "p"), None);
    assert_eq!(state.mode, Mode::Confirm(Action::PauseQueue("default".into())));
    assert_eq!(press(&mut state, "n"), None);
    assert_eq!(state.mode, Mode::Look);
    let pause = Command::Act(Action::PauseQueue("default".into()));
    assert_eq!(press(&mut state, "py"), Some(pause));
    assert_eq!(state.mode, Mode::Look);
    state.press(Key::Down);
    let resume = Command::Act(Action::ResumeQueue("mail".into()));
    assert_eq!(press(&mut state, "py"), Some(resume), "a paused queue is resumed");
}

#[test]
fn a_worker_is_drained_and_a_dead_letter_replayed() {
    let mut state = watching();
    press(&mut state, "d");
    assert_eq!(state.focus, Panel::Workers);
    let Some(Command::Act(Action::DrainWorker(_, name))) = press(&mut state, "y") else {
        panic!("no worker is drained")
    };
    assert_eq!(name, "alpha");
    let Some(Command::Act(Action::Replay(id, _))) = press(&mut state, "ry") else {
        panic!("nothing is replayed")
    };
    assert_eq!(id.to_string(), "0198f000-0000-7000-8000-0000000000aa");
    state.apply(Update::Acted(Err("insufficient-scope".to_owned())));
    assert_eq!(state.said, Some(Err("insufficient-scope".to_owned())));
}

#[test]
fn a_filter_narrows_every_panel_and_what_keys_mean() {
    let mut state = watching();
    press(&mut state, "/mail");
    assert_eq!(state.mode, Mode::Filter, "p in a filter is a letter");
    state.press(Key::Enter);
    assert_eq!((state.queues().len(), state.workers().len()), (1, 0));
    assert_eq!((state.dead_letters().len(), state.shown_events().count()), (1, 1));
    press(&mut state, "d");
    assert_eq!(state.mode, Mode::Look, "there is no worker to drain");
    assert!(matches!(state.said, Some(Err(_))));
    press(&mut state, "p");
    assert_eq!(state.mode, Mode::Confirm(Action::ResumeQueue("mail".into())));
    state.press(Key::Escape);
    state.press(Key::Escape);
    assert_eq!((state.filter.as_str(), state.queues().len()), ("", 2));
}

#[test]
fn a_choice_stays_within_its_list() {
    let mut state = watching();
    for _ in 0..5 {
        state.press(Key::Down);
    }
    assert_eq!(state.chosen(Panel::Queues), 1);
    press(&mut state, "/def");
    assert_eq!(state.chosen(Panel::Queues), 0);
    state.press(Key::Enter);
    state.press(Key::Previous);
    assert_eq!(state.focus, Panel::Events);
    state.press(Key::Next);
    assert_eq!(state.focus, Panel::Queues);
}

#[test]
fn events_are_kept_in_number_and_all_can_be_followed() {
    let mut state = watching();
    for _ in 0..2 * EVENTS_KEPT {
        state.apply(event("task.retrying"));
    }
    assert_eq!(state.events.len(), EVENTS_KEPT);
    assert_eq!(press(&mut state, "e"), Some(Command::Follow(true)));
    assert_eq!(press(&mut state, "e"), Some(Command::Follow(false)));
    assert_eq!(press(&mut state, "q"), Some(Command::Quit));
    assert_eq!(state.press(Key::Interrupt), Some(Command::Quit));
}
