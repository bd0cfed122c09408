//! When a handler is told to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tasklane_client::wire::{Json, Requeue, TaskIdText};
use tasklane_client::worker::{Context, StopReason, TaskError};
use tasklane_client::{ErrorKind, NewTask, StateName};
use tasklane_core::lifecycle::Rules;
use tasklane_server::Settings;
use tokio::sync::mpsc;

use crate::shift::{Shift, ended_as, heard, submit, worker};
use crate::site::Site;

/// Heartbeats ten times a second.
async fn brisk() -> Site {
    Site::with(|settings, _| settings.heartbeat_every = Duration::from_millis(100)).await
}

/// Says that it has begun, and then why it was told to stop.
type Said = mpsc::UnboundedSender<Option<StopReason>>;

async fn until_stopped(context: Context, said: Said) -> Result<(), TaskError> {
    said.send(None)?;
    said.send(Some(context.cancelled().await))?;
    Err(TaskError::cancelled())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_cancelled_is_stopped() {
    let site = brisk().await;
    let client = site.client();
    let (said, mut hears) = mpsc::unbounded_channel();
    let handler = move |context: Context, _: Json| until_stopped(context, said.clone());
    let shift = Shift::begin(worker(&client).handle("a", handler));
    let id = submit(&client, NewTask::new("a")).await;
    assert_eq!(heard(&mut hears).await, None);
    client.cancel(id).await.unwrap();
    assert_eq!(heard(&mut hears).await, Some(StopReason::Cancelled));
    ended_as(&client, id, StateName::Cancelled).await;
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_cancelled_is_stopped_by_the_answer_to_another() {
    let hour = Duration::from_secs(3_600);
    let seldom = |settings: &mut Settings, rules: &mut Rules| {
        (settings.heartbeat_every, rules.lease) = (hour, hour * 3);
    };
    let site = Site::with(seldom).await;
    let client = site.client();
    let (said, mut hears) = mpsc::unbounded_channel();
    let handler = move |context: Context, _: Json| until_stopped(context, said.clone());
    let worker = worker(&client).handle("a", handler);
    let shift = Shift::begin(worker.handle("b", |_: Context, _: Json| async { Ok(()) }));
    let id = submit(&client, NewTask::new("a")).await;
    assert_eq!(heard(&mut hears).await, None);
    client.cancel(id).await.unwrap();
    let others = async {
        loop {
            let other = submit(&client, NewTask::new("b")).await;
            ended_as(&client, other, StateName::Completed).await;
        }
    };
    tokio::select! {
        reason = heard(&mut hears) => assert_eq!(reason, Some(StopReason::Cancelled)),
        () = others => {}
    }
    ended_as(&client, id, StateName::Cancelled).await;
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_stop_is_dropped() {
    let site = brisk().await;
    let client = site.client();
    let (said, mut hears) = mpsc::unbounded_channel();
    let shift = Shift::begin(worker(&client).capacity(1).handle("deaf", {
        move |_: Context, _: Json| {
            let said = said.clone();
            async move {
                said.send(())?;
                std::future::pending::<()>().await;
                Ok(())
            }
        }
    }));
    let id = submit(&client, NewTask::new("deaf")).await;
    heard(&mut hears).await;
    client.cancel(id).await.unwrap();
    ended_as(&client, id, StateName::Cancelled).await;
    submit(&client, NewTask::new("deaf")).await;
    heard(&mut hears).await;
    shift.begin_end();
    drop(shift);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_takes_too_long_is_stopped() {
    let site = brisk().await;
    let client = site.client();
    let (said, mut hears) = mpsc::unbounded_channel();
    let handler = move |context: Context, _: Json| until_stopped(context, said.clone());
    let shift = Shift::begin(worker(&client).handle("a", handler));
    let task = NewTask::new("a").timeout(Duration::from_secs(1)).max_retries(0);
    let id = submit(&client, task).await;
    heard(&mut hears).await;
    // Its own clock, or the server's: whichever says so first.
    let reason = heard(&mut hears).await.unwrap();
    assert!(matches!(reason, StopReason::TimedOut | StopReason::LeaseLost), "{reason:?}");
    let task = ended_as(&client, id, StateName::DeadLetter).await;
    assert_eq!(task.error.unwrap().kind.unwrap().0, ErrorKind::Timeout);
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_taken_away_is_stopped() {
    let site = brisk().await;
    let client = site.client();
    let (said, mut hears) = mpsc::unbounded_channel();
    let has_begun = AtomicBool::new(false);
    let shift = Shift::begin(worker(&client).handle("a", {
        move |context: Context, _: Json| {
            let (said, is_first) = (said.clone(), !has_begun.swap(true, Ordering::SeqCst));
            async move {
                match context.task().attempt == 1 && said.send(context.fence()).is_ok() {
                    true if context.task().fence > 0 => {}
                    _ => return Err(TaskError::bug("no fence")),
                }
                if is_first {
                    assert_eq!(context.cancelled().await, StopReason::LeaseLost);
                    said.send(0)?;
                    return Err(TaskError::cancelled());
                }
                Ok(context.fence())
            }
        }
    }));
    let id = submit(&client, NewTask::new("a")).await;
    let first = heard(&mut hears).await;
    let requeue = Requeue { task_ids: Some(vec![TaskIdText(id)]), ..Requeue::default() };
    assert_eq!(client.requeue_tasks(&requeue).await.unwrap().requeued.len(), 1);
    let mut more = [heard(&mut hears).await, heard(&mut hears).await];
    more.sort_unstable();
    assert_eq!(more[0], 0, "the first attempt was stopped");
    assert!(more[1] > first, "the second has a higher fence");
    let task = ended_as(&client, id, StateName::Completed).await;
    assert_eq!(&task.result.unwrap().0[..], more[1].to_string().as_bytes());
    assert_eq!(task.attempts, 1);
    shift.end().await;
}
