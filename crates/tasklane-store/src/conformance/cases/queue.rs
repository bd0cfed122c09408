//! Queues: pause, turns, depth (S8, S20).

use tasklane_core::{
    Aging, DepthLimits, Order, Pinned, Priority, QueueSettings, Retention, StateName, TaskId,
    Weight, WorkerId,
};

use crate::conformance::Fixture;
use crate::conformance::drafting::{days, draft, queue, secs, taking};
use crate::conformance::scene::Scene;
use crate::{Cursor, QueueChange, Subject, SubmitProblem, SubmitRefusal};

fn paused() -> QueueSettings {
    QueueSettings { paused: true, ..QueueSettings::default() }
}

fn deep(normal: u64, high: u64, all: u64) -> QueueSettings {
    let depth = DepthLimits::new(normal, high, all).unwrap();
    QueueSettings { depth, ..QueueSettings::default() }
}

fn weighing(weight: u32) -> QueueSettings {
    QueueSettings { weight: Weight::new(weight).unwrap(), ..QueueSettings::default() }
}

fn full(index: usize, for_all: bool) -> SubmitRefusal {
    let problem = SubmitProblem::QueueFull { queue: queue("default"), for_all };
    SubmitRefusal { index, problem }
}

/// The queues of the next tasks, as one string.
fn turns<F: Fixture>(scene: &Scene<'_, F>, worker: WorkerId, claims: &[usize]) -> String {
    let ids: Vec<TaskId> =
        claims.iter().flat_map(|count| scene.claim_ids(worker, *count)).collect();
    ids.iter().map(|id| scene.task(*id).spec.lane.queue.to_string()).collect()
}

fn fill<F: Fixture>(scene: &Scene<'_, F>, name: &str, count: usize) {
    scene.submit_all((0..count).map(|_| draft("t").queue(name)));
}

pub fn a_queue_is_known_from_its_first_task(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.queue_state("mail"), None);
    scene.submit_all(["a", "b"].map(|name| draft(name).queue("mail")));
    let state = scene.queue_state("mail").unwrap();
    assert_eq!((state.settings, state.depth), (QueueSettings::default(), 2));
}

pub fn settings_are_kept_and_make_a_queue_known(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let settings = QueueSettings {
        paused: true,
        order: Order::Aging(Aging::new(Some(secs(1)), None, Some(secs(9))).unwrap()),
        weight: Weight::new(7).unwrap(),
        depth: DepthLimits::flat(9),
        retention: Some(Retention { failed: None, completed: Some(days(2)), ..Retention::NOTHING }),
        pinned: Pinned { weight: true, ..Pinned::default() },
    };
    scene.configure("mail", settings);
    assert_eq!(scene.queue_state("mail").unwrap().settings, settings);
    scene.submit(draft("a").queue("mail"));
    assert_eq!(scene.queue_state("mail").unwrap().settings, settings);
    scene.configure("mail", QueueSettings::default());
    assert_eq!(scene.queue_state("mail").unwrap().settings, QueueSettings::default());
}

pub fn nothing_is_claimed_from_a_paused_queue(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    scene.configure("default", paused());
    let second = scene.submit(draft("a"));
    let other = scene.submit(draft("a").queue("other"));
    assert_eq!(scene.claim_ids(worker, 10), [other]);
    scene.configure("default", QueueSettings::default());
    assert_eq!(scene.claim_ids(worker, 10), [id, second]);
}

pub fn what_is_running_in_a_paused_queue_goes_on(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "a", "a"].map(draft));
    let held = scene.claim(worker, 3);
    scene.configure("default", paused());
    assert_eq!(scene.renew_all(worker).held, 3);
    scene.complete(&held[0]);
    scene.fail(&held[1]);
    scene.pass(secs(30));
    scene.maintain();
    use StateName::{Completed, Pending};
    assert_eq!(scene.states(&ids), [Completed, Pending, Pending]);
    assert_eq!(scene.claim_ids(scene.worker(), 10), []);
}

pub fn changes_of_a_queue_are_told(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("mail", weighing(3));
    scene.configure("mail", QueueSettings { paused: true, ..weighing(3) });
    scene.configure("mail", weighing(3));
    let events = scene.follow(Cursor::OLDEST, 100).into_iter().map(|event| event.subject);
    let told = |change| Subject::Queue(queue("mail"), change);
    let expected = [QueueChange::Updated, QueueChange::Paused, QueueChange::Resumed].map(told);
    assert_eq!(events.collect::<Vec<_>>(), expected);
}

pub fn a_purge_is_told_of_the_queues_that_are_known(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a").queue("mail"));
    let head = scene.head();
    scene.ask(|store| store.announce_purge(vec![queue("mail"), queue("post")]));
    let events = scene.follow(head, 100).into_iter().map(|event| event.subject);
    let expected = [Subject::Queue(queue("mail"), QueueChange::Purged)];
    assert_eq!(events.collect::<Vec<_>>(), expected);
    assert_eq!(scene.queue_state("post"), None);
    assert_eq!(scene.depth("mail"), 1, "telling of it cancels nothing");
}

