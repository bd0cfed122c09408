//! The same submission again gives the same task (S2, S13).

use tasklane_core::{Retention, StateName};

use crate::conformance::Fixture;
use crate::conformance::drafting::{chosen_id, days, draft, hours, secs};
use crate::conformance::scene::Scene;
use crate::{Prune, Submission, SubmitProblem, SubmitRefusal, Submitted};

const MISMATCH: SubmitProblem = SubmitProblem::Mismatch;

/// Removes every ended task and keeps everything else.
fn ended() -> Prune {
    Prune { retention: Retention::NOTHING, ..Prune::default() }
}

pub fn the_same_key_and_body_give_the_same_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").key("k"));
    let again = scene.offer_one(draft("a").key("k")).unwrap();
    let state = StateName::Pending;
    assert_eq!(again, Submitted { id, state, replayed: true, expired: false, admission: None });
    assert_eq!(scene.count(StateName::Pending), 1);
}

pub fn a_replay_writes_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a").key("k"));
    scene.pass(secs(5));
    let before = scene.snapshot();
    assert!(scene.offer_one(draft("a").key("k")).unwrap().replayed);
    assert_eq!(scene.snapshot(), before);
}

pub fn a_replay_shows_the_state_the_task_is_in(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let submit = || scene.offer_one(draft("a").key("k")).unwrap().state;
    assert_eq!(submit(), StateName::Pending);
    let held = scene.claim_one(scene.worker());
    assert_eq!(submit(), StateName::Running);
    scene.complete(&held);
    assert_eq!(submit(), StateName::Completed);
}

pub fn the_same_key_with_another_body_is_a_mismatch(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a").key("k"));
    let before = scene.snapshot();
    let others = [draft("b"), draft("a").payload("[]"), draft("a").retries(9)];
    for other in others {
        let refusal = scene.offer_one(other.key("k")).unwrap_err();
        assert_eq!(refusal, SubmitRefusal { index: 0, problem: MISMATCH });
    }
    assert_eq!(scene.snapshot(), before);
}

pub fn a_key_counts_in_its_own_queue_only(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.submit(draft("a").queue("x").key("k"));
    let second = scene.submit(draft("a").queue("y").key("k"));
    assert_ne!(first, second);
    scene.submit_all(["x", "y"].map(|name| draft(name).queue(name).key("l")));
}

pub fn one_mismatch_refuses_the_whole_submission(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a").key("k"));
    let before = scene.snapshot();
    let batch = [draft("n"), draft("a").key("new"), draft("other").key("k"), draft("n")];
    let refusal = scene.offer(batch).unwrap_err();
    assert_eq!(refusal, SubmitRefusal { index: 2, problem: MISMATCH });
    assert_eq!(scene.snapshot(), before);
    scene.submit(draft("quite another").key("new"));
}

pub fn duplicates_inside_one_submission_are_replays(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let taken = scene.offer(["k", "l", "k"].map(|key| draft("a").key(key))).unwrap();
    assert_eq!(taken[0].id, taken[2].id);
    let replayed: Vec<_> = taken.iter().map(|task| task.replayed).collect();
    assert_eq!(replayed, [false, false, true]);
    assert_eq!(scene.count(StateName::Pending), 2);
}

pub fn one_key_with_two_bodies_inside_one_submission_is_a_mismatch(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let before = scene.snapshot();
    let refusal = scene.offer([draft("a").key("k"), draft("b").key("k")]).unwrap_err();
    assert_eq!(refusal, SubmitRefusal { index: 1, problem: MISMATCH });
    assert_eq!(scene.snapshot(), before);
    scene.submit(draft("c").key("k"));
}

pub fn the_same_key_in_two_submissions_of_one_call_is_one_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let one = |name| Submission { tasks: vec![draft(name).key("k").build()] };
    let calls = vec![one("a"), one("a"), one("other")];
    let verdicts = scene.ask(|store| store.submit(calls));
    let first = verdicts[0].as_ref().unwrap()[0];
    let second = verdicts[1].as_ref().unwrap()[0];
    assert_eq!((first.id, first.replayed), (second.id, false));
    assert!(second.replayed);
    assert_eq!(verdicts[2], Err(SubmitRefusal { index: 0, problem: MISMATCH }));
}

pub fn the_same_id_and_body_give_the_same_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = chosen_id(1_790_000_000_000, 1);
    scene.submit(draft("a").id(id));
    let held = scene.claim_one(scene.worker());
    let before = scene.snapshot();
    let again = scene.offer_one(draft("a").id(id)).unwrap();
    let state = StateName::Running;
    assert_eq!(again, Submitted { id, state, replayed: true, expired: false, admission: None });
    assert_eq!(scene.snapshot(), before);
    scene.complete(&held);
}

