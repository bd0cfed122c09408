//! Submissions by the clock: so many a second, whatever the answers do.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::pool::Pool;
use crate::bench::plan::Plan;
use crate::bench::stop;

/// How often to look whether everything has come, after the last task was sent.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Producer {
    /// Its connections.
    own: Range<usize>,
    /// Those without a call.
    free: Vec<usize>,
    /// When the task of each was due.
    due_of: Vec<Instant>,
    every: Duration,
    due: Instant,
    until: Instant,
}

impl Producer {
    pub(crate) fn start(pool: &mut Pool, plan: &Plan) -> anyhow::Result<Self> {
        let free = pool.open_all(plan.connections)?;
        let first = free.first().copied().unwrap_or_default();
        let every = Duration::from_secs(1) / plan.rate.max(1);
        let now = Instant::now();
        Ok(Self {
            own: first..first + free.len(),
            due_of: vec![now; free.len()],
            free,
            every,
            due: now + every,
            until: now + plan.time + plan.warm_up,
        })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.due >= self.until || stop::is_asked()
    }

    /// How long to wait at most: until the next task is due, or until the next look.
    pub(crate) fn patience(&self) -> Duration {
        if self.is_over() { LOOK_EVERY } else { self.due.saturating_duration_since(Instant::now()) }
    }

    /// Sends what is due. A task that finds no free connection is sent late, and its time still
    /// runs from when it was due: a server that stalls cannot hide that by keeping callers waiting.
    pub(crate) fn send_due(
        &mut self,
        pool: &mut Pool,
        mut next: impl FnMut(Instant) -> Vec<u8>,
    ) -> anyhow::Result<()> {
        let now = Instant::now();
        while self.due <= now && !self.is_over() {
            let Some(index) = self.free.pop() else { break };
            pool.send(index, &next(self.due))?;
            if let Some(due_of) = self.due_of.get_mut(index - self.own.start) {
                *due_of = self.due;
            }
            self.due += self.every;
        }
        Ok(())
    }

    /// If a connection is one of its own, takes its answer: when its task was due.
    pub(crate) fn take(&mut self, index: usize) -> Option<Instant> {
        if !self.own.contains(&index) {
            return None;
        }
        self.free.push(index);
        self.due_of.get(index - self.own.start).copied()
    }
}
