//! What operators call.

use std::time::Duration;

use tasklane_client::call::{ListTasks, ListWorkers};
use tasklane_client::wire::{
    Maintenance, PriorityWord, QueuePatch, ReplayOne, Requeue, TaskIdText, UpdateTask,
};
use tasklane_client::{ErrorClass, NewTask, Priority, StateName};

use crate::site::{Hand, Site, submit};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_looked_after() {
    let site = Site::new().await;
    let client = site.client();
    assert_eq!(client.get_health().await.unwrap().status, "ok");
    assert!(client.is_ready().await.unwrap());
    assert!(client.metrics().await.unwrap().contains("tasklane_build_info"));
    let id = submit(&client).await;
    client.cancel(id).await.unwrap();
    assert_eq!(client.clean_up(&Maintenance::default()).await.unwrap().tasks["cancelled"], 0);
    let removed = client.clean_up(&Maintenance { emergency: true }).await.unwrap();
    assert_eq!(removed.tasks["cancelled"], 1);
    let copy = site.new_file("copy.db");
    assert_eq!(*client.back_up(&copy).await.unwrap().to, *copy);
    assert!(std::fs::metadata(&copy).unwrap().len() > 0);
    // A server that was started by hand reads no configuration, and says so.
    let refused = client.reload().await.unwrap_err();
    assert_eq!(refused.problem().unwrap().status, 501);
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_paused_set_and_purged() {
    let site = Site::new().await;
    let client = site.client();
    submit(&client).await;
    let hand = Hand::register(&client).await;
    assert!(client.pause_queue("default").await.unwrap().paused);
    assert!(client.poll(hand.id, &crate::site::poll(1)).await.unwrap().tasks.is_empty());
    assert!(!client.resume_queue("default").await.unwrap().paused);
    let patch = QueuePatch { weight: Some(7), ..QueuePatch::default() };
    assert_eq!(client.update_queue("default", &patch).await.unwrap().weight, 7);
    assert_eq!(client.get_queue("default").await.unwrap().depth, 1);
    assert_eq!(client.list_queues().await.unwrap().len(), 1);
    let changed = client.purge_priority(Priority::Normal, Some("def*"), None).await.unwrap();
    assert_eq!(changed.changed, 1);
    assert_eq!(client.get_queue("no/such queue").await.unwrap_err().class(), ErrorClass::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_queues_are_listed_however_many_pages_they_take() {
    let site = Site::new().await;
    let client = site.client();
    let names: Vec<String> = (0..1_001).map(|index| format!("q{index:04}")).collect();
    let tasks: Vec<_> = names.iter().map(|queue| NewTask::new("a").queue(queue)).collect();
    client.submit_batch(&tasks).await.unwrap();
    let listed = client.list_queues().await.unwrap();
    assert!(listed.iter().map(|queue| &*queue.name).eq(names.iter().map(String::as_str)));
    let page = client.queue_page(None, None).await.unwrap();
    assert_eq!((page.queues.len(), page.next_cursor.is_some()), (50, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_directed() {
    let site = Site::new().await;
    let client = site.client();
    let hand = Hand::register(&client).await;
    assert_eq!(client.get_worker(hand.id).await.unwrap().state, "active");
    assert_eq!(client.pause_worker(hand.id).await.unwrap().state, "paused");
    let list = ListWorkers { state: Some("paused".into()), ..ListWorkers::default() };
    let page = client.list_workers(&list).await.unwrap();
    assert_eq!(page.workers[0].worker_id.0, hand.id);
    assert_eq!(client.resume_worker(hand.id).await.unwrap().state, "active");
    assert_eq!(client.drain_worker(hand.id).await.unwrap().state, "draining");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_brought_back_and_changed() {
    let site = Site::new().await;
    let client = site.client();
    let id = submit(&client).await;
    let hand = Hand::register(&client).await;
    hand.claim().await;
    let list = ListTasks::default();
    let stuck = client.list_stuck_tasks(Some(Duration::ZERO), &list).await.unwrap();
    assert_eq!(stuck.tasks[0].id.0, id);
    assert!(client.list_stuck_tasks(None, &list).await.unwrap().tasks.is_empty());
    let requeue = Requeue { task_ids: Some(vec![TaskIdText(id)]), ..Requeue::default() };
    let requeued = client.requeue_tasks(&requeue).await.unwrap();
    assert_eq!((&*requeued.requeued, requeued.refused.len()), (&[TaskIdText(id)][..], 0));
    let update = UpdateTask { priority: Some(PriorityWord(Priority::Low)), ..Default::default() };
    assert_eq!(client.update_task(id, &update).await.unwrap().priority.0, Priority::Low);
    client.cancel(id).await.unwrap();
    let task = client.retry_task(id, &ReplayOne::default()).await.unwrap();
    assert_eq!((task.state.0, task.replays), (StateName::Pending, 1));
}
