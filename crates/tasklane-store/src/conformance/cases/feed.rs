//! The feed: every change, once, in order (S17).

use std::time::Duration;

use tasklane_core::{CancelReason, EventKind, Intent, Priority, StateName};

use crate::conformance::Fixture;
use crate::conformance::drafting::{capabilities, chosen_id, days, draft, queue, secs};
use crate::conformance::scene::{Held, Scene};
use crate::{Cursor, Direction, Position, Prune, Reason, Subject, WorkerChange};

/// A bit of everything.
fn bustle<F: Fixture>(scene: &Scene<'_, F>) {
    let worker = scene.worker();
    scene.submit_all((0..7).map(|_| draft("a")));
    let held = scene.claim(worker, 5);
    scene.complete(&held[0]);
    scene.fail(&held[1]);
    scene.cancel(held[2].id);
    scene.direct(worker, Direction::Pause).unwrap();
    scene.configure("default", tasklane_core::QueueSettings::default());
    scene.pass(secs(1));
    scene.maintain();
    scene.release(&held[3], None);
}

fn keep_events(events_for: Duration, events_max: u64) -> Prune {
    Prune { events_for, events_max, ..Prune::default() }
}

pub fn every_change_is_one_event(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let head = scene.head();
    let id = scene.submit(draft("a"));
    let held = scene.assign(worker);
    scene.start(&held);
    scene.fail(&held);
    scene.pass(secs(1));
    scene.maintain();
    scene.complete(&scene.claim_one(worker));
    use EventKind::{Claimed, Completed, Due, Retrying, Started, Submitted};
    let kinds = [Submitted, Claimed, Started, Retrying, Due, Claimed, Completed];
    assert_eq!(scene.happened(head), kinds.map(|kind| (id, kind)));
}

pub fn an_event_tells_the_states_around_it(fixture: &mut impl Fixture) {
    use StateName::{
        Assigned, Blocked, Cancelled, Completed, Pending, Retrying, Running, Scheduled,
    };
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let head = scene.head();
    scene.submit(draft("a").ordered_by("k"));
    scene.submit(draft("a").ordered_by("k"));
    let held = scene.assign(worker);
    scene.start(&held);
    scene.fail(&held);
    scene.pass(secs(1));
    scene.maintain();
    scene.complete(&scene.claim_one(worker));
    let held = scene.claim_one(worker);
    scene.release(&held, Some(secs(9)));
    scene.cancel(held.id);
    scene.command(held.id, Intent::Discard).unwrap();
    let told = scene.follow(head, 1_000).into_iter().filter_map(|event| match event.subject {
        Subject::Task(notice) => Some((notice.from, notice.to)),
        Subject::Worker(..) | Subject::Queue(..) => None,
    });
    let expected = [
        (None, Pending),
        (None, Blocked),
        (Some(Pending), Assigned),
        (Some(Assigned), Running),
        (Some(Running), Retrying),
        (Some(Retrying), Pending),
        (Some(Pending), Running),
        (Some(Running), Completed),
        (Some(Blocked), Pending),
        (Some(Pending), Running),
        (Some(Running), Scheduled),
        (Some(Scheduled), Cancelled),
        (Some(Cancelled), Cancelled),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

pub fn a_batch_is_told_task_by_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let head = scene.head();
    let ids = scene.submit_all((0..5).map(|_| draft("a")));
    let expected: Vec<_> = ids.iter().map(|id| (*id, EventKind::Submitted)).collect();
    assert_eq!(scene.happened(head), expected);
    let head = scene.head();
    let held = scene.claim(scene.worker(), 5);
    let expected: Vec<_> = held.iter().map(|held| (held.id, EventKind::Claimed)).collect();
    assert_eq!(scene.happened(head), expected);
}

pub fn numbers_rise_and_times_are_the_stores(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let start = scene.now();
    bustle(&scene);
    let events = scene.follow(Cursor::OLDEST, 1_000);
    assert!(events.is_sorted_by(|a, b| a.position < b.position));
    assert!(events.is_sorted_by_key(|event| event.at));
    assert_eq!((events[0].at, events.last().unwrap().at), (start, scene.now()));
    assert_eq!(events.last().unwrap().position, scene.head().position);
}

pub fn pages_of_any_size_make_the_same_feed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    bustle(&scene);
    let whole = scene.follow(Cursor::OLDEST, 1_000);
    for limit in [1, 2, 3, 7] {
        assert_eq!(scene.follow(Cursor::OLDEST, limit), whole, "pages of {limit}");
    }
}

