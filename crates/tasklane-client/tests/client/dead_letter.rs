//! Calls on dead letters.

use tasklane_client::call::ListDeadLetters;
use tasklane_client::wire::{ReplayMany, ReplayOne, RetryDeadLetters, TaskFilter, TaskIdText};
use tasklane_client::{ErrorClass, Priority, StateName};

use crate::site::{Hand, Site, submit};

fn all() -> ReplayMany {
    ReplayMany {
        filter: TaskFilter::default(),
        reset_attempts: true,
        new_priority: None,
        rate_per_second: None,
        dry_run: false,
        cursor: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_looked_at_and_replayed() {
    let site = Site::new().await;
    let client = site.client();
    let hand = Hand::register(&client).await;
    submit(&client).await;
    let id = hand.kill().await;
    let list = ListDeadLetters { counts: true, ..Default::default() };
    let page = client.list_dead_letters(&list).await.unwrap();
    assert_eq!((page.entries.len(), page.count), (1, Some(1)));
    let attempts = client.get_dead_letter(id).await.unwrap().attempt_history.unwrap();
    assert_eq!(&*attempts[0].error.as_ref().unwrap().message, "no such address");
    let summary = client.summarise_dead_letters(&TaskFilter::default()).await.unwrap();
    assert_eq!((summary.groups.len(), summary.groups[0].count), (1, 1));
    let how = ReplayOne {
        new_priority: Some(tasklane_client::wire::PriorityWord(Priority::High)),
        ..ReplayOne::default()
    };
    let task = client.replay_dead_letter(id, &how).await.unwrap();
    assert_eq!((task.state.0, task.priority.0), (StateName::Pending, Priority::High));
    assert!(client.replay_dead_letter(id, &how).await.unwrap_err().is("invalid-state"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_replayed_and_discarded_together() {
    let site = Site::new().await;
    let client = site.client();
    let hand = Hand::register(&client).await;
    for _ in 0..3 {
        submit(&client).await;
    }
    for _ in 0..3 {
        hand.kill().await;
    }
    assert_eq!(client.count_to_replay(&all()).await.unwrap().matched, 3);
    assert_eq!(client.replay_dead_letters(&all()).await.unwrap().replayed, 3);
    let id = hand.kill().await;
    let one = RetryDeadLetters { task_id: Some(TaskIdText(id)), ..Default::default() };
    assert_eq!(client.retry_dead_letters(&one).await.unwrap().replayed, 1);
    // Another worker: one that fails five times in a row gets nothing for a while.
    let hand = Hand::register(&client).await;
    for _ in 0..3 {
        hand.kill().await;
    }
    client.discard_dead_letter(id).await.unwrap();
    assert_eq!(client.get(id).await.unwrap_err().class(), ErrorClass::NotFound);
    let changed = client.discard_dead_letters(&TaskFilter::default(), None).await.unwrap();
    assert_eq!((changed.changed, changed.more), (2, false));
}
