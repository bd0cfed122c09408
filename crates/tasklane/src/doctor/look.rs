//! Asks a server everything that a doctor wants to know.

use std::time::{Instant, SystemTime};

use serde::de::DeserializeOwned;
use tasklane_client::wire;

use crate::remote::Remote;

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
    pub(super) queues: Shown<wire::QueuePage>,
    pub(super) minutes: Shown<wire::Minutes>,
}

/// What was asked for, or the status of the refusal and its words.
pub(super) type Shown<T> = Result<T, (u16, String)>;

const UNASKED: &str = "nobody could be asked";

pub(super) async fn look(remote: &Remote, url: &str) -> Seen {
    let mut seen = Seen {
        url: url.to_owned(),
        has_key: remote.has_key(),
        reached: Ok(()),
        ready: Err(UNASKED.to_owned()),
        health: unasked(),
        clock: None,
        stats: unasked(),
        queues: unasked(),
        minutes: unasked(),
    };
    seen.ready = match remote.ask("/readyz").await {
        Ok((200, _)) => Ok(()),
        Ok((_, text)) => Err(words(&text)),
        Err(error) => {
            seen.reached = Err(format!("{error:#}"));
            return seen;
        }
    };
    let asked = Instant::now();
    seen.health = read(remote, "/admin/health").await;
    let took = asked.elapsed().as_secs_f64();
    seen.clock = seen.health.as_ref().ok().map(|health| (ahead(health) + took / 2.0, took / 2.0));
    seen.stats = read(remote, "/api/v1/queue/stats").await;
    seen.queues = read(remote, "/admin/queues").await;
    seen.minutes = read(remote, "/api/v1/stats/minutes?minutes=10").await;
    seen
}

/// By how many seconds the server's clock is before ours, as if its answer had taken no time.
fn ahead(health: &wire::Health) -> f64 {
    let ours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    health.now.0.as_micros() as f64 / 1e6 - ours.as_secs_f64()
}

async fn read<T: DeserializeOwned>(remote: &Remote, path: &str) -> Shown<T> {
    match remote.ask(path).await {
        Ok((200, text)) => {
            let other = |error| (200, format!("the answer of {path} is not as expected: {error}"));
            serde_json::from_str(&text).map_err(other)
        }
        Ok((status, text)) => Err((status, words(&text))),
        Err(error) => Err((0, format!("{error:#}"))),
    }
}

/// What a refusal says.
fn words(text: &str) -> String {
    let problem = serde_json::from_str::<wire::Problem>(text);
    problem.map_or_else(|_| text.trim().to_owned(), |problem| problem.detail.to_string())
}

fn unasked<T>() -> Shown<T> {
    Err((0, UNASKED.to_owned()))
}
