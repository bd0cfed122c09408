//! How long calls took, and what to say about it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::settings::Settings;

/// No call should take longer than this under sustained load.
const STALL: Duration = Duration::from_millis(30);

/// Times of calls since a start; those of the warm-up do not count.
pub(crate) struct Meter {
    /// When counting begins.
    from: Instant,
    until: Instant,
    /// Of the load and of the server, when counting began.
    cpu: Option<(f64, f64)>,
    pid: Option<usize>,
    tasks: usize,
    times: Vec<Duration>,
    refused: usize,
}

impl Meter {
    pub(crate) fn start(settings: &Settings) -> Self {
        let from = Instant::now() + settings.warm_up;
        let times = Vec::with_capacity(1 << 20);
        Self { from, until: from, cpu: None, pid: settings.pid, tasks: 0, times, refused: 0 }
    }

    /// A call that was sent then and moved so many tasks was answered now.
    pub(crate) fn note(&mut self, sent_at: Instant, tasks: usize) {
        let now = Instant::now();
        if now < self.from {
            return;
        }
        self.cpu.get_or_insert_with(|| cpu_seconds(self.pid));
        self.until = now;
        self.tasks += tasks;
        self.times.push(now - sent_at);
    }

    /// A call or a task was refused.
    pub(crate) fn note_refused(&mut self, count: usize) {
        self.refused += count;
    }

    /// One line: the figures by name, so that people and scripts can read it.
    pub(crate) fn report(mut self, what: &str) {
        self.times.sort_unstable();
        let at = |share: f64| {
            let index = ((self.times.len().max(1) - 1) as f64 * share) as usize;
            self.times.get(index).copied().unwrap_or_default().as_secs_f64() * 1e3
        };
        let whole = (self.until - self.from).as_secs_f64().max(1e-9);
        let stalls = self.times.iter().filter(|time| **time > STALL).count();
        let (load, server) = cpu_seconds(self.pid);
        let (load_before, server_before) = self.cpu.unwrap_or((load, server));
        let load = (load - load_before) / whole;
        let mut line = format!("{what}: tasks={} calls={}", self.tasks, self.times.len());
        write!(line, " per_second={:.0}", self.tasks as f64 / whole).unwrap();
        write!(line, " p50_ms={:.3} p99_ms={:.3}", at(0.5), at(0.99)).unwrap();
        write!(line, " longest_ms={:.1} over_30_ms={stalls}", at(1.0)).unwrap();
        write!(line, " refused={} load_cpu={load:.2}", self.refused).unwrap();
        if self.pid.is_some() {
            let each = (server - server_before) * 1e6 / self.tasks.max(1) as f64;
            write!(line, " server_us_each={each:.2}").unwrap();
        }
        println!("{line}");
    }
}

/// Processor time so far of this process, which takes it from the same cores, and of the server.
fn cpu_seconds(server: Option<usize>) -> (f64, f64) {
    (cpu_of("self"), server.map_or(0.0, |pid| cpu_of(&pid.to_string())))
}

fn cpu_of(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
