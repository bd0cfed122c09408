//! How attempts end, and that an end is final (S3, S4, S5).

use bytes::Bytes;
use tasklane_core::{
    Command, Counts, ErrorKind, EventKind, Intent, LeaseToken, Outcome, Progress, Refusal, State,
    StateName, Update, limits,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{chosen_id, done, draft, failed, hours, secs};
use crate::conformance::scene::Scene;

pub fn a_completed_task_keeps_its_result(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(2));
    let result = Bytes::from_static(b"{\"sum\":\0\xff}");
    scene.settle(&held, Outcome::Completed(result.clone())).unwrap();
    let stored = scene.stored(id).unwrap();
    assert_eq!(stored.result, Some(result));
    let State::Completed { lease, ended, .. } = stored.task.state else { panic!("not completed") };
    assert_eq!((lease.token, lease.worker, ended.at), (held.token, held.worker, scene.now()));
    let counts = Counts { attempts: 1, deliveries: 1, lease_losses: 0, replays: 0 };
    assert_eq!(stored.task.counts, counts);
}

pub fn repeating_a_completion_answers_the_same_success(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    let first = scene.complete(&held);
    scene.pass(secs(100));
    let before = scene.snapshot();
    let again = scene.complete(&held);
    assert_eq!((first.repeated, again.repeated), (false, true));
    assert_eq!((again.state, again.due_at), (first.state, None));
    assert_eq!(scene.snapshot(), before);
}

pub fn another_result_after_a_completion_is_refused(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.complete(&held);
    let before = scene.snapshot();
    for outcome in [done("2"), failed(ErrorKind::Bug), Outcome::Cancelled] {
        assert_eq!(scene.settle(&held, outcome), Err(Refusal::LeaseLost));
    }
    assert_eq!(scene.snapshot(), before);
}

pub fn repeating_a_failure_answers_as_it_did_then(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    let first = scene.fail(&held);
    scene.pass(secs(1));
    scene.maintain();
    scene.claim_one(scene.worker());
    let before = scene.snapshot();
    let again = scene.fail(&held);
    assert_eq!((again.state, again.due_at), (StateName::Retrying, first.due_at));
    assert!(again.repeated);
    assert_eq!(scene.settle(&held, done("1")), Err(Refusal::LeaseLost));
    assert_eq!(scene.snapshot(), before);
}

pub fn repeating_a_release_answers_as_it_did_then(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.release(&held, None);
    let second = scene.claim_one(scene.worker());
    let delayed = scene.release(&second, Some(secs(9)));
    let before = scene.snapshot();
    let again = scene.release(&held, None);
    assert_eq!((again.state, again.repeated), (StateName::Pending, true));
    let again = scene.release(&second, Some(secs(9)));
    assert_eq!((again.state, again.due_at), (StateName::Scheduled, delayed.due_at));
    assert_eq!(scene.snapshot(), before);
}

pub fn repeating_the_last_failure_answers_as_it_did_then(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let outcomes = [
        (failed(ErrorKind::Permanent), draft("a"), StateName::DeadLetter),
        (failed(ErrorKind::Bug), draft("b").without_dead_letter(), StateName::Failed),
        (Outcome::Cancelled, draft("c"), StateName::Cancelled),
    ];
    for (outcome, task, state) in outcomes {
        let id = scene.submit(task);
        let held = scene.claim_one(scene.worker());
        scene.settle(&held, outcome.clone()).unwrap();
        scene.retry(id);
        scene.cancel(id);
        let before = scene.snapshot();
        let again = scene.settle(&held, outcome).unwrap();
        assert_eq!((again.state, again.repeated), (state, true));
        assert_eq!(scene.snapshot(), before);
    }
}

pub fn a_task_that_ended_is_never_claimed_again(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = [
        scene.completed(draft("a")),
        scene.dead(draft("b")),
        scene.dead(draft("c").without_dead_letter()),
        scene.submit(draft("d")),
    ];
    scene.cancel(ids[3]);
    let before = scene.states(&ids);
    for _ in 0..3 {
        scene.pass(hours(1));
        scene.maintain();
        assert_eq!(scene.claim_ids(scene.worker(), 10), []);
    }
    assert_eq!(scene.states(&ids), before);
}

pub fn a_task_that_ended_refuses_everything_but_its_revival(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = [
        scene.completed(draft("a")),
        scene.dead(draft("b")),
        scene.dead(draft("c").without_dead_letter()),
        scene.submit(draft("d")),
    ];
    scene.cancel(ids[3]);
    let update = Update { priority: Some(tasklane_core::Priority::Low), ..Update::default() };
    let before = scene.snapshot();
    for id in ids {
        let current = scene.state(id);
        let expected = Err(Refusal::InvalidState { current });
        let intents = [Intent::Cancel, Intent::Requeue, Intent::ComeDue, Intent::Expire];
        for intent in intents.into_iter().chain([Intent::Update(update.clone())]) {
            assert_eq!(scene.command(id, intent.clone()), expected, "{intent:?} of {current}");
        }
        let token = LeaseToken::from_bytes([1; 16]);
        assert_eq!(scene.command(id, Intent::Start(token)), Err(Refusal::LeaseLost));
    }
    assert_eq!(scene.snapshot(), before);
}

