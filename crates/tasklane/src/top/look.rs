//! Asks the server, follows its events, and does what an operator wants.

use std::time::Duration;

use tasklane_client::call::{EventFilter, Events, ListDeadLetters, ListWorkers};
use tasklane_client::wire::{ReplayOne, Task, Worker};
use tasklane_client::{Client, Error};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::state::{Action, Counters, QueueLine, Seen, Update};

/// Queues whose priorities are asked for one by one; of others only the depth is shown.
const QUEUES_IN_DETAIL: usize = 32;
const LINES_MAX: u32 = 200;
/// What an operator should see; everything else passes by too fast on a busy server.
const NOTABLE: [&str; 11] = [
    "task.failed",
    "task.retrying",
    "task.dead_lettered",
    "task.cancelled",
    "task.lease_lost",
    "task.replayed",
    "worker.*",
    "queue.paused",
    "queue.resumed",
    "queue.purged",
    "system.gap",
];

/// Looks again and again, until nobody wants to know.
pub(super) async fn watch(client: Client, every: Duration, updates: mpsc::Sender<Update>) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let started = Instant::now();
    loop {
        ticks.tick().await;
        let update = match look(&client, started).await {
            Ok(seen) => Update::Seen(Box::new(seen)),
            Err(error @ Error::Unreachable(_)) => {
                Update::Away(format!("AWAY, trying again: {error}"))
            }
            Err(error) => Update::Away(format!("REFUSED, trying again: {error}")),
        };
        if updates.send(update).await.is_err() {
            return;
        }
    }
}

async fn look(client: &Client, started: Instant) -> Result<Seen, Error> {
    let stats = client.queue_stats(None).await?;
    let health = client.get_health().await.ok();
    let counters = client.metrics().await.ok().map(|text| Counters::read(&text));
    Ok(Seen {
        at: started.elapsed(),
        stats,
        health,
        counters,
        queues: refused_or(queues(client).await)?,
        workers: refused_or(workers(client).await)?,
        dead_letters: refused_or(dead_letters(client).await)?,
    })
}

/// What the server does not show is told in its place. If it goes away in the middle, nothing was
/// seen: what was there before stays.
fn refused_or<T>(shown: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match shown {
        Err(error @ Error::Unreachable(_)) => Err(error),
        shown => Ok(shown.map_err(|error| error.to_string())),
    }
}

async fn queues(client: &Client) -> Result<Vec<QueueLine>, Error> {
    let mut lines = Vec::new();
    for (index, queue) in client.list_queues().await?.into_iter().enumerate() {
        let stats = match index < QUEUES_IN_DETAIL {
            true => client.queue_stats(Some(&queue.name)).await.ok(),
            false => None,
        };
        let depths = stats.map(|stats| stats.queues);
        lines.push(QueueLine {
            name: queue.name,
            paused: queue.paused,
            depth: queue.depth,
            depths,
        });
    }
    Ok(lines)
}

async fn workers(client: &Client) -> Result<Vec<Worker>, Error> {
    let list = ListWorkers { limit: Some(LINES_MAX), ..ListWorkers::default() };
    client.list_workers(&list).await.map(|page| page.workers)
}

async fn dead_letters(client: &Client) -> Result<Vec<Task>, Error> {
    let list = ListDeadLetters { limit: Some(LINES_MAX), ..ListDeadLetters::default() };
    client.list_dead_letters(&list).await.map(|page| page.entries)
}

/// Follows events: those that are notable, or every one while `every` says so.
pub(super) async fn follow(
    client: Client,
    mut every: watch::Receiver<bool>,
    updates: mpsc::Sender<Update>,
) {
    loop {
        let kinds = match *every.borrow_and_update() {
            true => Vec::new(),
            false => NOTABLE.map(ToOwned::to_owned).to_vec(),
        };
        let filter = EventFilter { kinds, ..EventFilter::default() };
        let refused = tokio::select! {
            refused = forward(&client, filter, &updates) => refused,
            changed = every.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let Some(error) = refused else { return };
        let told = updates.send(Update::NoEvents(error.to_string())).await;
        if told.is_err() || every.changed().await.is_err() {
            return;
        }
    }
}

/// Hands events on; ends with why there are no more, or without a reason if nobody wants them.
async fn forward(
    client: &Client,
    filter: EventFilter,
    updates: &mpsc::Sender<Update>,
) -> Option<Error> {
    let mut events: Events = match client.events(filter, None).await {
        Ok(events) => events,
        Err(error) => return Some(error),
    };
    loop {
        match events.next().await {
            // A gauge, not something that happened.
            Ok(event) if matches!(&*event.event_type, "queue.depth" | "system.metrics") => {}
            Ok(event) => updates.send(Update::Event(Box::new(event))).await.ok()?,
            Err(error) => return Some(error),
        }
    }
}

/// Does what an operator wants; gives what to say about it.
pub(super) async fn act(client: Client, action: Action) -> Update {
    let done = match &action {
        Action::PauseQueue(name) => client.pause_queue(name).await.map(|_| ()),
        Action::ResumeQueue(name) => client.resume_queue(name).await.map(|_| ()),
        Action::DrainWorker(id, _) => client.drain_worker(*id).await.map(|_| ()),
        Action::Replay(id, _) => {
            client.replay_dead_letter(*id, &ReplayOne::default()).await.map(|_| ())
        }
    };
    Update::Acted(match done {
        Ok(()) => Ok(action.done()),
        Err(error) => Err(error.to_string()),
    })
}
