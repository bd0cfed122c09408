//! What is claimed first, inside one queue (S8).

use tasklane_core::{Intent, Order, Priority, SeededRandom, StateName, Task, Update, limits};

use crate::conformance::Fixture;
use crate::conformance::drafting::{
    capabilities, chosen_id, draft, matching, millis, secs, taking,
};
use crate::conformance::scene::Scene;
use crate::{ClaimRequest, Claimed};

pub fn higher_priorities_go_first(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let mut ascending = Priority::DESCENDING;
    ascending.reverse();
    let mut ids = scene.submit_all(ascending.map(|priority| draft("a").priority(priority)));
    ids.reverse();
    assert_eq!(scene.claim_ids(scene.worker(), 10), ids);
}

pub fn equal_priorities_go_by_the_time_they_became_ready(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let submit = |name| {
        scene.pass(millis(1));
        scene.submit(draft(name))
    };
    let ids = ["a", "b", "a", "c", "b"].map(submit);
    assert_eq!(scene.claim_ids(scene.worker(), 10), ids);
}

pub fn equal_times_go_by_sequence(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = ["b", "a", "c", "a", "b"].map(|name| scene.submit(draft(name)));
    let places = ids.map(|id| scene.place(id));
    assert!(places.iter().all(|place| place.ready_at == scene.now()));
    assert_eq!(scene.claim_ids(scene.worker(), 10), ids);
}

pub fn one_submission_is_claimed_in_its_order(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let names = ["z", "a", "m", "z", "a", "m"];
    let ids = scene.submit_all(names.map(draft));
    assert_eq!(scene.claim_ids(scene.worker(), 10), ids);
}

pub fn chosen_ids_do_not_decide_the_order(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let wild = [9_999_999_999_999, 1, 1_790_000_000_000, 0, 5_000_000_000_000];
    let ids = scene.submit_all(wild.map(|millis| draft("a").id(chosen_id(millis, 3))));
    let later = scene.submit(draft("a").id(chosen_id(2, 3)));
    assert_eq!(scene.claim_ids(scene.worker(), 3), ids[..3]);
    assert_eq!(scene.claim_ids(scene.worker(), 10), [ids[3], ids[4], later]);
}

pub fn many_small_claims_give_the_order_of_one_large_one(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let names = ["a", "b", "c", "a", "c", "b", "a", "b", "c", "a", "b", "c"];
    let priorities = [Priority::Normal, Priority::High, Priority::Normal, Priority::Low];
    let all = names.iter().zip(priorities.iter().cycle());
    let ids = scene.submit_all(all.map(|(name, priority)| draft(name).priority(*priority)));
    let rank = |id: &_| std::cmp::Reverse(scene.task(*id).spec.priority);
    let mut expected = ids.clone();
    expected.sort_by_key(rank);
    let worker = scene.worker();
    let claimed = [1, 5, 1, 2, 3].into_iter().flat_map(|count| scene.claim_ids(worker, count));
    assert_eq!(claimed.collect::<Vec<_>>(), expected);
}

pub fn a_task_goes_only_to_a_worker_with_its_capabilities(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let needs: [&[&str]; 4] = [&["gpu"], &[], &["eu"], &["eu", "gpu"]];
    let ids = scene.submit_all(needs.map(|names| draft("a").needing(names)));
    assert_eq!(scene.claim_ids(scene.register(taking().having(&["eu"])), 10), [ids[1], ids[2]]);
    assert_eq!(scene.claim_ids(scene.register(taking().having(&["us"])), 10), []);
    let able = scene.register(taking().having(&["gpu", "eu", "big"]));
    assert_eq!(scene.claim_ids(able, 10), [ids[0], ids[3]]);
}

pub fn capabilities_do_not_disturb_the_order(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let needs: [&[&str]; 5] = [&["gpu"], &[], &["eu"], &["gpu"], &[]];
    let ids = scene.submit_all(needs.map(|names| draft("a").needing(names)));
    let urgent = scene.submit(draft("a").needing(&["eu"]).priority(Priority::High));
    let worker = scene.register(taking().having(&["gpu", "eu"]));
    assert_eq!(scene.claim_ids(worker, 1), [urgent]);
    assert_eq!(scene.claim_ids(worker, 10), ids);
}

pub fn a_worker_gets_the_types_it_takes(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let names = ["mail.send", "mail", "sms.send", "mail.check"];
    let ids = scene.submit_all(names.map(draft));
    let prefix = scene.register(taking().types(&["mail.*"]));
    assert_eq!(scene.claim_ids(prefix, 10), [ids[0], ids[3]]);
    let exact = scene.register(taking().types(&["sms.send", "mail"]));
    assert_eq!(scene.claim_ids(exact, 10), [ids[1], ids[2]]);
}

pub fn a_worker_gets_from_the_queues_it_takes(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(["x", "y", "x"].map(|name| draft("a").queue(name)));
    let worker = scene.register(taking().queues(&["x"]));
    assert_eq!(scene.claim_ids(worker, 10), [ids[0], ids[2]]);
    let nowhere = scene.register(taking().queues(&["z"]));
    assert_eq!(scene.claim_ids(nowhere, 10), []);
}

