//! What time has done, as commands for others to carry out (S6, S7, S21).

use std::collections::HashSet;

use tasklane_core::{Command, Intent, StateName, TaskId};

use crate::conformance::Fixture;
use crate::conformance::drafting::{draft, hours, secs};
use crate::conformance::scene::Scene;

fn ids(commands: &[Command]) -> HashSet<TaskId> {
    commands.iter().map(|command| command.task).collect()
}

pub fn nothing_is_overdue_in_a_quiet_store(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let overdue = scene.overdue(100);
    assert_eq!((overdue.commands, overdue.silent, overdue.more), (vec![], vec![], false));
    scene.submit(draft("a"));
    scene.claim_one(scene.worker());
    scene.submit(draft("a").after(hours(1)));
    assert_eq!(scene.overdue(100).commands, []);
}

pub fn everything_that_time_does_is_listed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let worker = scene.worker();
    scene.submit(draft("lost").timeout(hours(1)));
    let lost = scene.claim_one(scene.worker());
    scene.submit(draft("slow").timeout(secs(25)));
    let slow = scene.claim_one(worker);
    let unstarted = scene.submit(draft("unstarted"));
    let assigned = scene.assign(worker);
    let retrying = scene.submit(draft("retrying"));
    scene.fail(&scene.claim_one(worker));
    let scheduled = scene.submit(draft("scheduled").after(secs(10)));
    let expiring = scene.submit(draft("expiring").expires_after(secs(10)));
    scene.pass(secs(20));
    scene.renew_all(worker);
    scene.pass(secs(10));
    let listed = scene.overdue(100).commands;
    let expected = [
        Command { task: lost.id, intent: Intent::LoseLease(lost.token) },
        Command { task: slow.id, intent: Intent::TimeOut(slow.token) },
        Command { task: unstarted, intent: Intent::Unassign(assigned.token) },
        Command { task: retrying, intent: Intent::ComeDue },
        Command { task: scheduled, intent: Intent::ComeDue },
        Command { task: expiring, intent: Intent::Expire },
    ];
    for command in &expected {
        assert!(listed.contains(command), "{command:?} is missing in {listed:?}");
    }
    assert_eq!(listed.len(), expected.len());
    assert_eq!(scene.maintain().changed, expected.len());
    assert_eq!(scene.overdue(100).commands, []);
}

pub fn at_most_so_many_commands_are_listed(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all((0..10).map(|_| draft("a").after(secs(1))));
    scene.pass(secs(1));
    let overdue = scene.overdue(4);
    assert!((1..=4).contains(&overdue.commands.len()));
    assert!(overdue.more);
    scene.commands(overdue.commands);
    assert_eq!(scene.maintain().changed, 6);
    assert!(!scene.overdue(4).more);
}

/// A first page that nobody can carry out must not hide the second.
pub fn what_is_not_carried_out_hides_nothing(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let due = scene.submit_all((0..10).map(|_| draft("a").after(secs(30))));
    let leased = scene.submit_all((0..10).map(|_| draft("a")));
    scene.claim(scene.worker(), 10);
    let expiring = scene.submit_all((0..10).map(|_| draft("a").expires_after(secs(30))));
    scene.pass(secs(30));
    let mut seen = HashSet::new();
    for _ in 0..30 {
        seen.extend(ids(&scene.overdue(3).commands));
    }
    let all = due.into_iter().chain(leased).chain(expiring);
    assert_eq!(seen, all.collect::<HashSet<_>>());
}

pub fn two_rounds_at_once_do_everything_once(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let scheduled = scene.submit(draft("a").after(secs(5)));
    let held = scene.submit(draft("a").timeout(secs(5)));
    scene.claim_one(scene.worker());
    let expiring = scene.submit(draft("a").expires_after(secs(5)));
    scene.pass(secs(5));
    let first = scene.overdue(100).commands;
    let second = scene.overdue(100).commands;
    assert!(scene.commands(first).iter().all(Result::is_ok));
    let before = scene.snapshot();
    assert!(scene.commands(second).iter().all(Result::is_err));
    assert_eq!(scene.snapshot(), before);
    use StateName::{Cancelled, Pending, Retrying};
    assert_eq!(scene.states(&[scheduled, held, expiring]), [Pending, Retrying, Cancelled]);
}

pub fn what_was_done_meanwhile_is_refused_and_the_rest_is_not(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    let tasks = scene.submit_all((0..4).map(|_| draft("a").after(secs(5))));
    scene.pass(secs(5));
    let overdue = scene.overdue(100);
    scene.cancel(tasks[1]);
    let verdicts = scene.commands(overdue.commands.clone());
    for (command, verdict) in overdue.commands.iter().zip(verdicts) {
        assert_eq!(verdict.is_ok(), command.task != tasks[1]);
    }
    assert_eq!(scene.count(StateName::Pending), 3);
}

pub fn the_next_deadline_is_told(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    assert_eq!(scene.overdue(100).next_in, None);
    scene.submit(draft("a").after(secs(100)));
    assert_eq!(scene.overdue(100).next_in, Some(secs(100)));
    scene.submit(draft("a").expires_after(secs(90)));
    assert_eq!(scene.overdue(100).next_in, Some(secs(90)));
    scene.submit(draft("b").timeout(secs(12)));
    scene.claim_ids(scene.worker(), 2);
    assert_eq!(scene.overdue(100).next_in, Some(secs(12)));
    scene.pass(secs(2));
    assert_eq!(scene.maintain().next_in, Some(secs(10)));
}

pub fn sleeping_until_the_next_deadline_misses_none(fixture: &mut impl Fixture) {
    let scene = Scene::new(fixture);
    scene.submit_all((1..6).map(|n| draft("a").after(secs(n * 7))));
    scene.submit(draft("b").timeout(secs(11)).retries(1));
    scene.claim_one(scene.worker());
    for _ in 0..20 {
        let Some(next) = scene.maintain().next_in else { break };
        scene.pass(next);
        scene.maintain();
    }
    assert_eq!(scene.count(StateName::Scheduled), 0);
    assert_eq!(scene.count(StateName::Pending), 6);
}
