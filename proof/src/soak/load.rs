//! Tasks come and go: what all clients share, and the producers.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tasklane_core::SeededRandom;

use crate::Failure;
use crate::http::caller::{Caller, request};

/// Tasks that are under way at most: producers wait for workers.
pub(super) const UNDER_WAY_MAX: u64 = 20_000;
/// Tasks of one submission.
const BATCH: (u64, u64) = (100, 1_000);
/// Rest of a producer that has to wait.
const REST: Duration = Duration::from_millis(2);
/// Ordering keys, which many tasks share.
const ORDERING_KEYS: u64 = 100;

/// A task that fails in its first attempt.
pub(super) const FLAKY: &str = "flaky";
/// A task that fails for good.
pub(super) const DOOMED: &str = "doomed";

/// What the clients count.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) submitted: AtomicU64,
    pub(super) completed: AtomicU64,
    /// Attempts that failed and are tried again.
    pub(super) retried: AtomicU64,
    pub(super) dead: AtomicU64,
    /// Of those, the ones that an operator has thrown away.
    pub(super) discarded: AtomicU64,
    pub(super) cancelled: AtomicU64,
    /// Completions that the follower was told of, and gaps.
    pub(super) told: AtomicU64,
    pub(super) gaps: AtomicU64,
    /// Workers that came and went.
    pub(super) workers: AtomicU64,
}

/// What the clients share.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) address: SocketAddr,
    pub(super) counts: Counts,
    /// Producers and workers are to end.
    pub(super) over: AtomicBool,
}

impl Load {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, counts: Counts::default(), over: AtomicBool::new(false) }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Lifecycles: tasks that came to an end, whichever.
    pub(super) fn ended(&self) -> u64 {
        let Counts { completed, dead, cancelled, .. } = &self.counts;
        [completed, dead, cancelled].map(|count| count.load(Ordering::Relaxed)).iter().sum()
    }

    /// Submits batch after batch, as long as the workers keep up.
    pub(super) fn produce(&self, mut random: SeededRandom) -> Result<(), Failure> {
        let mut caller = Caller::new(self.address)?;
        let mut number = 0;
        while !self.is_over() {
            let submitted = self.counts.submitted.load(Ordering::Relaxed);
            if submitted.saturating_sub(self.ended()) >= UNDER_WAY_MAX {
                std::thread::sleep(REST);
                continue;
            }
            let count = BATCH.0 + random.below(BATCH.1 - BATCH.0 + 1);
            let tasks: Vec<String> = (0..count)
                .map(|_| {
                    number += 1;
                    task(number, &mut random)
                })
                .collect();
            let body = format!(r#"{{"tasks":[{}]}}"#, tasks.join(","));
            let answer = caller.call(&request("/api/v1/tasks/batch", &body))?;
            if answer.status != 201 {
                return Err(format!("a batch got {}: {}", answer.status, answer.body).into());
            }
            self.counts.submitted.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// One task of the mix: of a thousand, 20 fail once, 5 fail for good, 20 are for later, 10 have an
/// idempotency key and 10 an ordering key.
fn task(number: u64, random: &mut SeededRandom) -> String {
    let drawn = random.below(1_000);
    let name = match drawn {
        0..20 => FLAKY,
        20..25 => DOOMED,
        _ => "plain",
    };
    let priority = random.below(4);
    let text = "some text that stands for what a task is about".repeat(2);
    let mut task = format!(
        r#"{{"type":"{name}","priority":{priority},"payload":{{"number":{number},"text":"{text}"}}"#
    );
    // Writing into memory does not fail.
    let _ = match drawn {
        0..20 => write!(task, r#","retry":{{"strategy":"fixed","initial_seconds":0.1}}"#),
        25..45 => write!(task, r#","delay_seconds":0.5"#),
        45..55 => write!(task, r#","idempotency_key":"{number}-{}""#, random.below(u64::MAX)),
        55..65 => write!(task, r#","ordering_key":"{}""#, random.below(ORDERING_KEYS)),
        _ => Ok(()),
    };
    task.push('}');
    task
}
