//! The limit to compare with: a bare axum server that reads the body of a submission and answers
//! it, with no store behind. `echo [--listen ADDRESS] [--log FILE | --redis SOCKET]` prints where it
//! listens. With a log it answers once what came is on disk, with Redis once that has it in a hash:
//! the limits of anything that promises so.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
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
    keep(entries, |group| {
        bytes.clear();
        for (payload, _) in group {
            bytes.extend_from_slice(payload.get().as_bytes());
        }
        if at + bytes.len() > LOG_BYTES {
            at = 0;
        }
        file.write_all_at(&bytes, at as u64).unwrap();
        file.sync_data().unwrap();
        at += bytes.len();
    });
}

/// Has Redis keep in one command what came meanwhile, then answers it.
fn keep_in_redis(mut socket: UnixStream, entries: &mpsc::Receiver<Entry>) {
    let (mut id, mut bytes, mut answer) = (0, Vec::new(), String::new());
    let mut answers = BufReader::new(socket.try_clone().unwrap());
    keep(entries, |group| {
        bytes.clear();
        write!(bytes, "*{}\r\n$4\r\nHSET\r\n$4\r\necho\r\n", 2 + 2 * group.len()).unwrap();
        for (payload, _) in group {
            id += 1;
            let payload = payload.get();
            write!(bytes, "$16\r\n{id:016}\r\n${}\r\n{payload}\r\n", payload.len()).unwrap();
        }
        socket.write_all(&bytes).unwrap();
        answer.clear();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.starts_with(':'), "{answer}");
    });
}

/// Keeps together what came meanwhile, then answers it.
fn keep(entries: &mpsc::Receiver<Entry>, mut write: impl FnMut(&[Entry])) {
    while let Ok(first) = entries.recv() {
        let group: Vec<Entry> = std::iter::once(first).chain(entries.try_iter()).collect();
        write(&group);
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

fn open_redis(socket: &str) -> mpsc::Sender<Entry> {
    let socket = UnixStream::connect(socket).unwrap();
    let (log, entries) = mpsc::channel();
    std::thread::spawn(move || keep_in_redis(socket, &entries));
    log
}

fn main() {
    let (mut address, mut log) = ("127.0.0.1:0".to_owned(), None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.next()) {
            ("--listen", Some(given)) => address = given,
            ("--log", Some(path)) => log = Some(open_log(&path)),
            ("--redis", Some(socket)) => log = Some(open_redis(&socket)),
            _ => {
                eprintln!("echo [--listen ADDRESS] [--log FILE | --redis SOCKET]");
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
