//! What producers call.

use std::time::Duration;

use serde_json::json;
use tasklane_client::call::{ListTasks, Look, task_id};
use tasklane_client::wire::{ReportStatus, StateWord, TaskFilter};
use tasklane_client::{Client, ErrorClass, NewTask, Priority, StateName};

use crate::site::{Hand, PATIENCE, Site, ended, submit};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_arrives_as_it_was_meant() {
    let site = Site::new().await;
    let client = site.client();
    let new = NewTask::new("email.send")
        .payload(&json!({"to": "ada"}))
        .queue("mail")
        .priority(Priority::High)
        .delay(Duration::from_secs(3_600))
        .timeout(Duration::from_secs(7))
        .max_retries(2)
        .required_capability("smtp")
        .ordering_key("ada")
        .label("user", "7")
        .dead_letter(false);
    let id = new.id();
    let submitted = client.submit(new).await.unwrap();
    assert_eq!((submitted.id, submitted.state), (id, StateName::Scheduled));
    assert!(!submitted.replayed);
    let task = client.get(id).await.unwrap();
    assert_eq!(&task.payload.unwrap().0[..], br#"{"to":"ada"}"#);
    assert_eq!((&*task.task_type, &*task.queue), ("email.send", "mail"));
    assert_eq!((task.priority.0, task.max_retries), (Priority::High, 2));
    assert_eq!(task.timeout_seconds.0, Duration::from_secs(7));
    assert_eq!(*task.required_capabilities, ["smtp".into()]);
    assert_eq!(task.ordering_key.as_deref(), Some("ada"));
    assert_eq!(&*task.metadata["user"], "7");
    assert!(!task.dead_letter && task.scheduled_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_sent_again_is_one_task() {
    let site = Site::new().await;
    let client = site.client();
    let new = NewTask::new("a").payload(&1);
    let first = client.submit(new.clone()).await.unwrap();
    let second = client.submit(new.clone()).await.unwrap();
    assert_eq!(
        (first.id, first.replayed, second.id, second.replayed),
        (new.id(), false, new.id(), true)
    );
    let keyed = || NewTask::new("a").idempotency_key("order-42");
    let first = client.submit(keyed()).await.unwrap();
    let second = client.submit(keyed()).await.unwrap();
    assert_eq!((second.id, second.replayed), (first.id, true));
    let other = client.submit(keyed().payload(&"other")).await.unwrap_err();
    assert!(other.is("idempotency-mismatch"), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_come_in_as_json_too() {
    let site = Site::new().await;
    let client = site.client();
    let id = task_id();
    let text =
        format!(r#"{{"type": "a", "id": "{id}", "payload": {{"n":  1.50}}, "priority": 3}}"#);
    client.submit(NewTask::from_json(&text).unwrap()).await.unwrap();
    let task = client.get(id).await.unwrap();
    assert_eq!(&task.payload.unwrap().0[..], br#"{"n":  1.50}"#);
    assert_eq!(task.priority.0, Priority::Critical);
    for bad in ["{}", "{\"type\": \"a\", \"colour\": 1}", "[", "1"] {
        assert_eq!(NewTask::from_json(bad).unwrap_err().class(), ErrorClass::Usage, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_one_write_and_keeps_its_order() {
    let site = Site::new().await;
    let client = site.client();
    let tasks: Vec<_> = (0..100).map(|n| NewTask::new("a").payload(&n)).collect();
    let receipts = client.submit_batch(&tasks).await.unwrap();
    let ids: Vec<_> = receipts.iter().map(|receipt| receipt.id.0).collect();
    assert_eq!(ids, tasks.iter().map(NewTask::id).collect::<Vec<_>>());
    let again = client.submit_batch(&tasks).await.unwrap();
    assert!(again.iter().all(|receipt| receipt.replayed));
    let wrong = [NewTask::new("a"), NewTask::new("")];
    let refused = client.submit_batch(&wrong).await.unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Refused);
    assert_eq!(&*refused.problem().unwrap().errors[0].pointer, "/tasks/1/type");
    assert_eq!(client.get(wrong[0].id()).await.unwrap_err().class(), ErrorClass::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_with_the_task() {
    let site = Site::new().await;
    let client = site.client();
    let id = submit(&client).await;
    let still = client.wait(id, Duration::from_millis(50)).await.unwrap();
    assert_eq!(still.state.0, StateName::Pending);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.wait(id, PATIENCE).await }
    });
    let hand = Hand::register(&client).await;
    let task = hand.claim().await;
    let result = serde_json::value::to_raw_value(&json!({"sent": true})).unwrap();
    let done = ended(&task, ReportStatus::Completed);
    hand.report(tasklane_client::wire::Report { result: Some(&result), ..done }).await;
    let task = waiting.await.unwrap().unwrap();
    assert_eq!(task.state.0, StateName::Completed);
    assert_eq!(&task.result.unwrap().0[..], br#"{"sent":true}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_listed_page_by_page() {
    let site = Site::new().await;
    let client = site.client();
    let tasks: Vec<_> = (0..5).map(|n| NewTask::new("a").payload(&n).label("k", "v&w")).collect();
    client.submit_batch(&tasks).await.unwrap();
    submit(&client).await;
    let filter = TaskFilter {
        states: Some(vec![StateWord(StateName::Pending), StateWord(StateName::Running)]),
        metadata: Some([("k".into(), "v&w".into())].into()),
        ..TaskFilter::default()
    };
    let mut list =
        ListTasks { filter, limit: Some(2), counts: true, payloads: true, ..Default::default() };
    let mut seen = Vec::new();
    loop {
        let page = client.list_tasks(&list).await.unwrap();
        assert_eq!((page.count, page.exact), (Some(5), Some(true)));
        assert!(page.tasks.iter().all(|task| task.payload.is_some()));
        seen.extend(page.tasks.into_iter().map(|task| task.id.0));
        list.cursor = page.next_cursor;
        if list.cursor.is_none() {
            break;
        }
    }
    seen.reverse();
    assert_eq!(seen, tasks.iter().map(NewTask::id).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_a_task_can_be_seen() {
    let site = Site::new().await;
    let client = site.client();
    let id = submit(&client).await;
    let explained = client.explain_task(id).await.unwrap();
    assert_eq!(explained.state.0, StateName::Pending);
    assert_eq!(client.task_progress(id).await.unwrap().progress, None);
    assert_eq!(client.queue_stats(Some("default")).await.unwrap().queues.normal.depth, 1);
    assert_eq!(client.queue_stats(None).await.unwrap().total_tasks, 1);
    client.minutes(Some(5)).await.unwrap();
    assert_eq!(client.cancel(id).await.unwrap().state.0, StateName::Cancelled);
    assert!(client.cancel(id).await.unwrap_err().is("invalid-state"));
    let history = client.task_history(id).await.unwrap().history;
    let kinds: Vec<_> = history.iter().map(|entry| &*entry.event_type).collect();
    assert_eq!(kinds, ["task.submitted", "task.cancelled"]);
    let before = Look { history: true, as_of: Some(history[0].timestamp.0) };
    let task = client.look(id, before).await.unwrap();
    assert_eq!((task.state.0, task.history.unwrap().len()), (StateName::Pending, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_cancelled_by_filter() {
    let site = Site::new().await;
    let client = site.client();
    let tasks: Vec<_> = (0..3).map(|_| NewTask::new("b")).collect();
    client.submit_batch(&tasks).await.unwrap();
    let other = submit(&client).await;
    let filter = TaskFilter { task_type: Some("b".into()), ..TaskFilter::default() };
    assert_eq!(client.count_to_cancel(&filter).await.unwrap().matched, 3);
    let changed = client.cancel_tasks(&filter, None).await.unwrap();
    assert_eq!((changed.changed, changed.more), (3, false));
    assert_eq!(client.get(other).await.unwrap().state.0, StateName::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_can_be_done() {
    let site = Site::new().await;
    let client = site.client();
    let unknown = client.get(task_id()).await.unwrap_err();
    assert_eq!(unknown.class(), ErrorClass::NotFound);
    assert!(unknown.is("not-found"));
    let refused = client.submit(NewTask::new("a{b}")).await.unwrap_err();
    assert_eq!((refused.class(), refused.problem().unwrap().status), (ErrorClass::Refused, 422));
    let unwritable = std::collections::HashMap::from([((1, 2), 3)]);
    let refused = client.submit(NewTask::new("a").payload(&unwritable)).await.unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Usage);
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let client = Client::connect_to(format!("http://{address}")).unwrap();
    assert_eq!(client.get_health().await.unwrap_err().class(), ErrorClass::Unreachable);
}
