//! When a call is made again, and when it must not be.

use std::time::Duration;

use serde_json::json;
use tasklane_client::call::{Retries, task_id};
use tasklane_client::{Client, ErrorClass, NewTask};

use crate::script::{Act, Script};
use crate::site::Site;

fn client(script: &Script) -> Client {
    let first_delay = Duration::from_millis(1);
    let retries = Retries { first_delay, ..Retries::default() };
    Client::builder(script.url()).retries(retries).build().unwrap()
}

fn refusal(status: u16, word: &str, headers: &'static str) -> Act {
    let body = json!({"type": word, "title": "t", "status": status, "detail": "d",
        "instance": "/x", "request_id": "r"});
    Act::Answer(status, headers, body.to_string())
}

fn receipt(id: tasklane_client::TaskId) -> Act {
    let body =
        json!({"id": id.to_string(), "state": "completed", "replayed": true, "expired": true});
    Act::Answer(200, "", body.to_string())
}

#[tokio::test]
async fn what_is_refused_for_now_is_asked_again() {
    let new = NewTask::new("a");
    let script = Script::of(vec![
        refusal(429, "rate-limited", ""),
        refusal(503, "store-unavailable", ""),
        Act::HangUp,
        receipt(new.id()),
    ])
    .await;
    let submitted = client(&script).submit(new.clone()).await.unwrap();
    assert_eq!((submitted.id, submitted.task), (new.id(), None));
    let requests = script.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| *request == requests[0]), "always the same task");
    assert!(requests[0].contains(&new.id().to_string()));
}

#[tokio::test]
async fn retry_after_is_waited_for() {
    let new = NewTask::new("a");
    let script =
        Script::of(vec![refusal(503, "overloaded", "retry-after: 1\r\n"), receipt(new.id())]).await;
    client(&script).submit(new).await.unwrap();
    assert!(script.pause() >= Duration::from_secs(1), "{:?}", script.pause());
}

#[tokio::test]
async fn what_takes_too_long_to_wait_for_is_the_callers() {
    let script = Script::of(vec![refusal(429, "queue-full", "retry-after: 3600\r\n")]).await;
    let refused = client(&script).submit(NewTask::new("a")).await.unwrap_err();
    let tasklane_client::Error::Refused { retry_after, .. } = refused else { panic!("{refused}") };
    assert_eq!(retry_after, Some(Duration::from_secs(3_600)));
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn there_is_an_end_to_asking() {
    let refused = vec![refusal(503, "overloaded", ""); 10];
    let script = Script::of(refused).await;
    assert!(client(&script).get(task_id()).await.unwrap_err().is("overloaded"));
    assert_eq!(script.requests().len(), 5);
}

#[tokio::test]
async fn what_may_have_been_done_is_not_done_twice() {
    for act in [Act::HangUp, refusal(503, "outcome-unknown", ""), Act::Answer(502, "", "".into())] {
        let script = Script::of(vec![act.clone(), Act::HangUp]).await;
        client(&script).cancel(task_id()).await.unwrap_err();
        assert_eq!(script.requests().len(), 1, "{act:?}");
    }
    // But what was certainly not done is.
    let script = Script::of(vec![refusal(503, "overloaded", ""), Act::HangUp]).await;
    client(&script).cancel(task_id()).await.unwrap_err();
    assert_eq!(script.requests().len(), 2);
}

#[tokio::test]
async fn what_is_decided_is_not_asked_again() {
    let script = Script::of(vec![refusal(409, "invalid-state", "")]).await;
    assert!(client(&script).get(task_id()).await.unwrap_err().is("invalid-state"));
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn silence_is_waited_for_only_so_long() {
    let script = Script::of(vec![Act::Silence]).await;
    let timeout = Duration::from_millis(50);
    let client =
        Client::builder(script.url()).timeout(timeout).retries(Retries::NONE).build().unwrap();
    assert_eq!(client.get_health().await.unwrap_err().class(), ErrorClass::Unreachable);
}

#[tokio::test]
async fn what_is_no_server_of_ours_is_told_as_that() {
    for (status, body) in [(200, "<html>"), (418, "teapot")] {
        let script = Script::of(vec![Act::Answer(status, "", body.into())]).await;
        let error = client(&script).get_health().await.unwrap_err();
        assert!(matches!(error, tasklane_client::Error::Unexpected(_)), "{error}");
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let id = task_id();
    let script = Script::of(vec![receipt(id); 5]).await;
    let client = client(&script);
    for _ in 0..5 {
        client.submit(NewTask::new("a").with_id(id)).await.unwrap();
    }
    assert_eq!((script.requests().len(), script.connections()), (5, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_is_waited_for() {
    let mut site = Site::new().await;
    let retries = Retries { retries_max: 50, ..Retries::default() };
    let client = Client::builder(site.url()).retries(retries).build().unwrap();
    client.get_health().await.unwrap();
    site.stop().await;
    let submitting = tokio::spawn({
        let client = client.clone();
        async move { client.submit(NewTask::new("a")).await }
    });
    site.start().await;
    let submitted = submitting.await.unwrap().unwrap();
    client.get(submitted.id).await.unwrap();
}
