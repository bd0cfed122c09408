//! What a worker does while its server is away.

use std::time::Duration;

use tasklane_client::wire::Json;
use tasklane_client::worker::Context;
use tasklane_client::{NewTask, StateName};
use tokio::sync::{mpsc, watch};

use crate::shift::{Held, Shift, ended_as, heard, submit, worker};
use crate::site::Site;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_on_while_the_server_restarts() {
    let mut site = Site::new().await;
    let client = site.client();
    let (said, mut hears) = mpsc::unbounded_channel();
    let (release, _) = watch::channel(0);
    let shift = Shift::begin(worker(&client).handle("a", {
        let release = release.clone();
        move |_: Context, n: u32| {
            let (said, mut release) = (said.clone(), release.subscribe());
            async move {
                said.send(false)?;
                release.wait_for(|released| *released >= n).await?;
                said.send(true)?;
                Ok(n)
            }
        }
    }));
    // One ends while the server is away, the other after it is back.
    let during = submit(&client, NewTask::new("a").payload(&1)).await;
    let after = submit(&client, NewTask::new("a").payload(&2)).await;
    assert!(!heard(&mut hears).await && !heard(&mut hears).await);
    site.stop().await;
    release.send_replace(1);
    assert!(heard(&mut hears).await);
    site.start().await;
    let task = ended_as(&client, during, StateName::Completed).await;
    assert_eq!((task.deliveries, task.attempts, task.lease_losses), (1, 1, 0));
    release.send_replace(2);
    let task = ended_as(&client, after, StateName::Completed).await;
    assert_eq!((task.deliveries, task.attempts, task.lease_losses), (1, 1, 0));
    // And it takes new ones.
    let id = submit(&client, NewTask::new("a").payload(&0)).await;
    ended_as(&client, id, StateName::Completed).await;
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_begins_before_its_server_waits_for_it() {
    let mut site = Site::new().await;
    let client = site.client();
    site.stop().await;
    let shift = Shift::begin(worker(&client).handle("a", |_: Context, _: Json| async { Ok(()) }));
    site.start().await;
    let id = submit(&client, NewTask::new("a")).await;
    ended_as(&client, id, StateName::Completed).await;
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_forgotten_registers_again_and_keeps_its_task() {
    let site =
        Site::with(|settings, _| settings.heartbeat_every = Duration::from_millis(100)).await;
    let client = site.client();
    let (shift, mut held) = Held::begin(worker(&client));
    let id = submit(&client, NewTask::new("a")).await;
    held.runs().await;
    let first = client.get(id).await.unwrap().worker_id.unwrap().0;
    client.deregister(first).await.unwrap();
    // A task for the worker that it is from then on.
    let next = submit(&client, NewTask::new("a")).await;
    held.runs().await;
    let second = client.get(next).await.unwrap().worker_id.unwrap().0;
    assert_ne!(first, second);
    held.release();
    ended_as(&client, next, StateName::Completed).await;
    let task = ended_as(&client, id, StateName::Completed).await;
    assert_eq!((task.deliveries, task.lease_losses), (1, 0));
    shift.end().await;
}
