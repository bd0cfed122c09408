//! What came out, as text, as JSON or as lines for scripts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::chart::{bars, grouped, spark};

const SPARK_WIDTH: usize = 60;

/// One thing measured.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) name: String,
    pub(crate) tasks: u64,
    /// How many times were measured.
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    pub(crate) latency_ms: Latency,
    pub(crate) over_30_ms: u64,
    /// 429 and 503 that say when to come back.
    pub(crate) refused: u64,
    pub(crate) wrong: u64,
    /// What was refused or wrong, by status and word.
    pub(crate) answers: BTreeMap<String, u64>,
    /// Upper bounds in ms, and how many times are below each and above the one before.
    pub(crate) distribution: Vec<(f64, u64)>,
    pub(crate) tasks_per_100_ms: Vec<u64>,
    /// What the generator itself took of the cores.
    pub(crate) load_cpu: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_us_each: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p99_9: f64,
    pub(crate) longest: f64,
}

/// Everything of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) scenario: String,
    pub(crate) server: String,
    pub(crate) measures: Vec<Figures>,
    pub(crate) left: Left,
}

/// What the run leaves on the server.
#[derive(Debug, Serialize, Default, Clone)]
pub(crate) struct Left {
    pub(crate) queue: String,
    /// Tasks that wait.
    pub(crate) waiting: u64,
    /// Tasks that ended, which the server keeps for a while.
    pub(crate) ended: u64,
}

impl Report {
    pub(crate) fn wrong(&self) -> u64 {
        self.measures.iter().map(|figures| figures.wrong).sum()
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let parts: Vec<_> = self.measures.iter().map(Figures::text).collect();
        format!("{}{}", parts.join("\n"), self.left.text())
    }

    /// For scripts: a line for each measure, with its figures by name.
    pub(crate) fn lines(&self) -> String {
        self.measures.iter().map(Figures::line).collect()
    }
}

impl Figures {
    fn text(&self) -> String {
        let Latency { p50, p90, p99, p99_9, longest, .. } = self.latency_ms;
        let mut text = format!("{}\n", self.name);
        // Writing into memory does not fail.
        let _ = writeln!(
            text,
            "  {} tasks in {:.1} s: {} a second",
            grouped(self.tasks),
            self.seconds,
            grouped(self.per_second.round() as u64)
        );
        let _ = writeln!(
            text,
            "  {} times in ms: p50 {p50:.3}, p90 {p90:.3}, p99 {p99:.3}, p99.9 {p99_9:.3}, longest {longest:.1}",
            grouped(self.calls)
        );
        let _ = writeln!(
            text,
            "  refused {}, wrong {}, over 30 ms {}; the load took {:.2} cores",
            grouped(self.refused),
            grouped(self.wrong),
            grouped(self.over_30_ms),
            self.load_cpu
        );
        for (what, count) in &self.answers {
            let _ = writeln!(text, "    {} × {what}", grouped(*count));
        }
        if let Some(each) = self.server_us_each {
            let _ = writeln!(text, "  {each:.2} µs of the server's processor time for each task");
        }
        if self.calls > 0 {
            let _ =
                writeln!(text, "  tasks over time {}", spark(&self.tasks_per_100_ms, SPARK_WIDTH));
            text.push_str(&bars(&self.distribution));
        }
        text
    }

    fn line(&self) -> String {
        let Latency { p50, p99, longest, .. } = self.latency_ms;
        let mut line = format!("{}: tasks={} calls={}", self.name, self.tasks, self.calls);
        // Writing into memory does not fail.
        let _ = write!(line, " per_second={:.0} p50_ms={p50:.3} p99_ms={p99:.3}", self.per_second);
        let _ = write!(line, " longest_ms={longest:.1} over_30_ms={}", self.over_30_ms);
        let _ = write!(line, " refused={} wrong={}", self.refused, self.wrong);
        let _ = write!(line, " load_cpu={:.2}", self.load_cpu);
        if let Some(each) = self.server_us_each {
            let _ = write!(line, " server_us_each={each:.2}");
        }
        line.push('\n');
        line
    }
}

impl Left {
    fn text(&self) -> String {
        let Self { queue, waiting, ended } = self;
        let mut text = String::new();
        if *waiting > 0 {
            let _ = writeln!(
                text,
                "\nLeft on the server: {} tasks wait in the queue {queue}; `tasklane bench clean --queue {queue}` cancels them.",
                grouped(*waiting)
            );
        }
        if *ended > 0 {
            let _ = writeln!(
                text,
                "{} ended tasks stay in the queue {queue} until its retention is over.",
                grouped(*ended)
            );
        }
        text
    }
}
