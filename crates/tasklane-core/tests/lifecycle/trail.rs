//! A task's own history: what is stored, what is read off the task, what damage looks like.

use tasklane_core::lifecycle::Illegal;
use tasklane_core::{
    Entry, ErrorKind, EventKind, Intent, NewTask, Priority, Progress, Task, Update, When, trail,
};

use crate::life::{Life, RELEASED, completed, plain, secs};

fn kinds(entries: &[Entry]) -> Vec<EventKind> {
    entries.iter().map(|entry| entry.event.kind()).collect()
}

fn whole(life: &Life) -> Vec<Entry> {
    trail::whole(&life.task, life.stored.clone())
}

fn replayed(life: &Life, entries: &[Entry]) -> Result<Task, Illegal> {
    trail::replay(life.task.id, life.submitted.clone(), life.task.admission, entries)
}

#[test]
fn the_common_life_stores_no_entries_and_is_told_all_the_same() {
    let mut life = Life::of(plain());
    let token = life.assign();
    life.act(Intent::Start(token)).unwrap();
    life.act(Intent::Progress(token, Progress::default())).unwrap();
    life.settle(completed("")).unwrap();
    assert_eq!(life.stored, []);
    use EventKind::*;
    assert_eq!(kinds(&whole(&life)), [Submitted, Claimed, Started, Completed]);
}

#[test]
fn an_auto_started_claim_is_one_entry() {
    let mut life = Life::of(plain());
    life.run();
    assert_eq!(kinds(&whole(&life)), [EventKind::Submitted, EventKind::Claimed]);
}

#[test]
fn what_a_task_showed_of_its_lease_is_stored_when_the_lease_ends() {
    let mut life = Life::of(plain());
    let token = life.assign();
    life.act(Intent::Start(token)).unwrap();
    life.settle(RELEASED).unwrap();
    use EventKind::*;
    assert_eq!(kinds(&life.stored), [Claimed, Started, Released]);
}

#[test]
fn a_trail_is_in_the_order_of_its_numbers_though_it_is_stored_in_another() {
    let mut life = Life::of(plain());
    let token = life.assign();
    let update = Update { priority: Some(Priority::High), ..Update::default() };
    life.act(Intent::Update(update)).unwrap();
    life.act(Intent::Start(token)).unwrap();
    life.act(Intent::Cancel).unwrap();
    life.act_late(Intent::LoseLease(token)).unwrap();
    use EventKind::*;
    assert_eq!(kinds(&life.stored), [Updated, Claimed, Started, CancelRequested, Cancelled]);
    let told = [Submitted, Claimed, Updated, Started, CancelRequested, Cancelled];
    assert_eq!(kinds(&whole(&life)), told);
}

#[test]
fn a_promotion_is_part_of_the_trail() {
    let mut life = Life::of(NewTask { priority: Some(Priority::Low), ..plain() });
    life.pass(secs(700));
    life.run();
    use EventKind::*;
    assert_eq!(kinds(&whole(&life)), [Submitted, Promoted, Claimed]);
}

#[test]
fn a_task_for_later_begins_its_trail_as_scheduled() {
    let life = Life::of(NewTask { schedule: Some(When::After(secs(60))), ..plain() });
    assert_eq!(kinds(&whole(&life)), [EventKind::Scheduled]);
}

#[test]
fn a_trail_with_a_hole_is_illegal_or_disagrees() {
    let mut life = Life::of(plain());
    life.fail(ErrorKind::Timeout);
    life.come_due();
    life.lose_lease();
    life.run();
    let entries = whole(&life);
    assert!(trail::agrees(&life.task, &replayed(&life, &entries).unwrap()));
    for hole in 1..entries.len() {
        let mut damaged = entries.clone();
        damaged.remove(hole);
        let found = replayed(&life, &damaged).is_ok_and(|task| trail::agrees(&life.task, &task));
        assert!(!found, "without {:?}", entries[hole].event);
    }
}

#[test]
fn progress_is_not_part_of_the_trail() {
    let mut life = Life::of(plain());
    let token = life.run();
    life.act(Intent::Progress(token, Progress::default())).unwrap();
    let told = replayed(&life, &whole(&life)).unwrap();
    assert_eq!((told.progress.is_none(), life.task.progress.is_some()), (true, true));
    assert!(trail::agrees(&life.task, &told));
}

#[test]
fn a_task_that_is_not_what_its_trail_says_disagrees() {
    let mut life = Life::of(plain());
    life.fail(ErrorKind::Transient);
    let told = replayed(&life, &whole(&life)).unwrap();
    life.task.counts.attempts += 1;
    assert!(!trail::agrees(&life.task, &told));
}
