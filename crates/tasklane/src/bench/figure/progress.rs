//! A bar on a terminal; nothing anywhere else.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::chart::grouped;

const SHOW_EVERY: Duration = Duration::from_millis(100);

/// What the whole is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whole {
    Time(Duration),
    Tasks(usize),
}

pub(crate) struct Progress {
    bar: ProgressBar,
    whole: Whole,
    started: Instant,
    next: Instant,
    tasks: u64,
}

impl Progress {
    pub(crate) fn start(what: &str, whole: Whole) -> Self {
        let length = match whole {
            Whole::Time(time) => time.as_millis() as u64,
            Whole::Tasks(tasks) => tasks as u64,
        };
        let bar = ProgressBar::new(length).with_prefix(what.to_owned());
        // A bar in the plain style is as good, should the template ever be wrong.
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} % {msg}")
        {
            bar.set_style(style);
        }
        let now = Instant::now();
        Self { bar, whole, started: now, next: now, tasks: 0 }
    }

    /// So many more tasks.
    pub(crate) fn advance(&mut self, now: Instant, tasks: usize) {
        self.tasks += tasks as u64;
        if now < self.next {
            return;
        }
        self.next = now + SHOW_EVERY;
        let passed = now - self.started;
        self.bar.set_position(match self.whole {
            Whole::Time(_) => passed.as_millis() as u64,
            Whole::Tasks(_) => self.tasks,
        });
        let rate = self.tasks as f64 / passed.as_secs_f64().max(1e-3);
        self.bar.set_message(format!("{}/s", grouped(rate as u64)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
