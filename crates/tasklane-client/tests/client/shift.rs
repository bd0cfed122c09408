//! A worker at work beside a test.

use std::time::Duration;

use tasklane_client::wire::{Json, Task};
use tasklane_client::worker::{Context, Worker, WorkerBuilder};
use tasklane_client::{Client, Error, NewTask, StateName, TaskId};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::site::PATIENCE;

pub(crate) struct Shift {
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

impl Shift {
    pub(crate) fn begin(worker: WorkerBuilder) -> Self {
        let shutdown = CancellationToken::new();
        let until = shutdown.clone();
        let worker = worker.build().unwrap();
        let running = tokio::spawn(async move { worker.run(until.cancelled()).await });
        Self { shutdown, running }
    }

    /// Asks for the end without waiting for it.
    pub(crate) fn begin_end(&self) {
        self.shutdown.cancel();
    }

    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        self.ended().await.unwrap();
    }

    /// Waits for an end that comes by itself.
    pub(crate) async fn ended(self) -> Result<(), Error> {
        tokio::time::timeout(PATIENCE, self.running).await.unwrap().unwrap()
    }
}

/// Tasks of the type `a` that run until they may end.
pub(crate) struct Held {
    said: mpsc::UnboundedReceiver<()>,
    release: watch::Sender<bool>,
}

impl Held {
    pub(crate) fn begin(worker: WorkerBuilder) -> (Shift, Self) {
        let (say, said) = mpsc::unbounded_channel();
        let (release, _) = watch::channel(false);
        let handler = {
            let release = release.clone();
            move |_: Context, _: Json| {
                let (say, mut release) = (say.clone(), release.subscribe());
                async move {
                    say.send(())?;
                    release.wait_for(|release| *release).await?;
                    Ok(())
                }
            }
        };
        (Shift::begin(worker.handle("a", handler)), Self { said, release })
    }

    /// Waits until one more runs.
    pub(crate) async fn runs(&mut self) {
        heard(&mut self.said).await;
    }

    pub(crate) fn release(&self) {
        self.release.send_replace(true);
    }
}

pub(crate) fn worker(client: &Client) -> WorkerBuilder {
    Worker::builder(client.clone()).stop_within(Duration::from_millis(300))
}

/// Submits a task and gives its id.
pub(crate) async fn submit(client: &Client, task: NewTask) -> TaskId {
    client.submit(task).await.unwrap().id
}

/// A task when it has ended, which it must as expected.
pub(crate) async fn ended_as(client: &Client, id: TaskId, state: StateName) -> Task {
    let task = client.wait(id, PATIENCE).await.unwrap();
    assert_eq!(task.state.0, state, "{task:?}");
    task
}

/// What a handler says.
pub(crate) async fn heard<T>(said: &mut mpsc::UnboundedReceiver<T>) -> T {
    tokio::time::timeout(PATIENCE, said.recv()).await.unwrap().unwrap()
}
