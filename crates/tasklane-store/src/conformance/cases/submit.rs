//! Tasks come in whole, in order, and as they were sent.

use bytes::Bytes;
use tasklane_core::{Backoff, Counts, Place, Priority, State, StateName, Task};

use crate::Submission;
use crate::conformance::Fixture;
use crate::conformance::drafting::{Drafting, backoff, chosen_id, draft, hours, secs};
use crate::conformance::scene::Scene;

pub fn a_submitted_task_is_pending_with_every_member_as_sent(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let full = draft("mail.send")
        .queue("mail")
        .priority(Priority::High)
        .needing(&["eu", "smtp"])
        .payload("{\"to\":1}")
        .retries(7)
        .retry(backoff(Backoff::Linear, 3, 60))
        .timeout(secs(42))
        .expires_after(hours(1))
        .key("order-1")
        .ordered_by("customer-1")
        .labelled("tenant", "acme")
        .traced("00-1-2-01")
        .without_dead_letter();
    let id = scene.submit(full.clone());
    let stored = scene.stored(id).unwrap();
    let sent = full.build();
    assert_eq!((stored.task.spec, stored.payload), (sent.spec, sent.payload));
    assert_eq!((stored.task.state, stored.result), (State::READY, None));
    assert_eq!(stored.task.counts, Counts::default());
    assert_eq!(stored.task.timeout, secs(42));
    assert_eq!(stored.task.expires_at, Some(scene.now().plus(hours(1))));
    assert_eq!(stored.task.updated_at, scene.now());
}

pub fn the_place_of_a_new_task_is_its_admission(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let task = scene.task(scene.submit(draft("a")));
    let created = task.admission.created;
    assert_eq!(created.at, scene.now());
    assert_eq!(task.place, Place { ready_at: created.at, sequence: created.sequence });
}

pub fn a_submission_is_answered_in_its_order(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let taken = scene.offer(["a", "b", "c"].map(draft)).unwrap();
    let types = taken.iter().map(|task| scene.task(task.id).spec.lane.task_type.to_string());
    assert_eq!(types.collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(taken.iter().all(|task| task.state == StateName::Pending && !task.replayed));
    let places: Vec<_> = taken.iter().map(|task| scene.place(task.id)).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
}

pub fn submissions_of_one_call_are_taken_in_their_order(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let one = |name| Submission { tasks: vec![draft(name).build()] };
    let verdicts = scene.ask(|store| store.submit(vec![one("a"), one("b"), one("c")]));
    let ids: Vec<_> = verdicts.into_iter().map(|verdict| verdict.unwrap()[0].id).collect();
    assert_eq!(scene.claim_ids(scene.worker(), 10), ids);
}

pub fn an_empty_submission_is_taken_as_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let before = scene.snapshot();
    assert_eq!(scene.offer([]), Ok(vec![]));
    assert_eq!(scene.ask(|store| store.submit(vec![])), []);
    assert_eq!(scene.snapshot(), before);
}

pub fn a_chosen_id_is_kept(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = chosen_id(1_700_000_000_000, 7);
    assert_eq!(scene.submit(draft("a").id(id)), id);
    assert_eq!(scene.task(id).id, id);
}

/// A store may use a part of the id as its own key; clients choose ids that agree in it.
pub fn chosen_ids_that_agree_in_time_and_counter_are_different_tasks(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = chosen_id(1_700_000_000_000, 7);
    let mut bytes = *first.as_bytes();
    bytes[15] ^= 1;
    let second = tasklane_core::TaskId::from_bytes(bytes).unwrap();
    assert_eq!(first.row_key(), second.row_key());
    let ids = scene.submit_all([draft("a").id(first), draft("b").id(second)]);
    assert_eq!(ids, [first, second]);
    assert_eq!(scene.task(first).spec.lane.task_type.as_str(), "a");
    assert_eq!(scene.task(second).spec.lane.task_type.as_str(), "b");
    assert_eq!(scene.claim_ids(scene.worker(), 10), [first, second]);
}

