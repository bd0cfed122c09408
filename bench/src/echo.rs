//! The limit to compare with: a bare axum server that reads the body of a submission and answers
//! it, with no store behind. `echo [--listen ADDRESS]` prints where it listens.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use axum::http::StatusCode;
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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

async fn submit(Json(task): Json<NewTask>) -> (StatusCode, Json<Task>) {
    let NewTask { task_type, payload } = task;
    (StatusCode::CREATED, Json(Task { id: 1, task_type, payload, state: "pending" }))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => "127.0.0.1:0".to_owned(),
        (Some("--listen"), Some(address)) => address,
        _ => {
            eprintln!("echo [--listen ADDRESS]");
            std::process::exit(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        // As the server does: answers are small and somebody waits for each.
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        let router = Router::new().route("/api/v1/tasks", post(submit));
        axum::serve(listener, router).await.unwrap();
    });
}
