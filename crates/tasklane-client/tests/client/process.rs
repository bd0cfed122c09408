//! Workers as processes of their own, which are killed and stopped.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tasklane_client::wire::Json;
use tasklane_client::worker::Context;
use tasklane_client::{Client, NewTask, StateName};

use crate::shift::{Shift, ended_as, submit, worker};
use crate::site::Site;

const SERVER: &str = "TASKLANE_TEST_SERVER";
const STARTED: &str = "started with fence ";
/// How long the handler of a process takes: longer than a signal to it.
const WORK_MS: u64 = 5_000;

/// Not a test by itself: what the others run as a process.
#[test]
fn runs_when_it_is_told_to() {
    let Ok(server) = std::env::var(SERVER) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = Client::connect_to(server).unwrap();
    let worker = worker(&client).handle("a", |context: Context, wait_ms: u64| async move {
        println!("{STARTED}{}", context.fence());
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        // Whoever holds the task says this; the server takes only one word.
        Ok(format!("the process with fence {}", context.fence()))
    });
    runtime.block_on(worker.build().unwrap().run(std::future::pending())).unwrap();
}

/// A worker that is a process.
struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(site: &Site) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::runs_when_it_is_told_to", "--nocapture"])
            .env(SERVER, site.url())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits until its handler begins; gives the fence.
    fn begins(&mut self) -> u64 {
        loop {
            let line = self.lines.next().unwrap().unwrap();
            if let Some((_, fence)) = line.split_once(STARTED) {
                return fence.parse().unwrap();
            }
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn site() -> Site {
    Site::with(|settings, rules| {
        rules.lease = Duration::from_secs(5);
        settings.heartbeat_every = Duration::from_millis(500);
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_worker_had_is_done_by_another() {
    let site = site().await;
    let client = site.client();
    let mut process = Process::start(&site);
    let id = submit(&client, NewTask::new("a").payload(&WORK_MS)).await;
    tokio::task::block_in_place(|| process.begins());
    process.signal("-KILL");
    let shift =
        Shift::begin(worker(&client).handle("a", |_: Context, _: Json| async { Ok("another") }));
    let task = ended_as(&client, id, StateName::Completed).await;
    assert_eq!(&task.result.unwrap().0[..], b"\"another\"");
    assert_eq!((task.attempts, task.deliveries), (1, 2), "a lost lease costs no attempt");
    shift.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_stopped_for_too_long_changes_nothing() {
    let site = site().await;
    let client = site.client();
    let mut process = Process::start(&site);
    let id = submit(&client, NewTask::new("a").payload(&WORK_MS)).await;
    let first = tokio::task::block_in_place(|| process.begins());
    process.signal("-STOP");
    let shift = Shift::begin(
        worker(&client).handle("a", |context: Context, _: Json| async move { Ok(context.fence()) }),
    );
    let task = ended_as(&client, id, StateName::Completed).await;
    let second: u64 = serde_json::from_slice(&task.result.unwrap().0).unwrap();
    assert!(second > first, "{second} is not above {first}");
    shift.end().await;
    // It wakes up, is refused, and goes on as a worker: the next task is done by it.
    process.signal("-CONT");
    let next = submit(&client, NewTask::new("a").payload(&0)).await;
    ended_as(&client, next, StateName::Completed).await;
    let task = client.get(id).await.unwrap();
    assert_eq!(task.result.unwrap().0, second.to_string());
    assert_eq!(task.attempts, 1, "a completion counts once");
}
