//! The feed: nothing missed, nothing twice, whatever happens to the store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tasklane_core::limits::ERROR_MESSAGE_BYTES_MAX;
use tasklane_core::{ErrorKind, EventKind, Failure, QueueName, StateName, Timestamp};
use tasklane_store::{
    Cursor, FeedEvent, FeedPage, Position, QueueChange, Store, Subject, TaskNotice,
};
use tokio_util::sync::CancellationToken;

use super::faulty::Faulty;
use super::notice;
use crate::engine::feed::Feed;
use crate::engine::{Engine, Place, Slice, Through};
use crate::limits::{EVENT_BYTES_IN_MEMORY, EVENTS_IN_MEMORY};
use crate::settings::Settings;

fn page(epoch: u64, positions: std::ops::RangeInclusive<u64>, gap: bool) -> FeedPage {
    let next = Cursor { epoch, position: Position(*positions.end()) };
    let event = |position| FeedEvent {
        at: Timestamp::EPOCH,
        position: Position(position),
        subject: Subject::Queue(QueueName::default_queue(), QueueChange::Paused),
    };
    FeedPage { events: positions.map(event).collect(), next, gap }
}

/// An attempt failed for good.
fn failed() -> TaskNotice {
    let (from, to) = (Some(StateName::Running), StateName::Failed);
    TaskNotice { from, to, ..notice(EventKind::Failed) }
}

fn at(epoch: u64, position: u64) -> Cursor {
    Cursor { epoch, position: Position(position) }
}

fn positions(slice: &Slice) -> Vec<u64> {
    slice.entries().iter().map(|noted| noted.event.position.0).collect()
}

/// A feed with a live reader: without one it keeps nothing.
fn feed() -> (Feed, Place) {
    let feed = Feed::new(Faulty::new());
    feed.begin(at(5, 10));
    let place = feed.enter(Through::Stream).unwrap();
    (feed, place)
}

#[tokio::test]
async fn while_nobody_reads_nothing_is_kept() {
    let (feed, place) = feed();
    feed.publish(page(5, 11..=12, false));
    drop(place);
    feed.publish(page(5, 13..=14, false));
    assert_eq!(feed.head().await, at(5, 14));
    assert!(feed.read(at(5, 12), 1).await.unwrap().gap, "the store was asked");
    let _place = feed.enter(Through::Stream).unwrap();
    feed.publish(page(5, 15..=15, false));
    assert_eq!(positions(&feed.read(at(5, 14), 1).await.unwrap()), [15]);
}

#[tokio::test]
async fn readers_pull_by_cursors_of_their_own() {
    let (feed, _place) = feed();
    feed.publish(page(5, 11..=13, false));
    feed.publish(page(5, 14..=20, false));
    let first = feed.read(at(5, 10), 2).await.unwrap();
    assert_eq!((positions(&first), first.next()), (vec![11, 12], at(5, 12)));
    let rest = feed.read(first.next(), 100).await.unwrap();
    assert_eq!((positions(&rest), rest.next()), (vec![13], at(5, 13)));
    let second = feed.read(rest.next(), 3).await.unwrap();
    assert_eq!(positions(&second), [14, 15, 16]);
    assert_eq!((feed.behind(at(5, 13)), feed.behind(at(5, 20))), (7, 0));
}

#[tokio::test]
async fn who_has_everything_waits_for_the_next() {
    let (feed, _place) = feed();
    let feed = Arc::new(feed);
    let reader = Arc::clone(&feed);
    let waiting = tokio::spawn(async move { reader.read(at(5, 10), 10).await.unwrap() });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    feed.publish(page(5, 11..=11, false));
    assert_eq!(positions(&waiting.await.unwrap()), [11]);
}

#[tokio::test]
async fn memory_is_bounded_and_what_left_it_is_the_stores() {
    let (feed, _place) = feed();
    let mut last = 10;
    for _ in 0..20 {
        feed.publish(page(5, last + 1..=last + 4_096, false));
        last += 4_096;
    }
    let oldest = last - EVENTS_IN_MEMORY as u64;
    assert_eq!(positions(&feed.read(at(5, oldest), 1).await.unwrap()), [oldest + 1]);
    // The store behind has nothing of this: it says that the cursor is not one of its own.
    assert!(feed.read(at(5, oldest - 1), 1).await.unwrap().gap);
    assert!(feed.read(at(4, last), 1).await.unwrap().gap);
}

