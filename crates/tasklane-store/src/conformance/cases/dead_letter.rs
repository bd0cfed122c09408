//! Dead letters: kept whole, listed, revived, removed (S14).

use bytes::Bytes;
use tasklane_core::{
    DeadReason, ErrorKind, Event, EventKind, Failure, Intent, Outcome, Refusal, State, StateName,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{chosen_id, draft, secs};
use crate::conformance::scene::Scene;
use crate::{Filter, Reason};

fn dead_letters() -> Filter {
    Filter { states: vec![StateName::DeadLetter], ..Filter::default() }
}

pub fn a_dead_letter_keeps_its_payload_and_every_error(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").payload("[1,2]").retries(2));
    let mut workers = Vec::new();
    for n in 0..3 {
        let held = scene.claim_one(scene.worker());
        workers.push(held.worker);
        let details = Bytes::from(format!("{{\"n\":{n}}}"));
        let failure = Failure::new(ErrorKind::Transient, &format!("error {n}"))
            .with_stack(&format!("stack {n}"))
            .with_details(details);
        scene.settle(&held, Outcome::Failed { failure, retry_after: Some(secs(1)) }).unwrap();
        scene.pass(secs(1));
        scene.maintain();
    }
    assert_eq!(scene.state(id), StateName::DeadLetter);
    assert_eq!(scene.stored(id).unwrap().payload, "[1,2]");
    let entries = scene.trail(id).entries;
    let errors = entries.iter().filter_map(|entry| entry.event.failure());
    let told: Vec<_> = errors
        .map(|error| (error.message.to_string(), error.stack.as_deref().map(String::from)))
        .collect();
    let expected = |n| (format!("error {n}"), Some(format!("stack {n}")));
    assert_eq!(told, [expected(0), expected(1), expected(2)]);
    let claimed_by = entries.iter().filter_map(|entry| match entry.event {
        Event::Claimed { worker, .. } => Some(worker),
        _ => None,
    });
    assert_eq!(claimed_by.collect::<Vec<_>>(), workers);
}

pub fn a_task_that_wants_no_dead_letter_is_failed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.dead(draft("a").without_dead_letter());
    let State::Failed { ended, reason } = scene.task(id).state else { panic!("not failed") };
    assert_eq!((ended.at, reason), (scene.now(), DeadReason::NotRetryable));
    assert_eq!(scene.kinds(id).last(), Some(&EventKind::Failed));
}

pub fn a_task_that_is_refused_is_a_dead_letter_without_an_attempt(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let refuse = || Intent::Refuse("not like this".into());
    let id = scene.submit(draft("a").without_dead_letter());
    assert_eq!(scene.command(id, refuse()).unwrap().state, StateName::DeadLetter);
    let task = scene.task(id);
    assert!(matches!(task.state, State::DeadLetter { reason: DeadReason::Refused, .. }));
    assert_eq!(task.counts.attempts, 0);
    assert_eq!(task.error.unwrap().message.as_ref(), "not like this");
    assert_eq!(scene.kinds(id).last(), Some(&EventKind::DeadLettered));
    // An operator may see it otherwise.
    scene.command(id, Intent::Retry { reset_attempts: true, priority: None }).unwrap();
    let held = scene.claim_one(scene.worker());
    let refused = Err(Refusal::InvalidState { current: StateName::Running });
    assert_eq!(scene.command(held.id, refuse()), refused);
}

pub fn the_feed_tells_why_a_task_died(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a").retries(0));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(3));
    let head = scene.head();
    scene.fail(&held);
    let notice = scene.notices(head).remove(0);
    assert_eq!(notice.kind, EventKind::DeadLettered);
    assert_eq!(notice.reason, Some(Reason::Dead(DeadReason::RetriesExhausted)));
    assert_eq!((notice.duration, notice.worker), (Some(secs(3)), Some(held.worker)));
    assert_eq!(notice.error.unwrap().message.as_ref(), "boom");
    assert_eq!(notice.attempt, 1);
}

