//! What a worker asks of its server, each as a task of its own.

use std::time::Duration;

use tasklane_core::WorkerId;
use tokio::time::Instant;

use super::outcome::Done;
use crate::call::{Client, Error};
use crate::wire::{
    Heartbeat, HeartbeatAnswer, HeartbeatStatus, LeaseRef, Poll, PollAnswer, Register, Registered,
    Reports, ReportsAnswer,
};

/// What became of something that a worker had begun.
pub(super) enum Event {
    Registered(Result<Registered, Error>),
    Polled(Asked, Result<PollAnswer, Error>),
    Reported(Asked, Vec<Done>, Result<ReportsAnswer, Error>),
    Renewed(Asked, Vec<LeaseRef>, Result<HeartbeatAnswer, Error>),
    Ended(Done),
}

/// Who asked, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) worker: WorkerId,
    pub(super) at: Instant,
}

impl Asked {
    fn now(worker: WorkerId) -> Self {
        Self { worker, at: Instant::now() }
    }
}

pub(super) async fn register(client: Client, register: Register) -> Event {
    Event::Registered(client.register(&register).await)
}

pub(super) async fn poll(client: Client, worker: WorkerId, room: u32, wait: Duration) -> Event {
    let asked = Asked::now(worker);
    Event::Polled(asked, client.poll(worker, &wanted(room, wait)).await)
}

/// Tells results; with room for more, the next tasks come with the answer.
pub(super) async fn report(
    client: Client,
    worker: WorkerId,
    done: Vec<Done>,
    room: Option<u32>,
) -> Event {
    let asked = Asked::now(worker);
    let poll = room.map(|room| wanted(room, Duration::ZERO));
    let reports = Reports { results: done.iter().map(Done::report).collect(), poll };
    let answer = client.report(worker, &reports).await;
    Event::Reported(asked, done, answer)
}

pub(super) async fn renew(
    client: Client,
    worker: WorkerId,
    sent: Vec<LeaseRef>,
    draining: bool,
) -> Event {
    let asked = Asked::now(worker);
    let status = if draining { HeartbeatStatus::Draining } else { HeartbeatStatus::Active };
    let heartbeat = Heartbeat {
        current_load: u32::try_from(sent.len()).ok(),
        status: Some(status),
        health: None,
        leases: Some(sent.clone()),
    };
    let answer = client.heartbeat(worker, &heartbeat).await;
    Event::Renewed(asked, sent, answer)
}

fn wanted(room: u32, wait: Duration) -> Poll {
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    Poll { available_capacity: room, wait_ms, auto_start: true, capabilities: None }
}