pub fn a_worker_that_names_no_queue_at_all_gets_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit(draft("a"));
    let mut spec = taking();
    spec.0.selection.queues = matching(&[]);
    assert_eq!(scene.claim_ids(scene.register(spec), 10), []);
}

pub fn tasks_that_do_not_fit_never_hide_one_that_does(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let urgent = |name: String| draft(&name).priority(Priority::Critical).needing(&["gpu"]);
    scene.submit_all((0..200).map(|n| urgent(format!("other.{}", n % 40))));
    scene.submit_all((0..200).map(|_| draft("wanted").needing(&["gpu"])));
    let wanted = scene.submit(draft("wanted").priority(Priority::Low));
    let worker = scene.register(taking().types(&["wanted"]));
    assert_eq!(scene.claim_ids(worker, 10), [wanted]);
}

pub fn many_lanes_are_merged_by_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let mut expected = Vec::new();
    for round in 0..3 {
        // Another order of lanes in each round, so that no order of lanes gives the answer.
        let names = (0..300).map(|n| format!("type.{}", (n * 7 + round * 11) % 300));
        expected.extend(scene.submit_all(names.map(|name| draft(&name))));
        scene.pass(millis(1));
    }
    let worker = scene.worker();
    let claimed: Vec<_> = (0..9).flat_map(|_| scene.claim_ids(worker, 100)).collect();
    assert_eq!(claimed, expected);
}

pub fn a_lane_that_was_empty_is_found_again(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    for _ in 0..3 {
        let ids = scene.submit_all(["a", "b"].map(draft));
        assert_eq!(scene.claim_ids(worker, 10), ids);
        assert_eq!(scene.claim_ids(worker, 10), []);
    }
}

pub fn a_narrowed_claim_uses_only_the_capabilities_it_names(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let needs: [&[&str]; 3] = [&["gpu"], &["eu"], &["big"]];
    let ids = scene.submit_all(needs.map(|names| draft("a").needing(names)));
    let worker = scene.register(taking().having(&["gpu", "eu"]));
    let narrowed = |names| {
        let narrowed = Some(capabilities(names));
        let request = ClaimRequest { worker, count: 10, auto_start: true, narrowed };
        let claimed = scene.request(request).unwrap();
        claimed.iter().map(|claimed| claimed.task.id).collect::<Vec<_>>()
    };
    assert_eq!(narrowed(&[]), []);
    assert_eq!(narrowed(&["eu", "big"]), [ids[1]], "a claim cannot widen what the worker has");
    assert_eq!(scene.claim_ids(worker, 10), [ids[0]]);
}

pub fn large_payloads_are_handed_out_within_a_bound(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let large = || vec![b'1'; limits::CLAIM_BYTES_MAX / 2];
    let ids = scene.submit_all((0..4).map(|_| draft("a").payload(large())));
    scene.submit(draft("a"));
    let (one, other) = (scene.worker(), scene.worker());
    let request = |worker| ClaimRequest { worker, count: 5, auto_start: true, narrowed: None };
    let verdicts = scene.ask(|store| store.claim(vec![request(one), request(other)]));
    let claimed = |verdict: &Result<Vec<Claimed>, _>| -> Vec<_> {
        verdict.as_ref().unwrap().iter().map(|claimed| claimed.task.id).collect()
    };
    let claimed: Vec<_> = verdicts.iter().map(claimed).collect();
    assert_eq!(claimed, [ids[..2].to_vec(), ids[2..3].to_vec()], "nobody goes without");
    assert_eq!(scene.claim(one, 5).len(), 2, "the next call has room again");
}

pub fn a_task_is_given_out_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(["a"; 4].map(draft));
    let workers = [scene.worker(), scene.worker()];
    let request = |worker| ClaimRequest { worker, count: 3, auto_start: true, narrowed: None };
    let verdicts = scene.ask(|store| store.claim(workers.map(request).to_vec()));
    let claimed = verdicts.into_iter().flat_map(|verdict| verdict.unwrap());
    assert_eq!(claimed.map(|claimed| claimed.task.id).collect::<Vec<_>>(), ids);
    assert_eq!(scene.claim_ids(workers[0], 10), []);
}

pub fn a_retry_keeps_its_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let first = scene.submit(draft("a"));
    let place = scene.place(first);
    scene.fail(&scene.claim_one(worker));
    scene.pass(secs(1));
    let second = scene.submit(draft("a"));
    scene.maintain();
    assert_eq!(scene.place(first), place);
    assert_eq!(scene.claim_ids(worker, 2), [first, second]);
}

pub fn a_release_keeps_its_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(["a", "a"].map(draft));
    let place = scene.place(ids[0]);
    scene.release(&scene.claim_one(scene.worker()), None);
    assert_eq!(scene.place(ids[0]), place);
    assert_eq!(scene.claim_ids(scene.worker(), 2), ids);
}

