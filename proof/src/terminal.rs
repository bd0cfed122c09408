//! How far a proof is: a bar that rewrites itself on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const BAR_WIDTH: u64 = 30;
/// How often a terminal is written to.
const BAR_EVERY: Duration = Duration::from_millis(100);
/// How often anything else is.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress of one proof.
#[derive(Debug)]
pub struct Progress {
    name: &'static str,
    what: &'static str,
    of: Option<u64>,
    bar: bool,
    shown_at: Instant,
}

impl Progress {
    /// Of the proof `name`, which does so much of `what`, if that is known.
    pub fn new(name: &'static str, what: &'static str, of: impl Into<Option<u64>>) -> Self {
        let bar = std::io::stdout().is_terminal();
        Self { name, what, of: of.into(), bar, shown_at: Instant::now() }
    }

    /// So much is done; `more` says how it goes.
    pub fn show(&mut self, done: u64, more: &str) {
        let Self { name, what, of, .. } = *self;
        if self.shown_at.elapsed() < if self.bar { BAR_EVERY } else { LINE_EVERY } {
            return;
        }
        self.shown_at = Instant::now();
        let far = of.map_or_else(|| done.to_string(), |of| format!("{done}/{of}"));
        if self.bar {
            let bar = of.map_or_else(String::new, |of| bar(done, of) + " ");
            print!("\r{bar}{far} {what}{more}\x1b[K");
        } else {
            println!("{name}: {far} {what}{more}");
        }
        let _ = std::io::stdout().flush();
    }

    /// Whether it is a bar, and not lines.
    pub fn is_bar(&self) -> bool {
        self.bar
    }

    /// Leaves the terminal to what is said next.
    pub fn end(&self) {
        if self.bar {
            print!("\r\x1b[K");
        }
    }
}

/// So much of a bar is full.
pub fn bar(done: u64, of: u64) -> String {
    let filled = (done.min(of) * BAR_WIDTH / of.max(1)) as usize;
    format!("[{}{}]", "#".repeat(filled), " ".repeat(BAR_WIDTH as usize - filled))
}