#[tokio::test]
async fn large_events_are_bounded_by_what_they_take() {
    let (feed, _place) = feed();
    let message = "m".repeat(ERROR_MESSAGE_BYTES_MAX);
    let failed = |position| FeedEvent {
        at: Timestamp::EPOCH,
        position: Position(position),
        subject: Subject::Task(Box::new(TaskNotice {
            error: Some(Arc::new(Failure::new(ErrorKind::Unknown, &message))),
            ..failed()
        })),
    };
    let kept = (EVENT_BYTES_IN_MEMORY / ERROR_MESSAGE_BYTES_MAX) as u64;
    let mut last = 10;
    while last < 10 + kept {
        let events = (last + 1..=last + 1_000).map(failed).collect();
        last += 1_000;
        feed.publish(FeedPage { events, next: at(5, last), gap: false });
    }
    assert!(kept < EVENTS_IN_MEMORY as u64);
    assert_eq!(positions(&feed.read(at(5, last - 1), 1).await.unwrap()), [last]);
    assert!(feed.read(at(5, 10), 1).await.unwrap().gap, "the store was asked");
    // Small ones have their usual room again.
    feed.publish(page(5, last + 1..=last + EVENTS_IN_MEMORY as u64, false));
    feed.publish(page(
        5,
        last + EVENTS_IN_MEMORY as u64 + 1..=last + EVENTS_IN_MEMORY as u64 + 1,
        false,
    ));
    assert!(feed.read(at(5, last), 1).await.unwrap().gap, "by their number they go");
}

#[tokio::test]
async fn a_reader_gets_no_more_than_it_asked_for_from_the_store_either() {
    let store = Faulty::new();
    let feed = Feed::new(store.clone());
    for name in ["a", "b", "c"] {
        let settings = tasklane_core::QueueSettings::default();
        store.configure(QueueName::new(name).unwrap(), settings).await.unwrap();
    }
    feed.begin(store.head().await.unwrap());
    store.generous.store(true, Ordering::Relaxed);
    let mut cursor = Cursor::OLDEST;
    for position in 1..=3 {
        let slice = feed.read(cursor, 1).await.unwrap();
        assert_eq!(positions(&slice), [position]);
        cursor = slice.next();
    }
}

#[tokio::test]
async fn a_gap_of_the_follower_sends_readers_to_the_store() {
    let (feed, _place) = feed();
    feed.publish(page(5, 11..=12, false));
    feed.publish(page(5, 50..=51, true));
    assert_eq!(positions(&feed.read(at(5, 49), 10).await.unwrap()), [50, 51]);
    assert!(feed.read(at(5, 12), 10).await.unwrap().gap);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_costs_time_but_not_the_place() {
    let store = Faulty::new();
    store.fails.store(true, Ordering::Relaxed);
    let engine = Engine::new(store.clone(), Settings::default());
    let stop = CancellationToken::new();
    let following = {
        let (engine, stop) = (Arc::clone(&engine), stop.clone());
        tokio::spawn(async move { engine.follow(stop).await })
    };
    let pause = |name: String| {
        let settings = tasklane_core::QueueSettings { paused: true, ..Default::default() };
        store.configure(QueueName::new(name).unwrap(), settings)
    };
    // Before it could begin: not part of what it follows.
    pause("early".into()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    store.fails.store(false, Ordering::Relaxed);
    let mut cursor = engine.feed().head().await;
    let mut seen = Vec::new();
    for round in 0..30u64 {
        pause(format!("q{round}")).await.unwrap();
        store.fails.store(round % 3 == 1, Ordering::Relaxed);
        tokio::time::sleep(std::time::Duration::from_millis(100 * (round % 7))).await;
    }
    store.fails.store(false, Ordering::Relaxed);
    while seen.len() < 30 {
        let slice = engine.feed().read(cursor, 7).await.unwrap();
        assert!(!slice.gap);
        seen.extend(positions(&slice));
        cursor = slice.next();
    }
    assert_eq!(seen, (2..=31).collect::<Vec<u64>>());
    stop.cancel();
    following.await.unwrap();
}