pub fn a_delayed_release_keeps_its_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(["a", "a"].map(draft));
    let place = scene.place(ids[0]);
    scene.release(&scene.claim_one(scene.worker()), Some(secs(20)));
    scene.pass(secs(20));
    scene.maintain();
    assert_eq!(scene.place(ids[0]), place);
    assert_eq!(scene.claim_ids(scene.worker(), 2), ids);
}

pub fn a_lost_lease_keeps_its_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(["a", "a"].map(draft));
    let place = scene.place(ids[0]);
    scene.claim_one(scene.worker());
    scene.pass(secs(30));
    scene.maintain();
    assert_eq!(scene.place(ids[0]), place);
    assert_eq!(scene.claim_ids(scene.worker(), 2), ids);
}

pub fn a_requeue_keeps_its_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "a"].map(draft));
    scene.claim_one(worker);
    scene.command(ids[0], Intent::Requeue).unwrap();
    assert_eq!(scene.claim_ids(worker, 2), ids);
}

pub fn an_operators_retry_gets_a_new_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let first = scene.dead(draft("a"));
    scene.pass(secs(1));
    let second = scene.submit(draft("a"));
    scene.retry(first);
    assert_eq!(scene.place(first).ready_at, scene.now());
    assert_eq!(scene.claim_ids(scene.worker(), 2), [second, first]);
}

pub fn a_scheduled_task_has_the_place_of_its_time(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let scheduled = scene.submit(draft("a").after(secs(10)));
    scene.pass(secs(9));
    let before = scene.submit(draft("a"));
    scene.pass(secs(1));
    let same_time = scene.submit(draft("a"));
    scene.pass(secs(5));
    let after = scene.submit(draft("a"));
    scene.maintain();
    let expected = [before, scheduled, same_time, after];
    assert_eq!(scene.claim_ids(scene.worker(), 10), expected);
}

pub fn another_priority_counts_at_once_and_keeps_the_place(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(["a", "a", "a"].map(draft));
    let place = scene.place(ids[2]);
    let update = Update { priority: Some(Priority::High), ..Update::default() };
    scene.command(ids[2], Intent::Update(update)).unwrap();
    let update = Update { priority: Some(Priority::Low), ..Update::default() };
    scene.command(ids[0], Intent::Update(update)).unwrap();
    assert_eq!(scene.place(ids[2]), place);
    assert_eq!(scene.claim_ids(scene.worker(), 10), [ids[2], ids[1], ids[0]]);
}

pub fn a_released_task_comes_back_to_its_worker_after_a_second(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let id = scene.submit(draft("a"));
    scene.release(&scene.claim_one(worker), None);
    assert_eq!(scene.state(id), StateName::Pending);
    scene.pass(millis(999));
    assert_eq!(scene.claim_ids(worker, 1), []);
    scene.pass(millis(1));
    assert_eq!(scene.claim_ids(worker, 1), [id]);
}

pub fn a_released_task_goes_to_another_worker_at_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    let ids = scene.submit_all(["a", "a"].map(draft));
    scene.release(&scene.claim_one(worker), None);
    assert_eq!(scene.claim_ids(worker, 1), [ids[1]], "what is withheld hides nothing behind it");
    assert_eq!(scene.claim_ids(scene.worker(), 1), [ids[0]]);
}

/// Against the definition itself, on tasks of every kind and age.
pub fn every_claim_takes_the_best_that_fits(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let mut random = SeededRandom::new(8);
    let mut waiting: Vec<Task> = Vec::new();
    for _ in 0..40 {
        let some = (0..1 + random.below(6)).map(|_| {
            let name = ["a", "b", "c"][random.below(3) as usize];
            let needs: [&[&str]; 3] = [&[], &["gpu"], &["eu"]];
            let needs = needs[random.below(3) as usize];
            draft(name).needing(needs).priority(Priority::DESCENDING[random.below(4) as usize])
        });
        let ids = scene.submit_all(some.collect::<Vec<_>>());
        waiting.extend(ids.iter().map(|id| scene.task(*id)));
        scene.pass(secs(random.below(250)));
    }
    let specs = [taking(), taking().having(&["gpu"]).types(&["a", "b"]), taking().having(&["eu"])];
    let workers = specs.map(|spec| (spec.0.selection.clone(), scene.register(spec)));
    let keep_alive = || workers.iter().for_each(|(_, id)| drop(scene.renew_all(*id)));
    for round in 0..60 {
        let (selection, worker) = &workers[round % 3];
        scene.pass(secs(random.below(29)));
        keep_alive();
        let now = scene.now();
        let rank = |task: &Task| {
            let ready_at = task.place.ready_at;
            let effective = Order::default().effective(task.spec.priority, ready_at, now);
            (std::cmp::Reverse(effective), task.place)
        };
        waiting.sort_by_key(rank);
        let fitting = waiting.iter().filter(|task| selection.takes(&task.spec.lane));
        let expected: Vec<_> = fitting.take(round % 4).map(|task| task.id).collect();
        assert_eq!(scene.claim_ids(*worker, round % 4), expected, "round {round}");
        waiting.retain(|task| !expected.contains(&task.id));
    }
}