pub fn the_same_id_with_another_body_is_a_mismatch(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = chosen_id(1_790_000_000_000, 1);
    scene.submit(draft("a").id(id));
    let before = scene.snapshot();
    let refusal = scene.offer([draft("n"), draft("b").id(id)]).unwrap_err();
    assert_eq!(refusal, SubmitRefusal { index: 1, problem: MISMATCH });
    assert_eq!(scene.snapshot(), before);
}

pub fn the_same_id_twice_in_one_submission_is_a_replay(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = chosen_id(1_790_000_000_000, 1);
    let taken = scene.offer([draft("a").id(id), draft("a").id(id)]).unwrap();
    assert_eq!((taken[0].replayed, taken[1].replayed), (false, true));
    let refusal = scene.offer([draft("a").id(id), draft("b").id(id)]).unwrap_err();
    assert_eq!(refusal, SubmitRefusal { index: 1, problem: MISMATCH });
}

/// A client that lost its answer, and its id with it, still has its key.
pub fn the_same_key_with_another_id_gives_the_first_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = chosen_id(1_790_000_000_000, 1);
    let second = chosen_id(1_790_000_000_000, 2);
    scene.submit(draft("a").key("k").id(first));
    let again = scene.offer_one(draft("a").key("k").id(second)).unwrap();
    assert_eq!((again.id, again.replayed), (first, true));
    assert_eq!(scene.stored(second), None);
}

pub fn another_trace_is_no_other_body(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").key("k").traced("00-1-2-01"));
    let again = scene.offer_one(draft("a").key("k").traced("00-3-4-01")).unwrap();
    assert_eq!((again.id, again.replayed), (id, true));
}

pub fn a_key_is_kept_while_its_task_lives(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").key("k"));
    scene.pass(days(3));
    assert_eq!(scene.prune(Prune::default()).idempotency_records, 0);
    assert_eq!(scene.offer_one(draft("a").key("k")).unwrap().id, id);
}

pub fn a_key_outlives_its_task_within_its_day(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.dead(draft("a").key("k"));
    scene.pass(hours(24).saturating_sub(secs(1)));
    assert_eq!(scene.prune(ended()).tasks_total(), 1);
    let again = scene.offer_one(draft("a").key("k")).unwrap();
    let state = StateName::DeadLetter;
    assert_eq!(again, Submitted { id, state, replayed: true, expired: true, admission: None });
    let refusal = scene.offer_one(draft("b").key("k")).unwrap_err();
    assert_eq!(refusal.problem, MISMATCH);
    assert_eq!(scene.stored(id), None);
}

pub fn after_its_day_the_key_of_an_ended_task_makes_a_new_one(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.completed(draft("a").key("k"));
    scene.pass(hours(25));
    assert_eq!(scene.prune(Prune::default()).idempotency_records, 1);
    assert_ne!(scene.submit(draft("another").key("k")), id);
}

/// Dead letters stay for 30 days, their keys do not.
pub fn a_key_may_be_used_anew_beside_the_dead_letter_it_made(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let dead = scene.dead(draft("a").key("k"));
    scene.pass(hours(25));
    scene.prune(Prune::default());
    let second = scene.submit(draft("a").key("k"));
    assert_eq!(scene.states(&[dead, second]), [StateName::DeadLetter, StateName::Pending]);
    assert_eq!(scene.offer_one(draft("a").key("k")).unwrap().id, second);
}

pub fn a_revived_task_keeps_its_key(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.dead(draft("a").key("k"));
    scene.retry(id);
    scene.pass(days(2));
    scene.prune(Prune::default());
    let again = scene.offer_one(draft("a").key("k")).unwrap();
    assert_eq!((again.id, again.state, again.replayed), (id, StateName::Pending, true));
}

/// Its record may be gone, but the task is not.
pub fn an_id_never_names_two_tasks(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = chosen_id(1_790_000_000_000, 1);
    scene.dead(draft("a").id(id));
    scene.pass(hours(25));
    scene.prune(Prune::default());
    let before = scene.snapshot();
    if let Ok(again) = scene.offer_one(draft("a").id(id)) {
        assert_eq!((again.id, again.replayed), (id, true));
    }
    assert_eq!(scene.snapshot(), before);
}

/// The answer was lost; what was asked for then is no fresh request now.
pub fn a_replay_is_answered_though_its_times_have_passed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let task = draft("a").expires_at(scene.now().plus(secs(10))).key("k");
    let id = scene.submit(task.clone());
    scene.pass(secs(60));
    scene.maintain();
    let again = scene.offer_one(task).unwrap();
    let state = StateName::Cancelled;
    assert_eq!(again, Submitted { id, state, replayed: true, expired: false, admission: None });
}
