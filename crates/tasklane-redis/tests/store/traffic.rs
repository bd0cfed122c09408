//! Producers and workers that go on whatever happens to the store, and what they were told.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tasklane_core::{Command, Fence, Intent, LeaseToken, Outcome, Refusal, StateName, TaskId};
use tasklane_redis::RedisStore;
use tasklane_store::{ClaimRequest, Claimed, Store, StoreError};

use crate::work::{LONG, completion, tasks, token, until, worker};

/// Ids asked for in one call.
const PAGE: usize = 500;
/// Tokens of each kind that are sent again after a failover.
const STALE: usize = 50;

type Held = (TaskId, LeaseToken);

/// What callers were told.
#[derive(Default)]
pub(crate) struct Told {
    submitted: Mutex<Vec<TaskId>>,
    completed: Mutex<Vec<Held>>,
    released: Mutex<Vec<Held>>,
    fences: Mutex<HashMap<TaskId, Fence>>,
    over: AtomicBool,
}

/// What became of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Tasks that are not there.
    pub(crate) tasks: usize,
    /// Completions that did not last.
    pub(crate) undone: usize,
    /// Completions accepted beside another of the same task.
    pub(crate) twice: usize,
}

impl Told {
    /// Until so many more were taken.
    pub(crate) async fn more(&self, count: usize) {
        let before = self.submitted.lock().unwrap().len();
        until(async || self.submitted.lock().unwrap().len() > before + count).await;
    }

    /// Until so many more were completed.
    pub(crate) async fn more_completed(&self, count: usize) {
        let before = self.completed.lock().unwrap().len();
        until(async || self.completed.lock().unwrap().len() > before + count).await;
    }

    /// Nobody begins anything any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// How many submissions and completions were acknowledged.
    pub(crate) fn count(&self) -> usize {
        self.submitted.lock().unwrap().len() + self.completed.lock().unwrap().len()
    }

    /// Of each task a later claim has a higher fence (S5).
    fn claimed(&self, claimed: &Claimed) {
        let (id, fence) = (claimed.task.id, claimed.task.fence);
        let before = self.fences.lock().unwrap().insert(id, fence);
        assert!(before.is_none_or(|before| before < fence), "{id}: {before:?}, then {fence:?}");
    }
}

/// Submits so many tasks at a time.
pub(crate) async fn produce(store: &RedisStore, told: &Told, count: usize) {
    while !told.over.load(Ordering::Relaxed) {
        match store.submit(tasks(count)).await {
            Ok(mut submitted) => {
                let submitted = submitted.remove(0).unwrap();
                told.submitted.lock().unwrap().extend(submitted.iter().map(|task| task.id));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Claims so many tasks at a time and completes them, but for one that is given back.
pub(crate) async fn work(store: &RedisStore, told: &Told, count: usize) {
    let mut own = worker(store).await;
    while !told.over.load(Ordering::Relaxed) {
        let request = ClaimRequest { worker: own, count, auto_start: true, narrowed: None };
        let claimed = match store.claim(vec![request]).await.map(|mut answers| answers.remove(0)) {
            Ok(Ok(claimed)) => claimed,
            // It may have been forgotten.
            Ok(Err(_)) => {
                own = worker(store).await;
                continue;
            }
            Err(_) => Vec::new(),
        };
        claimed.iter().for_each(|claimed| told.claimed(claimed));
        let held: Vec<Held> =
            claimed.iter().map(|claimed| (claimed.task.id, token(claimed))).collect();
        let ends = held.iter().map(|(id, token)| completion(*id, *token));
        let mut ends: Vec<_> = ends.collect();
        let back = claimed.first().is_some_and(|claimed| claimed.task.counts.deliveries == 1);
        if back {
            ends[0] = release(held[0]);
        }
        if let Ok(ended) = store.execute(ends).await {
            let mut done = held.into_iter().zip(ended);
            if back {
                let released = done.next().filter(|(_, ended)| ended.is_ok());
                told.released.lock().unwrap().extend(released.map(|(held, _)| held));
            }
            let done = done.filter(|(_, ended)| ended.is_ok());
            told.completed.lock().unwrap().extend(done.map(|(held, _)| held));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn release((task, token): Held) -> Command {
    Command { task, intent: Intent::Settle(token, Outcome::Released { delay: None }) }
}

/// What a store says as soon as it answers: the last failover has just been.
async fn answered<T>(mut ask: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends tokens again that are worth nothing any more: completions are told again, others are refused,
/// and nothing changes (S5). Where nothing answered may be lost.
pub(crate) async fn repeat_what_is_over(store: &RedisStore, told: &Told) {
    let is_empty = |held: &Mutex<Vec<Held>>| held.lock().unwrap().is_empty();
    until(async || !is_empty(&told.completed) && !is_empty(&told.released)).await;
    let latest = |held: &Mutex<Vec<Held>>| -> Vec<Held> {
        held.lock().unwrap().iter().rev().take(STALE).copied().collect()
    };
    let settle = async |held: &[Held]| {
        let again = || held.iter().map(|(id, token)| completion(*id, *token)).collect();
        answered(async || store.execute(again()).await).await
    };
    let completed = latest(&told.completed);
    let ids: Vec<_> = completed.iter().map(|(id, _)| *id).collect();
    let before = answered(async || store.get(ids.clone()).await).await;
    for again in settle(&completed).await {
        assert!(again.as_ref().is_ok_and(|changed| changed.repeated), "{again:?}");
    }
    assert_eq!(answered(async || store.get(ids.clone()).await).await, before);
    for again in settle(&latest(&told.released)).await {
        assert_eq!(again, Err(Refusal::LeaseLost));
    }
}

/// Compares what is there with what callers were told.
pub(crate) async fn lost(store: &RedisStore, told: &Told) -> Lost {
    let submitted = told.submitted.lock().unwrap().clone();
    let completed: Vec<_> = told.completed.lock().unwrap().iter().map(|(id, _)| *id).collect();
    let mut lost = Lost::default();
    let mut ended = HashSet::new();
    for ids in submitted.chunks(PAGE) {
        let found = answered(async || store.get(ids.to_vec()).await).await;
        lost.tasks += found.iter().filter(|task| task.is_none()).count();
        let is_completed = |task: &tasklane_core::Task| task.state.name() == StateName::Completed;
        let found = found.into_iter().flatten().map(|found| found.task);
        ended.extend(found.filter(is_completed).map(|task| task.id));
    }
    let known: HashSet<_> = submitted.iter().collect();
    lost.undone = completed.iter().filter(|id| known.contains(id) && !ended.contains(*id)).count();
    lost.twice = completed.len() - completed.iter().collect::<HashSet<_>>().len();
    println!("{} submitted, {} completed; {lost:?}", submitted.len(), completed.len());
    assert_eq!(answered(async || store.check().await).await, []);
    lost
}

/// Nothing is.
pub(crate) async fn judge(store: &RedisStore, told: &Told) {
    assert_eq!(lost(store, told).await, Lost::default());
}