pub fn a_completed_task_cannot_be_revived(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.completed(draft("a"));
    let intent = Intent::Retry { reset_attempts: true, priority: None };
    let expected = Refusal::InvalidState { current: StateName::Completed };
    assert_eq!(scene.command(id, intent), Err(expected));
}

pub fn an_unstarted_task_cannot_be_completed_or_failed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.assign(scene.worker());
    let before = scene.snapshot();
    let expected = Err(Refusal::InvalidState { current: StateName::Assigned });
    assert_eq!(scene.settle(&held, done("1")), expected);
    assert_eq!(scene.settle(&held, failed(ErrorKind::Transient)), expected);
    let progress = Intent::Progress(held.token, Progress::default());
    assert_eq!(scene.command(held.id, progress), expected);
    assert_eq!(scene.snapshot(), before);
}

pub fn an_unstarted_task_can_be_released_or_cancelled(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    assert_eq!(scene.release(&scene.assign(scene.worker()), None).state, StateName::Pending);
    scene.settle(&scene.assign(scene.worker()), Outcome::Cancelled).unwrap();
    assert_eq!(scene.state(id), StateName::Cancelled);
}

pub fn a_release_costs_no_attempt(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a").retries(0));
    for _ in 0..4 {
        scene.release(&scene.claim_one(scene.worker()), None);
    }
    let counts = Counts { deliveries: 4, ..Counts::default() };
    assert_eq!(scene.task(id).counts, counts);
    assert_eq!(scene.claim_one(scene.worker()).id, id);
}

pub fn a_delayed_release_is_scheduled(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let changed = scene.release(&scene.claim_one(scene.worker()), Some(secs(7)));
    let due_at = scene.now().plus(secs(7));
    assert_eq!((changed.state, changed.due_at), (StateName::Scheduled, Some(due_at)));
    assert_eq!(scene.task(id).state, State::Scheduled { due_at });
    scene.pass(secs(6));
    scene.maintain();
    assert_eq!(scene.claim_ids(scene.worker(), 1), []);
    scene.pass(secs(1));
    scene.maintain();
    assert_eq!(scene.claim_ids(scene.worker(), 1), [id]);
}

pub fn each_command_has_its_own_verdict(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all(["a", "a"].map(draft));
    let held = scene.claim(scene.worker(), 2);
    let settle = |task, token| Command { task, intent: Intent::Settle(token, done("1")) };
    let unknown = chosen_id(5, 5);
    let verdicts = scene.commands(vec![
        settle(unknown, held[0].token),
        settle(held[0].id, held[0].token),
        settle(held[1].id, held[0].token),
        Command { task: held[1].id, intent: Intent::ComeDue },
        settle(held[1].id, held[1].token),
    ]);
    let states: Vec<_> = verdicts.into_iter().map(|verdict| verdict.map(|c| c.state)).collect();
    let expected = [
        Err(Refusal::NotFound),
        Ok(StateName::Completed),
        Err(Refusal::LeaseLost),
        Err(Refusal::InvalidState { current: StateName::Running }),
        Ok(StateName::Completed),
    ];
    assert_eq!(states, expected);
}

pub fn commands_of_one_call_see_what_those_before_them_did(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.assign(scene.worker());
    let settle = |result| Intent::Settle(held.token, done(result));
    let intents = [Intent::Start(held.token), settle("1"), settle("2"), settle("1")];
    let verdicts = scene.commands(intents.map(|intent| Command { task: id, intent }).to_vec());
    let answers = verdicts.into_iter().map(|verdict| verdict.map(|c| (c.state, c.repeated)));
    let expected = [
        Ok((StateName::Running, false)),
        Ok((StateName::Completed, false)),
        Err(Refusal::LeaseLost),
        Ok((StateName::Completed, true)),
    ];
    assert_eq!(answers.collect::<Vec<_>>(), expected);
    assert_eq!(scene.stored(id).unwrap().result.unwrap(), "1");
}

pub fn progress_is_shown_with_the_time_it_was_said(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.pass(secs(3));
    let details = Some(Bytes::from_static(b"{\"rows\":9}"));
    let said = Progress::new(Some(12.5), Some(1), Some(8), Some("reading"), details).unwrap();
    let head = scene.head();
    scene.command(id, Intent::Progress(held.token, said.clone())).unwrap();
    let expected = Progress { updated_at: scene.now(), ..said };
    assert_eq!(scene.task(id).progress.as_deref(), Some(&expected));
    let notice = scene.notices(head).remove(0);
    assert_eq!(notice.kind, EventKind::Progressed);
    assert_eq!(notice.progress.as_deref(), Some(&expected));
}

pub fn the_next_attempt_starts_without_progress(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    let said = Progress { percent: Some(50.0), ..Progress::default() };
    scene.command(id, Intent::Progress(held.token, said)).unwrap();
    scene.release(&held, None);
    scene.claim_one(scene.worker());
    assert_eq!(scene.task(id).progress, None);
}

pub fn a_result_beyond_its_bound_is_refused(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    let before = scene.snapshot();
    let large = Outcome::Completed(Bytes::from(vec![b' '; limits::PAYLOAD_BYTES_MAX + 1]));
    let Err(Refusal::Invalid(invalid)) = scene.settle(&held, large) else { panic!("taken") };
    assert_eq!(invalid.field, "result");
    assert_eq!(scene.snapshot(), before);
    scene.complete(&held);
}
