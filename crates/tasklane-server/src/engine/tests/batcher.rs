//! Batches, on a verb that takes its time.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;

use super::*;

/// Doubles numbers, slowly, and counts.
#[derive(Default)]
struct Double {
    calls: AtomicUsize,
    orphans: AtomicUsize,
}

impl Verb for Double {
    type Unit = usize;
    type Verdict = usize;

    fn weight(&self, _: &usize) -> usize {
        1
    }

    fn call(self: Arc<Self>, units: Vec<usize>) -> Verdicts<usize> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(units.into_iter().map(|unit| unit * 2).collect())
        })
    }

    fn orphaned(&self, _: usize) {
        self.orphans.fetch_add(1, Ordering::Relaxed);
    }
}

/// Calls at a time after this one, and tells when it was answered.
fn caller(
    batcher: &Arc<Batcher<Double>>,
    begun: tokio::time::Instant,
) -> impl Fn(Duration) -> tokio::task::JoinHandle<Duration> {
    let batcher = Arc::clone(batcher);
    move |after| {
        let batcher = Arc::clone(&batcher);
        tokio::spawn(async move {
            tokio::time::sleep_until(begun + after).await;
            batcher.call(1).await.unwrap();
            begun.elapsed()
        })
    }
}

async fn hundred(in_flight_max: Option<usize>) -> usize {
    let batcher = Batcher::new(Double::default(), &TaskTracker::new(), in_flight_max);
    let calls: Vec<_> = (0..100)
        .map(|unit| {
            let batcher = Arc::clone(&batcher);
            tokio::spawn(async move { (unit, batcher.call(unit).await.unwrap()) })
        })
        .collect();
    for call in calls {
        let (unit, verdict) = call.await.unwrap();
        assert_eq!(verdict, unit * 2, "each gets its own");
    }
    batcher.verb.calls.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_others_are_under_way_is_one_batch() {
    assert!(hundred(Some(2)).await <= 3);
    assert_eq!(hundred(None).await, 100);
}

#[tokio::test(start_paused = true)]
async fn a_small_batch_waits_a_moment_beside_another_and_not_alone() {
    let batcher = Batcher::new(Double::default(), &TaskTracker::new(), Some(3));
    let call = caller(&batcher, tokio::time::Instant::now());
    let took = Duration::from_millis(20);
    let [alone, small, joins] = [Duration::ZERO, MOMENT * 5, MOMENT * 5].map(call);
    assert_eq!(alone.await.unwrap(), took, "nothing is under way, so nothing is waited for");
    let ends = (small.await.unwrap(), joins.await.unwrap());
    assert_eq!(ends, (MOMENT * 6 + took, MOMENT * 6 + took), "both in one batch");
    assert_eq!(batcher.verb.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_that_come_together_do_not_wait_beside_each_other() {
    let batcher = Batcher::new(Double::default(), &TaskTracker::new(), Some(2));
    let begun = tokio::time::Instant::now();
    let calls = [caller(&batcher, begun)(Duration::ZERO), caller(&batcher, begun)(Duration::ZERO)];
    for call in calls {
        assert_eq!(call.await.unwrap(), MOMENT * 20);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_small_no_more_goes_at_once() {
    let batcher = Batcher::new(Double::default(), &TaskTracker::new(), Some(2));
    let call = caller(&batcher, tokio::time::Instant::now());
    let _under_way = call(Duration::ZERO);
    let calls: Vec<_> = (0..WORTHWHILE).map(|_| call(MOMENT * 5)).collect();
    for ended in calls {
        assert_eq!(ended.await.unwrap(), MOMENT * 25, "nobody has waited for a moment");
    }
    assert_eq!(batcher.verb.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_whose_caller_goes_before_it_has_looked_is_taken_back() {
    let batcher = Batcher::new(Double::default(), &TaskTracker::new(), Some(1));
    let mut call = Box::pin(batcher.call(1));
    assert!(call.as_mut().now_or_never().is_none());
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(batcher.verb.orphans.load(Ordering::Relaxed), 0, "it waits for its caller");
    drop(call);
    assert_eq!(batcher.verb.orphans.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_happens_and_is_taken_back() {
    for in_flight_max in [Some(1), None] {
        let batcher = Batcher::new(Double::default(), &TaskTracker::new(), in_flight_max);
        let gone = tokio::time::timeout(Duration::from_millis(1), batcher.call(1)).await;
        assert!(gone.is_err());
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(batcher.verb.orphans.load(Ordering::Relaxed), 1, "{in_flight_max:?}");
    }
}

/// Panics at a nought.
struct Fragile;

impl Verb for Fragile {
    type Unit = usize;
    type Verdict = usize;

    fn weight(&self, _: &usize) -> usize {
        BATCH_WEIGHT_MAX
    }

    fn call(self: Arc<Self>, units: Vec<usize>) -> Verdicts<usize> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            assert!(!units.contains(&0), "as the test wishes");
            Ok(units)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_takes_nothing_from_those_behind_it() {
    let batcher = Batcher::new(Fragile, &TaskTracker::new(), Some(1));
    let [first, second] = [batcher.call(0), batcher.call(0)].map(Box::pin);
    let behind = batcher.call(7);
    let (first, second, behind) = tokio::join!(first, second, behind);
    let is_unknown = |verdict| matches!(verdict, Err(StoreError::OutcomeUnknown(_)));
    assert!(is_unknown(first) && is_unknown(second));
    assert_eq!(behind, Ok(7), "it waited while the others panicked");
    assert_eq!(batcher.call(8).await, Ok(8), "it came when nobody was under way");
    let state = batcher.lock();
    assert_eq!((state.in_flight, state.under_way, state.weight), (0, 0, 0));
}
