//! Figures from events made up for the purpose.

use std::sync::Arc;

use tasklane_core::Failure;
use tasklane_store::Position;

use super::*;
use crate::engine::tests::notice;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn event(second: i64, kind: EventKind, change: impl FnOnce(&mut TaskNotice)) -> FeedEvent {
    let mut notice = notice(kind);
    change(&mut notice);
    FeedEvent { at: at(second), position: Position(1), subject: Subject::Task(Box::new(notice)) }
}

fn plain(second: i64, kind: EventKind) -> FeedEvent {
    event(second, kind, |_| {})
}

fn now(statistics: &Statistics, second: i64) -> StatisticsNow<'_> {
    StatisticsNow { statistics, now: at(second) }
}

#[test]
fn minutes_are_told_apart_and_empty_ones_left_out() {
    let statistics = Statistics::default();
    let events = [
        plain(60, EventKind::Submitted),
        plain(61, EventKind::Scheduled),
        event(119, EventKind::Claimed, |notice| {
            notice.waited = Some(Duration::from_secs(10));
        }),
        event(240, EventKind::Completed, |notice| {
            notice.duration = Some(Duration::from_secs(3));
        }),
    ];
    statistics.record(events.iter());
    let minutes = now(&statistics, 250).minutes(60);
    assert_eq!(minutes.iter().map(|minute| minute.at).collect::<Vec<_>>(), [at(60), at(240)]);
    assert_eq!((minutes[0].submitted, minutes[0].claimed, minutes[1].completed), (2, 1, 1));
    let near = |shown: Duration, seconds: f64| (shown.as_secs_f64() / seconds - 1.0).abs() < 0.07;
    assert!(near(minutes[0].wait_p50, 10.0) && near(minutes[1].duration_p95, 3.0));
    assert_eq!(now(&statistics, 250).minutes(2).len(), 1);
}

#[test]
fn the_order_of_events_does_not_matter() {
    let (forward, back) = (Statistics::default(), Statistics::default());
    let seconds = [10, 70, 71, 3_000, 3_601, 3_602];
    let events = seconds.map(|second| plain(second, EventKind::LeaseLost));
    forward.record(events.iter());
    back.record(events.iter().rev());
    for second in [60, 100, 3_602, 3_700] {
        let losses = |statistics| now(statistics, second).lease_losses_last_hour();
        assert_eq!(losses(&forward), losses(&back), "at {second}");
        let minutes = |statistics| now(statistics, second).minutes(1_440);
        assert_eq!(minutes(&forward), minutes(&back));
    }
    assert_eq!(now(&forward, 3_602).lease_losses_last_hour(), 6);
    assert_eq!(now(&forward, 3_700).lease_losses_last_hour(), 3);
}

#[test]
fn failures_are_counted_by_what_they_are() {
    let statistics = Statistics::default();
    let failed = |kind: EventKind, why: ErrorKind| {
        event(5, kind, |notice| notice.error = Some(Arc::new(Failure::new(why, "no"))))
    };
    let events = [
        failed(EventKind::Retrying, ErrorKind::Timeout),
        failed(EventKind::DeadLettered, ErrorKind::Permanent),
        failed(EventKind::Failed, ErrorKind::Bug),
        event(5, EventKind::DeadLettered, |notice| {
            notice.reason = Some(Reason::Dead(DeadReason::Poison));
        }),
        plain(5, EventKind::Cancelled),
    ];
    statistics.record(events.iter());
    let lately = now(&statistics, 6);
    assert_eq!((lately.failed_last_minute(), lately.timeouts_last_hour()), (3, 1));
    assert_eq!((lately.lease_losses_last_hour(), lately.completed_last_minute()), (1, 0));
    assert_eq!(lately.minutes(1)[0].dead_lettered, 2);
}

#[test]
fn a_day_is_kept_and_no_more() {
    let statistics = Statistics::default();
    let minutes: Vec<_> = (0..2_000).map(|n| plain(n * 60, EventKind::Submitted)).collect();
    statistics.record(minutes.iter());
    assert_eq!(now(&statistics, 1_999 * 60).minutes(usize::MAX).len(), MINUTES_MAX);
}

#[test]
fn the_pace_of_many_queues_is_bounded() {
    let statistics = Statistics::default();
    let queue = |n: usize| QueueName::new(format!("q{n}")).unwrap();
    let claim =
        |n: usize, second| event(second, EventKind::Claimed, |notice| notice.lane.queue = queue(n));
    let early: Vec<_> = (0..=PACES_MAX).map(|n| claim(n, 100)).collect();
    statistics.record(early.iter());
    assert_eq!(now(&statistics, 100).claims_per_second(&queue(PACES_MAX)), 0.0);
    // Those of long ago make room.
    statistics.record([claim(PACES_MAX, 200)].iter());
    assert_eq!(now(&statistics, 200).claims_per_second(&queue(PACES_MAX)), 1.0 / 60.0);
}