pub fn equal_queues_take_turns(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    ["b", "a", "c"].iter().for_each(|name| fill(&scene, name, 4));
    let worker = scene.worker();
    assert_eq!(turns(&scene, worker, &[5, 1, 2, 1, 3]), "bacbacbacbac", "in order of appearance");
}

pub fn heavier_queues_get_their_share(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    fill(&scene, "a", 6);
    fill(&scene, "b", 2);
    scene.configure("a", weighing(3));
    assert_eq!(turns(&scene, scene.worker(), &[3, 1, 4]), "aabaaaba");
}

pub fn an_empty_or_paused_queue_takes_no_turn(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    fill(&scene, "a", 1);
    fill(&scene, "b", 3);
    fill(&scene, "c", 2);
    fill(&scene, "d", 9);
    scene.configure("d", paused());
    assert_eq!(turns(&scene, scene.worker(), &[9]), "abcbcb");
}

pub fn a_queue_with_nothing_for_this_worker_takes_no_turn(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all((0..5).map(|_| draft("t").queue("a").needing(&["gpu"])));
    fill(&scene, "b", 2);
    fill(&scene, "c", 2);
    fill(&scene, "d", 2);
    let worker = scene.register(taking().queues(&["a", "b", "c"]));
    assert_eq!(turns(&scene, worker, &[9]), "bcbc");
}

pub fn priorities_of_one_queue_do_not_pass_over_another_queue(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    fill(&scene, "a", 2);
    let urgent = |_| draft("t").queue("b").priority(Priority::Critical);
    scene.submit_all((0..2).map(urgent));
    assert_eq!(turns(&scene, scene.worker(), &[4]), "abab");
}

pub fn from_its_first_limit_a_queue_refuses_low_and_normal(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("default", deep(2, 3, 4));
    scene.submit_all(["a", "a"].map(draft));
    let before = scene.snapshot();
    let offer = |priority| scene.offer_one(draft("a").priority(priority));
    assert_eq!(offer(Priority::Normal), Err(full(0, false)));
    assert_eq!(offer(Priority::Low), Err(full(0, false)));
    assert_eq!(scene.snapshot(), before);
    assert!(offer(Priority::High).is_ok());
    assert_eq!(offer(Priority::High), Err(full(0, false)));
    assert!(offer(Priority::Critical).is_ok());
    assert_eq!(offer(Priority::Critical), Err(full(0, true)));
    assert_eq!(offer(Priority::Low), Err(full(0, true)));
}

pub fn tasks_of_one_submission_count_towards_the_limit(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("default", deep(3, 10, 10));
    scene.submit(draft("a"));
    let before = scene.snapshot();
    assert_eq!(scene.offer(["a", "a", "a"].map(draft)), Err(full(2, false)));
    assert_eq!(scene.snapshot(), before, "refused whole");
    scene.submit_all(["a", "a"].map(draft));
}

pub fn only_waiting_tasks_count_towards_the_limit(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("default", deep(4, 4, 4));
    scene.submit(draft("a"));
    scene.fail(&scene.claim_one(scene.worker()));
    scene.submit(draft("a").ordered_by("k"));
    scene.submit(draft("a").ordered_by("k"));
    scene.submit(draft("a").after(days(1)));
    assert_eq!(scene.depth("default"), 4, "retrying, pending, blocked, scheduled");
    assert_eq!(scene.offer_one(draft("a")), Err(full(0, true)));
    let held = scene.claim_one(scene.worker());
    assert_eq!(scene.depth("default"), 3);
    scene.submit(draft("a"));
    assert!(scene.offer_one(draft("a")).is_err());
    scene.complete(&held);
    assert_eq!(scene.depth("default"), 4, "the next behind the key was counted already");
}

pub fn limits_are_each_queues_own(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("default", deep(0, 0, 0));
    assert_eq!(scene.offer_one(draft("a")), Err(full(0, true)));
    scene.submit(draft("a").queue("other"));
    let mixed = [draft("a").queue("other"), draft("a")];
    assert_eq!(scene.offer(mixed), Err(full(1, true)));
    assert_eq!(scene.depth("other"), 1);
}

/// What is there already must be safe to send again, however full the queue is (S2).
pub fn a_replay_is_answered_by_a_full_queue(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("default", deep(1, 1, 1));
    let id = scene.submit(draft("a").key("k"));
    let again = scene.offer_one(draft("a").key("k")).unwrap();
    assert_eq!((again.id, again.replayed), (id, true));
}

pub fn a_full_queue_still_takes_back_what_was_claimed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.configure("default", deep(1, 1, 1));
    let id = scene.submit(draft("a"));
    let held = scene.claim_one(scene.worker());
    scene.submit(draft("a"));
    scene.release(&held, None);
    assert_eq!((scene.depth("default"), scene.state(id)), (2, StateName::Pending));
}