pub fn ids_made_by_the_store_rise_whatever_the_clock_does(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let mut ids = scene.submit_all(["a"; 50].map(draft));
    ids.push(scene.submit(draft("b")));
    scene.pass(secs(1));
    ids.push(scene.submit(draft("c")));
    scene.set_wall(scene.now().minus(hours(1)));
    ids.extend(scene.submit_all(["d"; 3].map(draft)));
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

pub fn payloads_are_kept_byte_for_byte(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let wild: [&'static [u8]; 4] = [b"", b"\0\0", b"\xff\xfe'\"--", b"{\"a\": [1,  2]}\n"];
    let ids = scene.submit_all(wild.map(|bytes| draft("a").payload(Bytes::from_static(bytes))));
    for (id, bytes) in ids.iter().zip(wild) {
        assert_eq!(scene.stored(*id).unwrap().payload, bytes);
    }
    let claimed = scene.ask_for(scene.worker(), 10).unwrap();
    assert!(claimed.iter().zip(wild).all(|(claimed, bytes)| claimed.payload == bytes));
}

pub fn large_payloads_are_kept(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let large = Bytes::from(vec![b'x'; tasklane_core::limits::PAYLOAD_BYTES_DEFAULT]);
    let id = scene.submit(draft("a").payload(large.clone()));
    assert_eq!(scene.stored(id).unwrap().payload, large);
    let claimed = scene.ask_for(scene.worker(), 1).unwrap();
    assert_eq!(claimed[0].payload, large);
}

pub fn a_refused_submission_leaves_nothing_behind(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let before = scene.snapshot();
    let refusal = scene.offer([draft("a"), draft("a").expires_at(scene.now())]).unwrap_err();
    assert_eq!(refusal.index, 1);
    assert_eq!(scene.snapshot(), before);
    assert_eq!(scene.claim(scene.worker(), 10).len(), 1);
}

pub fn a_refused_submission_does_not_fail_the_others_of_its_call(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let expired = draft("b").expires_at(scene.now());
    let one = |task: Drafting| Submission { tasks: vec![task.build()] };
    let calls = vec![one(draft("a")), one(expired), one(draft("c"))];
    let verdicts = scene.ask(|store| store.submit(calls));
    assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(scene.count(StateName::Pending), 2);
}

pub fn a_schedule_in_the_past_means_at_once_and_gains_no_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let earlier = scene.submit(draft("a"));
    scene.pass(secs(1));
    let late = scene.submit(draft("a").at(scene.now().minus(hours(9))));
    assert_eq!(scene.state(late), StateName::Pending);
    assert_eq!(scene.place(late).ready_at, scene.now());
    assert_eq!(scene.claim_ids(scene.worker(), 2), [earlier, late]);
}

pub fn the_answer_holds_what_rebuilds_a_new_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let tasks = [
        draft("a").key("k"),
        draft("b").after(secs(60)).expires_after(hours(1)),
        draft("c").ordered_by("o"),
        draft("d").ordered_by("o"),
    ];
    let taken = scene.offer(tasks.clone()).unwrap();
    for (task, taken) in tasks.into_iter().zip(taken) {
        let admission = taken.admission.unwrap();
        let rebuilt = Task::admitted(taken.id, task.build().spec, admission);
        assert_eq!(rebuilt, scene.task(taken.id));
    }
    assert_eq!(scene.offer_one(draft("a").key("k")).unwrap().admission, None);
    let twice = scene.offer([draft("e").key("l"), draft("e").key("l")]).unwrap();
    assert_eq!(twice.iter().filter(|taken| taken.admission.is_some()).count(), 1);
}

pub fn a_large_submission_is_taken_whole(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all((0..2_500).map(|n| draft(["a", "b", "c"][n % 3])));
    assert_eq!(scene.count(StateName::Pending), 2_500);
    let worker = scene.worker();
    let claimed: Vec<_> = (0..5).flat_map(|_| scene.claim_ids(worker, 500)).collect();
    assert_eq!(claimed, ids);
}
