//! The limit to compare with: a bare axum server that reads the body of a submission and answers
//! it, with no store behind. `echo [--listen ADDRESS] [--log FILE]` prints where it listens. With a
//! log it answers once what came is on disk: the limit of anything that promises so.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct NewTask {
    #[serde(rename = "type")]
    task_type: String,
    payload: Box<RawValue>,
}

#[derive(Serialize)]
struct Task {
    id: u64,
    #[serde(rename = "type")]
    task_type: String,
    payload: Box<RawValue>,
    state: &'static str,
}

/// Bytes of the log, which is written over and over: a file that grows costs more to sync.
const LOG_BYTES: usize = 16 * 1024 * 1024;

/// A payload on its way into the log, and who waits for it.
type Entry = (Box<RawValue>, oneshot::Sender<Box<RawValue>>);

async fn submit(
    State(log): State<Option<mpsc::Sender<Entry>>>,
    Json(task): Json<NewTask>,
) -> (StatusCode, Json<Task>) {
    let NewTask { task_type, mut payload } = task;
    if let Some(log) = log {
        let (reply, synced) = oneshot::channel();
        log.send((payload, reply)).unwrap();
        payload = synced.await.unwrap();
    }
    (StatusCode::CREATED, Json(Task { id: 1, task_type, payload, state: "pending" }))
}

/// Writes and syncs together what came meanwhile, then answers it.
fn keep_log(file: &File, entries: &mpsc::Receiver<Entry>) {
    let (mut at, mut bytes) = (0, Vec::new());
    while let Ok(first) = entries.recv() {
        let group: Vec<Entry> = std::iter::once(first).chain(entries.try_iter()).collect();
        bytes.clear();
        for (payload, _) in &group {
            bytes.extend_from_slice(payload.get().as_bytes());
        }
        if at + bytes.len() > LOG_BYTES {
            at = 0;
        }
        file.write_all_at(&bytes, at as u64).unwrap();
        file.sync_data().unwrap();
        at += bytes.len();
        for (payload, reply) in group {
            let _ = reply.send(payload);
        }
    }
}

fn open_log(path: &str) -> mpsc::Sender<Entry> {
    let file = File::create(path).unwrap();
    file.write_all_at(&vec![0; LOG_BYTES], 0).unwrap();
    file.sync_all().unwrap();
    let (log, entries) = mpsc::channel();
    std::thread::spawn(move || keep_log(&file, &entries));
    log
}

fn main() {
    let (mut address, mut log) = ("127.0.0.1:0".to_owned(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.next()) {
            ("--listen", Some(given)) => address = given,
            ("--log", Some(path)) => log = Some(open_log(&path)),
            _ => {
                eprintln!("echo [--listen ADDRESS] [--log FILE]");
                std::process::exit(2);
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        // As the server does: answers are small and somebody waits for each.
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        let router = Router::new().route("/api/v1/tasks", post(submit)).with_state(log);
        axum::serve(listener, router).await.unwrap();
    });
}
