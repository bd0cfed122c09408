//! What handlers get and give.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tasklane_client::wire::Json;
use tasklane_client::worker::{BreakerSettings, Context, TaskError};
use tasklane_client::{ErrorKind, NewTask, StateName};
use tokio::sync::watch;

use crate::shift::{Shift, ended_as, submit, worker};
use crate::site::{PATIENCE, Site};

#[derive(Serialize, Deserialize)]
struct Numbers {
    left: i64,
    right: i64,
}

async fn add(_: Context, numbers: Numbers) -> Result<i64, TaskError> {
    Ok(numbers.left + numbers.right)
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_and_results_have_types_of_their_own() {
    let site = Site::new().await;
    let client = site.client();
    let shift = Shift::begin(worker(&client).handle("add", add));
    let task = NewTask::new("add").payload(&Numbers { left: 2, right: 3 });
    let id = submit(&client, task).await;
    let task = ended_as(&client, id, StateName::Completed).await;
    assert_eq!(&task.result.unwrap().0[..], b"5");
    // What the handler cannot read it will not be able to read next time either.
    let id = submit(&client, NewTask::new("add").payload(&"two and three")).await;
    let error = ended_as(&client, id, StateName::DeadLetter).await.error.unwrap();
    assert_eq!(error.kind.unwrap().0, ErrorKind::Permanent);
    assert_eq!(error.code.as_deref(), Some("invalid-payload"));
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_run_at_once_as_there_is_room_for() {
    let site = Site::new().await;
    let client = site.client();
    let (most, now) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(0_usize));
    let shift = Shift::begin(worker(&client).capacity(8).handle("a", {
        let (most, now) = (most.clone(), now.clone());
        move |_: Context, _: Json| {
            let (most, now) = (most.clone(), now.clone());
            async move {
                now.send_modify(|now| *now += 1);
                most.fetch_max(*now.borrow(), Ordering::SeqCst);
                // Until the first eight are there, nobody ends.
                let _ = now.subscribe().wait_for(|_| most.load(Ordering::SeqCst) == 8).await;
                now.send_modify(|now| *now -= 1);
                Ok(())
            }
        }
    }));
    let tasks: Vec<_> = (0..200).map(|n| NewTask::new("a").payload(&n)).collect();
    client.submit_batch(&tasks).await.unwrap();
    for task in &tasks {
        ended_as(&client, task.id(), StateName::Completed).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 8);
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_told_as_what_it_is() {
    let site = Site::new().await;
    let client = site.client();
    let shift =
        Shift::begin(worker(&client).handle("a", |context: Context, how: String| async move {
            match (&*how, context.attempt()) {
                ("again", 1) => {
                    Err(TaskError::transient("hung up").retry_after(Duration::from_millis(10)))
                }
                ("again", attempt) => Ok(attempt),
                ("never", _) => Err(TaskError::permanent("no such address").with_code("EADDR")),
                ("panic", _) => panic!("an index was out of bounds"),
                // Any error will do; the server finds out what it is.
                _ => Ok("no number".parse::<u32>()?),
            }
        }));
    let ask =
        async |how: &str| submit(&client, NewTask::new("a").payload(how).max_retries(1)).await;
    let id = ask("again").await;
    let task = ended_as(&client, id, StateName::Completed).await;
    assert_eq!((&task.result.unwrap().0[..], task.attempts), (&b"2"[..], 2));
    let task = ended_as(&client, ask("never").await, StateName::DeadLetter).await;
    assert_eq!(task.error.unwrap().code.as_deref(), Some("EADDR"));
    let error = ended_as(&client, ask("panic").await, StateName::DeadLetter).await.error.unwrap();
    assert_eq!(error.kind.unwrap().0, ErrorKind::Bug);
    assert!(error.message.contains("an index was out of bounds"), "{}", error.message);
    let id = submit(&client, NewTask::new("a").payload("unknown").max_retries(0)).await;
    let error = ended_as(&client, id, StateName::DeadLetter).await.error.unwrap();
    assert_eq!(error.kind.unwrap().0, ErrorKind::Unknown);
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_refused_holds_up_no_other() {
    let site = Site::with(|settings, _| settings.policies.payload_bytes_max = 1_000).await;
    let client = site.client();
    let (release, _) = watch::channel(false);
    let shift = Shift::begin(worker(&client).capacity(3).handle("a", {
        let release = release.clone();
        move |_: Context, length: usize| {
            let mut release = release.subscribe();
            async move {
                release.wait_for(|release| *release).await?;
                Ok("x".repeat(length))
            }
        }
    }));
    let mut ids = Vec::new();
    for length in [1, 10_000, 2] {
        ids.push(submit(&client, NewTask::new("a").payload(&length)).await);
    }
    release.send_replace(true);
    ended_as(&client, ids[0], StateName::Completed).await;
    ended_as(&client, ids[2], StateName::Completed).await;
    let error = ended_as(&client, ids[1], StateName::DeadLetter).await.error.unwrap();
    assert_eq!(error.kind.unwrap().0, ErrorKind::Bug);
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_now_and_then() {
    let site = Site::new().await;
    let client = site.client();
    let (done, _) = watch::channel(false);
    let shift = Shift::begin(worker(&client).handle("a", {
        let done = done.clone();
        move |context: Context, _: Json| {
            let mut done = done.subscribe();
            async move {
                for percent in 0..=1_000 {
                    context.progress(f64::from(percent) / 10.0, "counting");
                    tokio::task::yield_now().await;
                }
                done.wait_for(|done| *done).await?;
                Ok(())
            }
        }
    }));
    let id = submit(&client, NewTask::new("a")).await;
    let started = std::time::Instant::now();
    loop {
        let progress = client.task_progress(id).await.unwrap().progress;
        if progress.is_some_and(|progress| progress.percent == Some(100.0)) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "the last word is told");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let history = client.task_history(id).await.unwrap().history;
    let told = history.iter().filter(|entry| &*entry.event_type == "task.progress").count();
    assert!(told <= 20, "{told} of 1,001 were told");
    done.send_replace(true);
    ended_as(&client, id, StateName::Completed).await;
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_depends_on_is_left_alone_while_it_fails() {
    let site = Site::new().await;
    let client = site.client();
    let tries = Arc::new(AtomicUsize::new(0));
    let settings = BreakerSettings { failures: 2, open_for: Duration::from_secs(3), trials: 1 };
    let shift = Shift::begin(worker(&client).capacity(1).breaker(settings).handle("a", {
        let tries = tries.clone();
        move |context: Context, n: u32| {
            let tries = tries.clone();
            let call = async move {
                // Down for the first two, and up when the trial comes.
                match tries.fetch_add(1, Ordering::SeqCst) {
                    0 | 1 => Err(TaskError::transient("the mail server is down")
                        .retry_after(Duration::from_millis(1))),
                    _ => Ok(n),
                }
            };
            async move { context.with_breaker("smtp", call).await }
        }
    }));
    let tasks: Vec<_> = (0..4).map(|n| NewTask::new("a").payload(&n)).collect();
    client.submit_batch(&tasks).await.unwrap();
    let mut attempts = 0;
    for task in &tasks {
        attempts += ended_as(&client, task.id(), StateName::Completed).await.attempts;
    }
    assert_eq!(attempts, 4 + 2, "only the two failures cost an attempt");
    let mut released = 0;
    for task in &tasks {
        let history = client.task_history(task.id()).await.unwrap().history;
        released += history.iter().filter(|entry| &*entry.event_type == "task.released").count();
    }
    assert!(released >= 1, "those that came while it was open were given back");
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_submits_what_comes_next() {
    let site = Site::new().await;
    let client = site.client();
    let shift = Shift::begin(
        worker(&client)
            .handle("first", |context: Context, _: Json| async move {
                let next = NewTask::new("second").payload(&context.fence());
                Ok(context.client().submit(next).await?.id.to_string())
            })
            .handle("sec*", |_: Context, fence: u64| async move { Ok(fence) }),
    );
    let id = submit(&client, NewTask::new("first")).await;
    let first = ended_as(&client, id, StateName::Completed).await;
    let next: String = serde_json::from_slice(&first.result.unwrap().0).unwrap();
    ended_as(&client, next.parse().unwrap(), StateName::Completed).await;
    shift.end().await;
}