pub fn dead_letters_are_found_by_their_error(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let die = |message, code| {
        let id = scene.submit(draft("a"));
        let failure = Failure::new(ErrorKind::Bug, message).with_code(code);
        let outcome = Outcome::Failed { failure, retry_after: None };
        scene.settle(&scene.claim_one(scene.worker()), outcome).unwrap();
        id
    };
    let refused = die("connection REFUSED by db", "ECONN");
    let reset = die("connection reset", "ERESET");
    let percent = die("100% of disk_used", "E_DISK");
    scene.completed(draft("a"));
    let find = |text: &str| {
        let mut found = scene.list(Filter { error: Some(text.into()), ..dead_letters() });
        found.sort();
        found
    };
    assert_eq!(find("Connection"), [refused, reset]);
    assert_eq!(find("refused"), [refused]);
    assert_eq!(find("ereset"), [reset]);
    assert_eq!(find("100%"), [percent], "nothing in the text is a wildcard");
    assert_eq!(find("k_u"), [percent]);
    assert_eq!(find("c_n"), []);
}

pub fn a_dead_letter_can_be_revived_and_completed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.dead(draft("a"));
    scene.pass(secs(5));
    assert_eq!(scene.retry(id).state, StateName::Pending);
    let task = scene.task(id);
    assert_eq!((task.id, task.counts.replays), (id, 1));
    let held = scene.claim_one(scene.worker());
    scene.complete(&held);
    assert_eq!(scene.list(dead_letters()), []);
    use EventKind::{Claimed, Completed, DeadLettered, Replayed, Submitted};
    let expected = [Submitted, Claimed, DeadLettered, Replayed, Claimed, Completed];
    assert_eq!(scene.kinds(id), expected);
}

pub fn many_dead_letters_are_revived_by_filter(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all((0..25).map(|n| draft(["a", "b"][n % 2]).retries(0)));
    for held in scene.claim(scene.worker(), 25) {
        scene.fail(&held);
    }
    let types = tasklane_core::Names::only(["a"]).unwrap();
    let found = scene.list(Filter { types, ..dead_letters() });
    assert_eq!(found.len(), 13);
    for id in found {
        scene.retry(id);
    }
    assert_eq!(scene.count(StateName::Pending), 13);
    assert_eq!(scene.count(StateName::DeadLetter), 12);
}

pub fn a_discarded_task_is_gone(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.dead(draft("a"));
    let head = scene.head();
    let changed = scene.command(id, Intent::Discard).unwrap();
    assert_eq!(changed.state, StateName::DeadLetter);
    assert_eq!(scene.happened(head), [(id, EventKind::Discarded)]);
    assert_eq!(scene.stored(id), None);
    assert_eq!(scene.ask(|store| store.trail(id)), None);
    assert_eq!(scene.list(Filter::default()), []);
    assert_eq!(scene.count(StateName::DeadLetter), 0);
    assert_eq!(scene.command(id, Intent::Discard), Err(Refusal::NotFound));
}

pub fn every_ended_task_can_be_discarded(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let cancelled = scene.submit(draft("a"));
    scene.cancel(cancelled);
    let failed = scene.dead(draft("a").without_dead_letter());
    for id in [cancelled, failed, scene.completed(draft("a"))] {
        scene.command(id, Intent::Discard).unwrap();
        assert_eq!(scene.stored(id), None);
    }
}

pub fn a_live_task_cannot_be_discarded(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let refused = |current| Err(Refusal::InvalidState { current });
    assert_eq!(scene.command(id, Intent::Discard), refused(StateName::Pending));
    scene.claim_one(scene.worker());
    assert_eq!(scene.command(id, Intent::Discard), refused(StateName::Running));
}

pub fn an_unknown_task_is_not_found(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let before = scene.snapshot();
    let unknown = chosen_id(1_790_000_000_000, 99);
    let retry = Intent::Retry { reset_attempts: false, priority: None };
    for intent in [retry, Intent::Cancel, Intent::Discard, Intent::Requeue, Intent::ComeDue] {
        assert_eq!(scene.command(unknown, intent), Err(Refusal::NotFound));
    }
    assert_eq!(scene.stored(unknown), None);
    assert_eq!(scene.ask(|store| store.trail(unknown)), None);
    assert_eq!(scene.snapshot(), before);
}
