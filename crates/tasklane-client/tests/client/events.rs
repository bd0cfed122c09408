//! Live events.

use std::time::Duration;

use tasklane_client::ErrorClass;
use tasklane_client::call::EventFilter;
use tokio::time::timeout;

use crate::site::{PATIENCE, Site, submit};

fn only_submitted() -> EventFilter {
    EventFilter { kinds: vec!["task.submitted".into()], ..EventFilter::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_followed_across_a_restart() {
    let mut site = Site::new().await;
    let client = site.client();
    let mut events = client.events(only_submitted(), None).await.unwrap();
    let first = submit(&client).await;
    let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
    assert_eq!((&*event.event_type, event.data.task_id.unwrap().0), ("task.submitted", first));
    assert_eq!(events.cursor(), event.cursor.as_deref());
    site.stop().await;
    site.start().await;
    let second = submit(&client).await;
    let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
    assert_eq!(event.data.task_id.unwrap().0, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_while_nobody_followed_is_told_later() {
    let site = Site::new().await;
    let client = site.client();
    let events = client.events(only_submitted(), None).await.unwrap();
    let cursor = events.cursor().unwrap().to_owned();
    drop(events);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(submit(&client).await);
    }
    let mut events = client.events(only_submitted(), Some(&cursor)).await.unwrap();
    for id in ids {
        let event = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
        assert_eq!(event.data.task_id.unwrap().0, id);
    }
    let nothing = timeout(Duration::from_millis(100), events.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_refused_says_so() {
    let site = Site::new().await;
    let wrong = EventFilter { kinds: vec!["task.sung".into()], ..EventFilter::default() };
    let refused = site.client().events(wrong, None).await.unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Refused);
    let refused = site.client().events(only_submitted(), Some("nonsense")).await.unwrap_err();
    assert!(refused.is("invalid-cursor"), "{refused}");
}
