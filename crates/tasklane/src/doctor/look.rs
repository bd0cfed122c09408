//! Asks a server everything that a doctor wants to know.

use std::time::{Instant, SystemTime};

use tasklane_client::wire;
use tasklane_client::{Client, Error, ErrorClass};

/// What was seen of a server. What it did not show is an error in its own words.
#[derive(Debug)]
pub(super) struct Seen {
    /// Where it was looked for.
    pub(super) url: String,
    /// Whether a key was shown.
    pub(super) has_key: bool,
    /// Whether anything answers.
    pub(super) reached: Result<(), String>,
    /// Whether it takes calls.
    pub(super) ready: Result<(), String>,
    pub(super) health: Shown<wire::Health>,
    /// How far its clock is before ours in seconds, and how exactly that is known.
    pub(super) clock: Option<(f64, f64)>,
    pub(super) stats: Shown<wire::QueueStats>,
    pub(super) queues: Shown<Vec<wire::Queue>>,
    pub(super) minutes: Shown<wire::Minutes>,
}

/// What was asked for, or the status of the refusal and its words.
pub(super) type Shown<T> = Result<T, (u16, String)>;

/// How far back to look for dead letters.
const MINUTES: u32 = 10;
const UNASKED: &str = "nobody could be asked";

pub(super) async fn look(client: &Client, has_key: bool) -> Seen {
    let mut seen = Seen {
        url: client.server().to_owned(),
        has_key,
        reached: Ok(()),
        ready: Err(UNASKED.to_owned()),
        health: unasked(),
        clock: None,
        stats: unasked(),
        queues: unasked(),
        minutes: unasked(),
    };
    seen.ready = match client.get_readiness().await {
        Ok(()) => Ok(()),
        Err(error) if error.class() == ErrorClass::Unreachable => {
            seen.reached = Err(error.to_string());
            return seen;
        }
        Err(error) => Err(words(&error)),
    };
    let asked = Instant::now();
    seen.health = shown(client.get_health().await);
    let took = asked.elapsed().as_secs_f64();
    seen.clock = seen.health.as_ref().ok().map(|health| (ahead(health) + took / 2.0, took / 2.0));
    seen.stats = shown(client.queue_stats(None).await);
    seen.queues = shown(client.list_queues().await);
    seen.minutes = shown(client.minutes(Some(MINUTES)).await);
    seen
}

/// By how many seconds the server's clock is before ours, as if its answer had taken no time.
fn ahead(health: &wire::Health) -> f64 {
    let ours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    health.now.0.as_micros() as f64 / 1e6 - ours.as_secs_f64()
}

fn shown<T>(answer: Result<T, Error>) -> Shown<T> {
    answer.map_err(|error| {
        let status = error.problem().map_or(0, |problem| problem.status);
        (status, words(&error))
    })
}

/// What a refusal says.
fn words(error: &Error) -> String {
    error.problem().map_or_else(|| error.to_string(), |problem| problem.detail.to_string())
}

fn unasked<T>() -> Shown<T> {
    Err((0, UNASKED.to_owned()))
}