pub fn a_cursor_in_the_middle_of_a_write_misses_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all((0..6).map(|_| draft("a")));
    let whole = scene.follow(Cursor::OLDEST, 1_000);
    let epoch = scene.head().epoch;
    for (n, event) in whole.iter().enumerate() {
        let cursor = Cursor { epoch, position: event.position };
        assert_eq!(scene.follow(cursor, 2), whole[n + 1..]);
    }
}

pub fn nothing_follows_the_head(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let page = scene.feed_page(scene.head(), 10);
    assert_eq!((page.events, page.gap, page.next), (vec![], false, scene.head()));
    bustle(&scene);
    let page = scene.feed_page(scene.head(), 10);
    assert_eq!((page.events, page.gap, page.next), (vec![], false, scene.head()));
}

pub fn a_follower_gets_each_event_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let mut cursor = scene.head();
    let mut seen = Vec::new();
    for _ in 0..5 {
        bustle(&scene);
        let page = scene.feed_page(cursor, 1_000);
        seen.extend(page.events);
        cursor = page.next;
    }
    assert_eq!(seen, scene.follow(Cursor::OLDEST, 1_000));
}

pub fn a_cursor_survives_as_text(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    bustle(&scene);
    let head = scene.head();
    assert_eq!(head.to_string().parse::<Cursor>().unwrap(), head);
    let id = scene.submit(draft("z"));
    let again = head.to_string().parse().unwrap();
    assert_eq!(scene.happened(again), [(id, EventKind::Submitted)]);
}

pub fn a_claim_tells_who_and_with_which_fence(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let task = draft("mail").queue("q").needing(&[]).priority(Priority::High);
    let id = scene.submit(task);
    let head = scene.head();
    let held = scene.claim_one(scene.worker());
    let notice = scene.notices(head).remove(0);
    assert_eq!((notice.id, notice.kind), (id, EventKind::Claimed));
    assert_eq!((notice.worker, notice.fence), (Some(held.worker), Some(held.fence)));
    assert_eq!((notice.started, notice.attempt, notice.priority), (true, 1, Priority::High));
    assert_eq!((notice.lane.queue, notice.lane.capabilities), (queue("q"), capabilities(&[])));
    let head = scene.head();
    scene.command(id, Intent::Requeue).unwrap();
    scene.assign(scene.worker());
    assert!(!scene.notices(head).pop().unwrap().started);
}

pub fn a_claim_tells_how_long_its_task_was_ready(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let waited = |held: &Held| {
        let notices = scene.notices(Cursor::OLDEST).into_iter();
        let of_claims = notices.filter(|notice| notice.id == held.id && notice.fence.is_some());
        of_claims.map(|notice| notice.waited).collect::<Vec<_>>()
    };
    scene.submit(draft("a").after(secs(10)));
    scene.pass(secs(13));
    scene.maintain();
    let held = scene.claim_one(scene.worker());
    assert_eq!(waited(&held), [Some(secs(3))], "from the time it was for");
    scene.pass(secs(4));
    scene.fail(&held);
    scene.pass(secs(1));
    scene.maintain();
    scene.set_wall(scene.now().minus(secs(60)));
    let held = scene.claim_one(scene.worker());
    assert_eq!(waited(&held), [Some(secs(3)), Some(secs(0))], "never less than nothing");
    let notices = scene.notices(Cursor::OLDEST);
    assert!(notices.iter().all(|n| n.waited.is_some() == (n.kind == EventKind::Claimed)));
}

