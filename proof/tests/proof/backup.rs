//! Copies of the embedded store that are taken under load: each is of one moment, and so is what is
//! restored from it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use tasklane_core::{
    Command, EventKind, Intent, LeaseToken, NewTask, Outcome, Policies, Refusal, Selection,
    StateName, TaskId, TaskType, WorkerSpec,
};
use tasklane_proof::content::{self, Mark, Stored};
use tasklane_sqlite::{Options, SqliteStore, restore};
use tasklane_store::conformance::block_on;
use tasklane_store::{
    ClaimRequest, Claimed, Cursor, FeedEvent, Position, Store, Subject, Submission,
};

const BACKUPS: usize = 4;
const PRODUCERS: usize = 3;
const WORKERS: usize = 2;
/// Tasks acknowledged between two backups, at least.
const TASKS: usize = 300;
const SUBMISSION_TASKS: usize = 5;
const CLAIM_TASKS: usize = 8;

/// A copy, and what had been acknowledged when it was asked for.
struct Backup {
    copy: PathBuf,
    acknowledged: Vec<TaskId>,
}

#[test]
fn a_backup_under_load_restores_to_exactly_its_sequence_number() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("live"));
    let backups = back_up_under_load(&store, folder.path());
    let told = told(&store);
    let mut leased = 0;
    for backup in &backups {
        leased += judge(backup, &told, folder.path());
    }
    assert!(leased > 0, "no task was leased at the moment of any backup");
}

fn open(folder: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder, &Options::default()).unwrap())
}

fn back_up_under_load(store: &Arc<dyn Store>, folder: &Path) -> Vec<Backup> {
    let (over, (sender, taken)) = (&AtomicBool::new(false), channel());
    std::thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            let sender = sender.clone();
            scope.spawn(move || produce(store, &sender, over));
        }
        for _ in 0..WORKERS {
            scope.spawn(|| work(store, over));
        }
        let mut acknowledged = Vec::new();
        let backups = (0..BACKUPS).map(|number| {
            acknowledged.extend(taken.iter().take(TASKS));
            acknowledged.extend(taken.try_iter());
            let acknowledged = acknowledged.clone();
            let copy = folder.join(format!("{number}.db"));
            block_on(store.backup(&copy)).unwrap();
            Backup { copy, acknowledged }
        });
        let backups = backups.collect();
        // The load went on behind the last of them.
        assert_eq!(taken.iter().take(TASKS).count(), TASKS);
        over.store(true, Ordering::Relaxed);
        backups
    })
}

fn produce(store: &Arc<dyn Store>, taken: &Sender<TaskId>, over: &AtomicBool) {
    let task = NewTask::new(TaskType::new("backup").unwrap(), "1");
    let tasks = vec![task.resolve(&Policies::default()).unwrap(); SUBMISSION_TASKS];
    while !over.load(Ordering::Relaxed) {
        let submission = Submission { tasks: tasks.clone() };
        for submitted in block_on(store.submit(vec![submission])).unwrap().remove(0).unwrap() {
            taken.send(submitted.id).unwrap();
        }
    }
}

/// Completes tasks, and holds one of them all the while.
fn work(store: &Arc<dyn Store>, over: &AtomicBool) {
    let spec = WorkerSpec::new(Selection::default(), 100).unwrap();
    let worker = block_on(store.register(spec)).unwrap();
    let mut held: Option<Claimed> = None;
    while !over.load(Ordering::Relaxed) {
        let request = ClaimRequest { worker, count: CLAIM_TASKS, auto_start: true, narrowed: None };
        let mut claimed = block_on(store.claim(vec![request])).unwrap().remove(0).unwrap();
        let Some(next) = claimed.pop() else { continue };
        claimed.extend(held.replace(next));
        let settles = claimed
            .iter()
            .map(|claimed| complete(claimed.task.id, claimed.task.state.lease().unwrap().token));
        let settled = block_on(store.execute(settles.collect())).unwrap();
        assert!(settled.iter().all(Result::is_ok), "{settled:?}");
    }
}

fn complete(task: TaskId, token: LeaseToken) -> Command {
    Command { task, intent: Intent::Settle(token, Outcome::Completed("true".into())) }
}

/// The whole feed.
fn told(store: &Arc<dyn Store>) -> Vec<FeedEvent> {
    let (mut told, mut cursor) = (Vec::new(), Cursor::OLDEST);
    loop {
        let page = block_on(store.events_after(cursor, 1_000)).unwrap();
        assert!(!page.gap, "nothing was removed");
        if page.events.is_empty() {
            return told;
        }
        cursor = page.next;
        told.extend(page.events);
    }
}

/// What happened to each task up to a position, and its state then.
fn as_of(told: &[FeedEvent], last: Position) -> BTreeMap<TaskId, (Vec<EventKind>, StateName)> {
    let mut tasks = BTreeMap::new();
    for event in told.iter().filter(|event| event.position <= last) {
        if let Subject::Task(notice) = &event.subject {
            let task = tasks.entry(notice.id).or_insert_with(|| (Vec::new(), notice.to));
            task.0.push(notice.kind);
            task.1 = notice.to;
        }
    }
    tasks
}

/// Holds a copy, and what is restored from it, against the feed of the store that it is of; how many
/// tasks were leased at its moment.
fn judge(backup: &Backup, told: &[FeedEvent], folder: &Path) -> usize {
    let name = backup.copy.file_stem().unwrap().to_string_lossy();
    let (plain, restored) = (folder.join(format!("plain-{name}")), folder.join(&*name));
    std::fs::create_dir(&plain).unwrap();
    std::fs::copy(&backup.copy, plain.join("tasklane.db")).unwrap();
    let plain = open(&plain);
    let cut = block_on(plain.head()).unwrap().position;
    assert!(told.iter().any(|event| event.position > cut), "the load went on");
    let before = content(&plain);
    let found = before.iter().map(|task| (task.id, (task.kinds.clone(), task.state)));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), as_of(told, cut), "trails, states and the feed");
    for id in &backup.acknowledged {
        assert!(before.iter().any(|task| task.id == *id), "{id} was acknowledged before");
    }
    assert_eq!(block_on(plain.check()).unwrap(), []);

    block_on(restore(&backup.copy, &restored, &Options::default())).unwrap();
    let restored = open(&restored);
    assert_eq!(block_on(restored.check()).unwrap(), []);
    let after = content(&restored);
    let leased = before.iter().filter(|task| task.state == StateName::Running).count();
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        judge_restored(&restored, before, after);
    }
    leased
}

fn content(store: &Arc<dyn Store>) -> Vec<Stored> {
    let mut content = content::read(store).unwrap();
    content.sort_by_key(|stored| stored.id);
    content
}

/// A task that was not leased is the same, and one that was waits again: its lease is void.
fn judge_restored(restored: &Arc<dyn Store>, before: &Stored, after: &Stored) {
    if before.state != StateName::Running {
        return assert_eq!(before, after);
    }
    assert_eq!((after.id, after.state), (before.id, StateName::Pending));
    assert!(after.kinds.starts_with(&before.kinds), "{before:?}, {after:?}");
    let holder = before.marks.last().and_then(|mark| match mark {
        Mark::Claimed { token, .. } => Some(*token),
        _ => None,
    });
    let settled = block_on(restored.execute(vec![complete(before.id, holder.unwrap())])).unwrap();
    assert_eq!(settled, [Err(Refusal::LeaseLost)]);
}
