//! What a phase took, and how it is told.

use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Took {
    pub(crate) count: usize,
    whole: Duration,
    times: Vec<Duration>,
    used: Usage,
}

impl Took {
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.whole += other.whole;
        self.times.extend(other.times);
        self.used.cpu += other.used.cpu;
        self.used.written += other.used.written;
    }
}

pub(crate) struct Meter(Instant, Usage);

impl Meter {
    pub(crate) fn start() -> Self {
        Self(Instant::now(), Usage::now())
    }

    pub(crate) fn stop(self, count: usize, times: Vec<Duration>) -> Took {
        Took { count, whole: self.0.elapsed(), times, used: self.1.since() }
    }
}

/// What the process has used so far.
#[derive(Clone, Copy, Default)]
struct Usage {
    cpu: f64,
    written: u64,
}

impl Usage {
    fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        Self {
            cpu: (ticks(11) + ticks(12)) / 100.0,
            written: written.and_then(|n| n.parse().ok()).unwrap_or(0),
        }
    }

    fn since(self) -> Self {
        let now = Self::now();
        Self { cpu: now.cpu - self.cpu, written: now.written - self.written }
    }
}

pub(crate) fn report(what: &str, batch: usize, mut took: Took) {
    took.times.sort_unstable();
    let at = |share: f64| {
        let index = ((took.times.len().max(1) - 1) as f64 * share) as usize;
        took.times.get(index).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    let count = took.count.max(1);
    println!(
        "by {batch:<5} {what:>7}: {:>8.0}/s  {:.2} µs each, cpu {:.2} µs, written {} B; call p50 {:.2} ms, p99 {:.2} ms, longest {:.1} ms",
        count as f64 / took.whole.as_secs_f64(),
        took.whole.as_secs_f64() * 1e6 / count as f64,
        took.used.cpu * 1e6 / count as f64,
        took.used.written / count as u64,
        at(0.5),
        at(0.99),
        at(1.0),
    );
}

pub(crate) fn rss_mb() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<usize>().ok()).unwrap_or(0) / 1024
}
