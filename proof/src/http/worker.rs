//! A worker that claims, settles and sends heartbeats all the time, and notes how long that takes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::caller::Caller;
use crate::Failure;

/// Rest between two heartbeats, and between two rounds of work.
const REST: Duration = Duration::from_millis(5);
/// Tasks that a worker claims at once.
const CLAIMED: u64 = 10;

/// How long the answers took.
#[derive(Debug, Default)]
pub struct Latencies {
    /// Of heartbeats.
    pub heartbeat: Vec<Duration>,
    /// Of results, one task each.
    pub settle: Vec<Duration>,
}

/// A worker and its heartbeat, until `over`.
pub fn run(address: SocketAddr, over: &AtomicBool) -> Result<Latencies, Failure> {
    let mut caller = Caller::new(address)?;
    let id = caller.register(&json!({"capacity": 100}))?;
    thread::scope(|scope| {
        let heart = scope.spawn(|| beat(address, &id, over));
        let settle = work(&mut caller, &id, over)?;
        let heartbeat = heart.join().map_err(|_| "a heart stopped")??;
        Ok(Latencies { heartbeat, settle })
    })
}

fn beat(address: SocketAddr, id: &str, over: &AtomicBool) -> Result<Vec<Duration>, Failure> {
    let (mut caller, mut latencies) = (Caller::new(address)?, Vec::new());
    let path = format!("/internal/workers/{id}/heartbeat");
    while !over.load(Ordering::Relaxed) {
        let answer = caller.post(&path, &json!({}))?;
        if answer.status != 200 {
            return Err(format!("a heartbeat got {}: {}", answer.status, answer.body).into());
        }
        latencies.push(answer.took);
        thread::sleep(REST);
    }
    Ok(latencies)
}

fn work(caller: &mut Caller, id: &str, over: &AtomicBool) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::new();
    let poll = format!("/internal/workers/{id}/poll");
    let result = format!("/internal/workers/{id}/result");
    while !over.load(Ordering::Relaxed) {
        let polled = caller.post(&poll, &json!({"available_capacity": CLAIMED, "wait_ms": 100}))?;
        let Some(tasks) = polled.body.get("tasks").and_then(Value::as_array) else {
            return Err(format!("a poll got {}: {}", polled.status, polled.body).into());
        };
        for task in tasks {
            let report = json!({"task_id": task.get("id"), "lease_token": task.get("lease_token"),
                "status": "completed", "result": Value::Null});
            let answer = caller.post(&result, &report)?;
            if answer.status != 200 {
                return Err(format!("a result got {}: {}", answer.status, answer.body).into());
            }
            latencies.push(answer.took);
        }
        thread::sleep(REST);
    }
    Ok(latencies)
}
