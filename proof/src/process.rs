//! What Linux says of a process.

use std::fmt::Display;
use std::fs;
use std::io;
use std::time::Duration;

/// In which Linux counts the work of a process.
const TICKS_PER_SECOND: u64 = 100;

/// Its status at one moment.
pub(crate) struct Status(String);

impl Status {
    /// Of a process by its number, or of this one by `self`.
    pub(crate) fn of(process: impl Display) -> io::Result<Self> {
        fs::read_to_string(format!("/proc/{process}/status")).map(Self)
    }

    /// A number, by its name.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// An amount of memory, by its name.
    pub(crate) fn bytes(&self, name: &str) -> Option<u64> {
        Some(self.number(name)? * 1_024)
    }
}

/// What is counted of it, from its state on. Before that stands its name, which may be anything.
pub(crate) fn stat(process: u32) -> io::Result<String> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    Ok(text.rsplit(')').next().unwrap_or_default().trim_start().to_owned())
}

/// How long processors have worked for it.
pub(crate) fn worked(process: u32) -> io::Result<Duration> {
    let stat = stat(process)?;
    let ticks = stat.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_threads_and_runs() {
        let status = Status::of("self").unwrap();
        assert!(status.bytes("VmRSS").unwrap() > 0);
        assert!(status.number("Threads").unwrap() > 0);
        assert_eq!(status.number("Vm"), None);
        let own = std::process::id();
        assert!(stat(own).unwrap().starts_with(['R', 'S', 'D']));
        assert!(worked(own).is_ok() && Status::of("nobody").is_err());
    }
}
