//! Finding tasks.

use tasklane_core::{Names, Priority, StateName, TaskId, limits};

use crate::conformance::Fixture;
use crate::conformance::drafting::{chosen_id, draft, matching, secs};
use crate::conformance::scene::Scene;
use crate::{Filter, PageCursor, Query};

fn in_states(states: &[StateName]) -> Filter {
    Filter { states: states.to_vec(), ..Filter::default() }
}

/// A store with tasks in every state, of several queues, types, priorities and ages.
fn populate<F: Fixture>(scene: &Scene<'_, F>) -> Vec<TaskId> {
    let mut ids = Vec::new();
    for n in 0..12 {
        let task = draft(["mail.send", "mail.check", "sms"][n % 3])
            .queue(["x", "y"][n % 2])
            .priority(Priority::DESCENDING[n % 4])
            .labelled("tenant", ["acme", "umbrella"][n % 2])
            .ordered_by(["k", "l", "m", "n", "o"][n % 5]);
        let wants_none = n % 4 == 1;
        ids.push(scene.submit(if wants_none { task.without_dead_letter() } else { task }));
        scene.pass(secs(1));
    }
    ids.push(scene.submit(draft("sms").queue("y").after(secs(60))));
    let worker = scene.worker();
    let held = scene.claim(worker, 6);
    scene.complete(&held[0]);
    scene.kill(&held[1]);
    scene.fail(&held[2]);
    scene.cancel(held[3].id);
    scene.pass(secs(1));
    scene.kill(&scene.claim_one(worker));
    scene.assign(worker);
    scene.cancel(ids[11]);
    ids
}

pub fn a_list_is_newest_first(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let mut ids = scene.submit_all(["a", "b", "c"].map(draft));
    scene.pass(secs(1));
    ids.push(scene.submit(draft("a")));
    ids.reverse();
    assert_eq!(scene.list(Filter::default()), ids);
}

pub fn chosen_ids_are_listed_by_the_time_in_them(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let times = [1_800_000_000_000, 5, 1_700_000_000_000, 8_000_000_000_000];
    let mut ids = scene.submit_all(times.map(|millis| draft("a").id(chosen_id(millis, 1))));
    ids.sort();
    ids.reverse();
    assert_eq!(scene.list(Filter::default()), ids);
}

pub fn pages_of_any_size_make_the_same_list(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    populate(&scene);
    let waiting = [StateName::Pending, StateName::Blocked];
    let ended = [StateName::Completed, StateName::DeadLetter, StateName::Cancelled];
    for filter in [Filter::default(), in_states(&waiting), in_states(&ended)] {
        let whole = scene.list(filter.clone());
        for limit in [1, 2, 5] {
            let paged = scene.list_by(filter.clone(), limit, false);
            assert_eq!(paged.iter().map(|stored| stored.task.id).collect::<Vec<_>>(), whole);
        }
    }
}

pub fn tasks_that_come_while_paging_disturb_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let mut ids = scene.submit_all((0..10).map(|_| draft("a")));
    ids.reverse();
    let mut query = Query::new(Filter::default(), 3);
    let mut seen = Vec::new();
    loop {
        let page = scene.page(query.clone());
        seen.extend(page.tasks.iter().map(|stored| stored.task.id));
        scene.submit(draft("b"));
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    assert_eq!(seen, ids);
}

pub fn a_page_cursor_survives_as_text(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all((0..4).map(|_| draft("a")));
    let first = scene.page(Query::new(Filter::default(), 2));
    let text = first.next.unwrap().to_string();
    let after = Some(text.parse::<PageCursor>().unwrap());
    let second = scene.page(Query { after, ..Query::new(Filter::default(), 2) });
    let listed: Vec<_> = second.tasks.iter().map(|stored| stored.task.id).collect();
    assert_eq!(listed, [ids[1], ids[0]]);
}

pub fn a_list_of_ended_tasks_is_latest_end_first(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit_all((0..5).map(|_| draft("a")));
    let held = scene.claim(worker, 5);
    let mut ended = Vec::new();
    for n in [3, 0, 4, 1, 2] {
        scene.pass(secs(1));
        match n % 2 {
            0 => scene.complete(&held[n]),
            _ => scene.kill(&held[n]),
        };
        ended.insert(0, held[n].id);
    }
    let states = [StateName::Completed, StateName::DeadLetter];
    assert_eq!(scene.list(in_states(&states)), ended);
    let completed: Vec<_> =
        ended.into_iter().filter(|id| scene.state(*id) == StateName::Completed).collect();
    assert_eq!(scene.list(in_states(&[StateName::Completed])), completed);
}

