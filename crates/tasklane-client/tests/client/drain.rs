//! How a worker ends.

use std::time::Duration;

use tasklane_client::call::ListWorkers;
use tasklane_client::wire::Json;
use tasklane_client::worker::{Context, StopReason, TaskError, Worker};
use tasklane_client::{Client, ErrorClass, NewTask, StateName};
use tasklane_server::Authentication;
use tokio::sync::{mpsc, watch};

use crate::shift::{Held, Shift, ended_as, heard, submit, worker};
use crate::site::Site;

/// Live workers, as the server sees them.
async fn alive(client: &Client) -> usize {
    let workers = client.list_workers(&ListWorkers::default()).await.unwrap().workers;
    workers.iter().filter(|worker| worker.state != "dead").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_ends_finishes_what_it_can_and_gives_back_the_rest() {
    let site = Site::new().await;
    let client = site.client();
    let (said, mut hears) = mpsc::unbounded_channel();
    let (release, _) = watch::channel(false);
    let builder = worker(&client).drain_within(Duration::from_millis(500)).handle("a", {
        let release = release.clone();
        move |context: Context, quick: bool| {
            let (said, mut release) = (said.clone(), release.subscribe());
            async move {
                said.send(None)?;
                if quick {
                    release.wait_for(|release| *release).await?;
                    return Ok(());
                }
                said.send(Some(context.cancelled().await))?;
                Err(TaskError::cancelled())
            }
        }
    });
    let shift = Shift::begin(builder);
    let quick = submit(&client, NewTask::new("a").payload(&true)).await;
    let slow = submit(&client, NewTask::new("a").payload(&false)).await;
    heard(&mut hears).await;
    heard(&mut hears).await;
    shift.begin_end();
    release.send_replace(true);
    ended_as(&client, quick, StateName::Completed).await;
    let later = submit(&client, NewTask::new("a").payload(&true)).await;
    shift.ended().await.unwrap();
    assert_eq!(heard(&mut hears).await, Some(StopReason::Draining));
    let task = client.get(slow).await.unwrap();
    assert_eq!((task.state.0, task.attempts, task.deliveries), (StateName::Pending, 0, 1));
    let task = client.get(later).await.unwrap();
    assert_eq!(task.state.0, StateName::Pending, "nothing is taken any more");
    assert_eq!(alive(&client).await, 0, "it has taken leave");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_tasks_ends_soon() {
    let site = Site::new().await;
    let client = site.client();
    let shift = Shift::begin(worker(&client).handle("a", |_: Context, _: Json| async { Ok(()) }));
    let id = submit(&client, NewTask::new("a")).await;
    ended_as(&client, id, StateName::Completed).await;
    let started = std::time::Instant::now();
    shift.end().await;
    assert!(started.elapsed() < Duration::from_secs(10), "a poll waits 30 s, its end must not");
    assert_eq!(alive(&client).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_drain_a_worker() {
    let site =
        Site::with(|settings, _| settings.heartbeat_every = Duration::from_millis(100)).await;
    let client = site.client();
    let (shift, mut held) = Held::begin(worker(&client));
    let id = submit(&client, NewTask::new("a")).await;
    held.runs().await;
    let worker = client.get(id).await.unwrap().worker_id.unwrap().0;
    client.drain_worker(worker).await.unwrap();
    held.release();
    shift.ended().await.unwrap();
    ended_as(&client, id, StateName::Completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_not_wanted_says_so() {
    let site = Site::with(|settings, _| settings.authentication = Authentication::Keys).await;
    let shift =
        Shift::begin(worker(&site.client()).handle("a", |_: Context, _: Json| async { Ok(()) }));
    assert!(shift.ended().await.unwrap_err().is("unauthenticated"));
    let nothing = Worker::builder(site.client()).build().unwrap_err();
    assert_eq!(nothing.class(), ErrorClass::Usage);
}
