//! Processor time of this process, which takes it from the same cores, and of the server.

/// Seconds so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Processor {
    pub(crate) load: f64,
    pub(crate) server: f64,
}

impl Processor {
    pub(crate) fn now(server: Option<u32>) -> Self {
        let server = server.map_or(0.0, |pid| seconds_of(&pid.to_string()));
        Self { load: seconds_of("self"), server }
    }

    pub(crate) fn since(self, earlier: &Self) -> Self {
        Self { load: self.load - earlier.load, server: self.server - earlier.server }
    }
}

fn seconds_of(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
