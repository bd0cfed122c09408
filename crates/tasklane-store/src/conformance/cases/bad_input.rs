//! Values at and beyond their bounds, and names that could confuse a store.

use tasklane_core::{
    Failure, Intent, Invalid, Metadata, Names, Outcome, Problem, Refusal, StateName, Update, limits,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{Drafting, days, draft, secs, taking};
use crate::conformance::scene::Scene;
use crate::{Filter, SubmitProblem};

/// Names and keys that mean something to SQL, Redis, globs, logs or people.
const ODD: [&str; 12] = [
    "'; DROP TABLE tasks; --",
    "a%b_c",
    "a*b?c[d]",
    "\"quoted\"",
    "back\\slash",
    "größe 任务 🚚",
    "Case",
    "case",
    " space ",
    "$1 ?1 @x",
    "NULL",
    "e\u{301}",
];

fn invalid_field<F: Fixture>(scene: &Scene<'_, F>, task: Drafting) -> &'static str {
    let before = scene.snapshot();
    let refusal = scene.offer([draft("a"), task]).unwrap_err();
    assert_eq!(refusal.index, 1);
    assert_eq!(scene.snapshot(), before);
    match refusal.problem {
        SubmitProblem::Invalid(invalid) => invalid.field,
        problem => panic!("refused for {problem}"),
    }
}

pub fn a_schedule_beyond_five_years_is_refused(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let horizon = scene.now().plus(limits::SCHEDULE_AHEAD_MAX);
    let far = draft("a").at(horizon.plus(secs(1)));
    assert_eq!(invalid_field(&scene, far), "scheduled_at");
    let far = draft("a").after(limits::SCHEDULE_AHEAD_MAX + secs(1));
    assert_eq!(invalid_field(&scene, far), "scheduled_at");
    let id = scene.submit(draft("a").at(horizon));
    assert_eq!(scene.task(id).state.due_at(), Some(horizon));
}

pub fn an_expiry_in_the_past_or_too_far_is_refused(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let now = scene.now();
    for at in [now, now.minus(days(1)), now.plus(limits::SCHEDULE_AHEAD_MAX).plus(secs(1))] {
        assert_eq!(invalid_field(&scene, draft("a").expires_at(at)), "expires_at");
    }
    scene.submit(draft("a").expires_at(now.plus(limits::SCHEDULE_AHEAD_MAX)));
}

pub fn an_expiry_before_the_schedule_is_refused(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let at = scene.now().plus(secs(60));
    let task = |expires| draft("a").at(at).expires_at(expires);
    assert_eq!(invalid_field(&scene, task(at)), "expires_at");
    assert_eq!(invalid_field(&scene, task(at.minus(secs(1)))), "expires_at");
    let relative = draft("a").after(secs(60)).expires_after(secs(59));
    assert_eq!(invalid_field(&scene, relative), "expires_at");
    scene.submit(task(at.plus(secs(1))));
    let past = scene.now().minus(secs(60));
    scene.submit(draft("a").at(past).expires_after(secs(1)));
}

pub fn a_delay_beyond_five_years_is_refused(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    let before = scene.snapshot();
    let too_long = Some(limits::SCHEDULE_AHEAD_MAX + secs(1));
    let failure = Failure::new(tasklane_core::ErrorKind::Transient, "boom");
    let outcomes =
        [Outcome::Released { delay: too_long }, Outcome::Failed { failure, retry_after: too_long }];
    for outcome in outcomes {
        assert!(matches!(scene.settle(&held, outcome), Err(Refusal::Invalid(_))));
    }
    assert_eq!(scene.snapshot(), before);
}

pub fn an_update_of_nothing_is_refused(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    let before = scene.snapshot();
    let refused = scene.command(id, Intent::Update(Update::default()));
    let expected = Invalid::new("update", Problem::Empty);
    assert_eq!(refused, Err(Refusal::Invalid(expected)));
    assert_eq!(scene.snapshot(), before);
}

pub fn a_claim_of_none_gets_none(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let id = scene.submit(draft("a"));
    assert_eq!(scene.claim(scene.worker(), 0), []);
    assert_eq!(scene.state(id), StateName::Pending);
}

pub fn a_claim_for_more_than_there_is_gets_what_there_is(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all((0..30).map(|_| draft("a")));
    assert_eq!(scene.claim_ids(scene.worker(), limits::CLAIM_TASKS_MAX), ids);
}

pub fn calls_without_units_answer_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let before = scene.snapshot();
    assert!(scene.ask(|store| store.claim(vec![])).is_empty());
    assert!(scene.ask(|store| store.execute(vec![])).is_empty());
    assert!(scene.ask(|store| store.renew(vec![])).is_empty());
    assert_eq!(scene.snapshot(), before);
}

pub fn odd_queues_and_types_are_each_their_own(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(ODD.map(|name| draft(name).queue(name)));
    let only = |name| Filter { queues: Names::only([name]).unwrap(), ..Filter::default() };
    for (name, id) in ODD.into_iter().zip(&ids) {
        assert_eq!(scene.list(only(name)), [*id], "{name}");
        assert_eq!(scene.depth(name), 1, "{name}");
        let mut spec = taking();
        spec.0.selection.queues = Names::only([name]).unwrap();
        spec.0.selection.types = Names::only([name]).unwrap();
        assert_eq!(scene.claim_ids(scene.register(spec), 10), [*id], "{name}");
    }
}

pub fn odd_keys_are_each_their_own(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let long = ["k".repeat(limits::KEY_BYTES_MAX), format!("{}l", "k".repeat(255))];
    let more = ["a:b", "{a}", "line\nbreak", &long[0], &long[1]];
    let keys: Vec<&str> = ODD.into_iter().chain(more).collect();
    let tasks = keys.iter().map(|key| draft("a").key(key).ordered_by(key));
    let ids = scene.submit_all(tasks);
    assert_eq!(scene.count(StateName::Pending), keys.len() as u64, "no key blocks another");
    for (key, id) in keys.iter().zip(&ids) {
        let again = scene.offer_one(draft("a").key(key).ordered_by(key)).unwrap();
        assert_eq!((again.id, again.replayed), (*id, true), "{key}");
    }
}

pub fn odd_labels_are_kept_and_found(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(ODD.map(|text| draft("a").labelled(text, text)));
    for (text, id) in ODD.into_iter().zip(&ids) {
        assert_eq!(scene.task(*id).spec.metadata, Metadata::new([(text, text)]).unwrap());
        let metadata = vec![(text.into(), text.into())];
        assert_eq!(scene.list(Filter { metadata, ..Filter::default() }), [*id], "{text}");
    }
}

pub fn odd_errors_are_kept_and_found(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    for text in ["50% off_by_one", "'quoted\" \\ text", "\0 nul", "größe 任务"] {
        let id = scene.submit(draft("a"));
        let failure = Failure::new(tasklane_core::ErrorKind::Bug, text);
        let outcome = Outcome::Failed { failure, retry_after: None };
        scene.settle(&scene.claim_one(scene.worker()), outcome).unwrap();
        assert_eq!(scene.task(id).error.unwrap().message.as_ref(), text);
        let filter = Filter { error: Some(text.into()), ..Filter::default() };
        assert_eq!(scene.list(filter), [id], "{text:?}");
    }
}