pub fn an_end_tells_how_long_it_took_and_why(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(4));
    let head = scene.head();
    scene.complete(&held);
    let expiring = scene.submit(draft("a").expires_after(secs(1)));
    scene.pass(secs(1));
    scene.maintain();
    let notices = scene.notices(head);
    assert_eq!(notices[0].duration, Some(secs(4)));
    assert_eq!((notices[0].worker, notices[0].attempt), (Some(held.worker), 1));
    assert_eq!(notices[2].id, expiring);
    assert_eq!(notices[2].reason, Some(Reason::Cancelled(CancelReason::Expired)));
}

pub fn a_pause_until_later_tells_until_when(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let head = scene.head();
    scene.submit(draft("a").after(secs(5)));
    scene.submit(draft("b"));
    let held = scene.claim_one(scene.worker());
    scene.release(&held, Some(secs(7)));
    scene.pass(secs(7));
    scene.maintain();
    let held = scene.claim(scene.worker(), 2);
    let failed = scene.fail(&held[0]);
    let told: Vec<_> = scene.notices(head).into_iter().filter_map(|n| n.due_at).collect();
    let start = scene.now().minus(secs(7));
    assert_eq!(told, [start.plus(secs(5)), start.plus(secs(7)), failed.due_at.unwrap()]);
}

pub fn what_is_refused_is_not_told(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let worker = scene.worker();
    let head = scene.head();
    assert!(scene.command(id, Intent::Requeue).is_err());
    assert!(scene.command(chosen_id(1, 1), Intent::Cancel).is_err());
    assert!(scene.offer_one(draft("a").expires_at(scene.now())).is_err());
    assert!(scene.direct(worker, Direction::DeclareDead).is_err());
    assert_eq!(scene.claim(worker, 0), []);
    scene.renew_all(worker);
    assert_eq!(scene.head(), head);
}

pub fn workers_and_queues_share_the_order_of_tasks(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let head = scene.head();
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    scene.direct(worker, Direction::Drain).unwrap();
    let subjects = scene.follow(head, 1).into_iter().map(|event| event.subject);
    let told: Vec<_> = subjects
        .map(|subject| match subject {
            Subject::Task(notice) => (Some(notice.id), None),
            Subject::Worker(_, change) => (None, Some(change)),
            Subject::Queue(..) => (None, None),
        })
        .collect();
    use WorkerChange::{Draining, Joined};
    assert_eq!(told, [(None, Some(Joined)), (Some(id), None), (None, Some(Draining))]);
}

pub fn a_reader_behind_what_is_kept_is_told_of_the_gap(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    bustle(&scene);
    let early = Cursor { position: Position(1), ..scene.head() };
    scene.pass(days(2));
    let head = scene.head();
    scene.submit(draft("z"));
    let kept = scene.follow(head, 1_000);
    let pruned = scene.prune(keep_events(days(1), 10_000_000));
    assert!(pruned.events > 0);
    let page = scene.feed_page(early, 1_000);
    assert!(page.gap);
    assert_eq!(page.events, kept, "it goes on with the oldest kept");
    assert!(!scene.feed_page(page.next, 1_000).gap, "and is told once");
    assert!(!scene.feed_page(head, 1_000).gap, "a reader that was not behind misses nothing");
}

pub fn the_oldest_cursor_never_reports_a_gap(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    bustle(&scene);
    scene.pass(days(2));
    let id = scene.submit(draft("z"));
    scene.prune(keep_events(days(1), 10_000_000));
    assert_eq!(scene.happened(Cursor::OLDEST), [(id, EventKind::Submitted)]);
}

pub fn events_are_kept_by_number_too(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    for _ in 0..20 {
        scene.submit(draft("a"));
    }
    let whole = scene.follow(Cursor::OLDEST, 1_000);
    let pruned = scene.prune(keep_events(days(1), 5));
    assert_eq!(pruned.events, 15);
    assert_eq!(scene.follow(Cursor::OLDEST, 1_000), whole[15..]);
}

pub fn a_cursor_of_another_life_is_a_gap(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    bustle(&scene);
    let head = scene.head();
    let other = Cursor { epoch: head.epoch ^ 1, ..head };
    let page = scene.feed_page(other, 1_000);
    assert!(page.gap);
    assert_eq!(page.next.epoch, head.epoch);
    assert_eq!(page.events, scene.follow(Cursor::OLDEST, 1_000));
}