/// Each filter alone and some together, against the definition in [`Filter::matches`].
pub fn every_filter_finds_exactly_what_it_means(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = populate(&scene);
    let worker = scene.ask(|store| store.workers())[0].id;
    let middle = scene.task(ids[5]).admission.created.at;
    let none = Filter::default;
    let mut filters: Vec<_> = StateName::ALL.map(|state| in_states(&[state])).to_vec();
    filters.extend([
        none(),
        in_states(&StateName::ALL),
        Filter { queues: Names::only(["x"]).unwrap(), ..none() },
        Filter { types: matching(&["mail.*"]), ..none() },
        Filter { queues: matching(&["x*", "z"]), types: matching(&["mail.s*", "sms"]), ..none() },
        Filter { types: matching(&[]), ..none() },
        Filter { priority: Some(Priority::High), ..none() },
        Filter { worker: Some(worker), ..none() },
        Filter { metadata: vec![("tenant".into(), "acme".into())], ..none() },
        Filter { metadata: vec![("tenant".into(), "ACME".into())], ..none() },
        Filter { created_after: Some(middle), ..none() },
        Filter { created_before: Some(middle), ..none() },
        Filter { in_state_before: Some(scene.now()), ..none() },
        Filter { error: Some("BOOM".into()), ..none() },
        Filter { worker: Some(worker), ..in_states(&[StateName::Completed]) },
        Filter {
            types: matching(&["sms"]),
            queues: Names::only(["y"]).unwrap(),
            ..in_states(&[StateName::Scheduled, StateName::Pending, StateName::Blocked])
        },
    ]);
    for filter in filters {
        let mut found = scene.list(filter.clone());
        found.sort();
        let mut expected = ids.clone();
        expected.retain(|id| filter.matches(&scene.task(*id)));
        expected.sort();
        assert_eq!(found, expected, "{filter:?}");
    }
}

pub fn bodies_come_only_when_asked_for(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.completed(draft("a").payload("[1]"));
    let plain = scene.list_by(Filter::default(), 10, false).remove(0);
    assert_eq!((&plain.payload[..], plain.result), (&b""[..], None));
    let full = scene.list_by(Filter::default(), 10, true).remove(0);
    assert_eq!((&full.payload[..], full.result.as_deref()), (&b"[1]"[..], Some(&b"\"ok\""[..])));
    assert_eq!(full.task, plain.task);
}

pub fn a_page_of_large_bodies_ends_early_with_a_cursor(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let large = || vec![b'1'; limits::PAGE_BYTES_MAX / 2];
    let ids = scene.submit_all((0..3).map(|_| draft("a").payload(large())));
    let worker = scene.worker();
    let listed = |filter: &Filter, bodies: bool| {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let query = Query { bodies, after, ..Query::new(filter.clone(), 100) };
            let page = scene.ask(|store| store.list(query));
            pages.push(page.tasks.iter().map(|stored| stored.task.id).collect::<Vec<_>>());
            after = page.next;
            if after.is_none() {
                return pages;
            }
        }
    };
    let all = Filter::default();
    let by_bytes = vec![vec![ids[2], ids[1]], vec![ids[0]]];
    assert_eq!(listed(&all, true), by_bytes);
    assert_eq!(listed(&all, false), [vec![ids[2], ids[1], ids[0]]]);
    for _ in 0..3 {
        scene.complete(&scene.claim_one(worker));
        scene.pass(secs(1));
    }
    assert_eq!(listed(&in_states(&[StateName::Completed]), true), by_bytes);
}

pub fn a_list_shows_tasks_as_they_are_one_by_one(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    populate(&scene);
    for listed in scene.list_by(Filter::default(), 100, true) {
        assert_eq!(Some(&listed), scene.stored(listed.task.id).as_ref());
    }
}

pub fn tasks_are_given_in_the_order_they_are_asked_for(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let ids = scene.submit_all(["a", "b"].map(draft));
    let unknown = chosen_id(4, 4);
    let asked = vec![ids[1], unknown, ids[0], ids[1]];
    let found = scene.ask(|store| store.get(asked)).into_iter();
    let found: Vec<_> = found.map(|stored| stored.map(|stored| stored.task.id)).collect();
    assert_eq!(found, [Some(ids[1]), None, Some(ids[0]), Some(ids[1])]);
}

pub fn an_empty_store_has_an_empty_list(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.list(Filter::default()), []);
    assert_eq!(scene.list(in_states(&[StateName::Completed])), []);
    assert!(scene.stats().lanes.is_empty());
    assert!(scene.ask(|store| store.get(vec![])).is_empty());
}
