//! Submissions by the clock: so many a second, whatever the answers do.

use std::time::{Duration, Instant};

use crate::pool::Pool;
use crate::settings::Settings;
use crate::submit;

/// Connections to send on; a task waits for none of the others' answers unless all are taken.
const CONNECTIONS: usize = 16;
/// What has not come this long after the last task was sent counts as lost.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) struct Producer {
    free: Vec<usize>,
    /// Of its connections: they follow one another.
    first: usize,
    every: Duration,
    due: Instant,
    until: Instant,
}

impl Producer {
    pub(crate) fn start(pool: &mut Pool, settings: &Settings) -> Self {
        let free: Vec<usize> = (0..CONNECTIONS).map(|_| pool.open(settings.address)).collect();
        let every = Duration::from_secs(1) / u32::try_from(settings.rate).unwrap();
        let now = Instant::now();
        let until = now + settings.time + settings.warm_up;
        Self { first: free[0], free, every, due: now + every, until }
    }

    /// How long until the next task is due; after the last, how long to wait for what it brings.
    pub(crate) fn patience(&self) -> Duration {
        if self.due >= self.until {
            GRACE
        } else {
            self.due.saturating_duration_since(Instant::now())
        }
    }

    /// Sends what is due. Says whether the end has come.
    pub(crate) fn send_due(&mut self, pool: &mut Pool, mut next: impl FnMut() -> Vec<u8>) -> bool {
        let now = Instant::now();
        while self.due <= now && self.due < self.until {
            let Some(index) = self.free.pop() else { break };
            pool.send(index, &next());
            self.due += self.every;
        }
        self.due >= self.until
    }

    /// Whether a connection is one of its own; if so, its answer is taken.
    pub(crate) fn takes(&mut self, pool: &Pool, index: usize) -> bool {
        if !(self.first..self.first + CONNECTIONS).contains(&index) {
            return false;
        }
        let answer = pool.answer(index);
        if answer.status != 201 {
            submit::refused(answer.status, answer.body);
        }
        self.free.push(index);
        true
    }
}
