//! What was seen of a server.

use std::time::Duration;

use tasklane_client::wire::{Depths, Event, Health, QueueStats, Task, Worker};

/// Something new.
#[derive(Debug)]
pub(crate) enum Update {
    /// The server as it is.
    Seen(Box<Seen>),
    /// The server does not answer, or refuses: what to say of it.
    Away(String),
    Event(Box<Event>),
    /// There are no events to follow.
    NoEvents(String),
    /// What an operator wanted was done, or was not.
    Acted(Result<String, String>),
}

/// A server at one moment. What it did not show is an error in its own words.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Since the first look.
    pub(crate) at: Duration,
    pub(crate) stats: QueueStats,
    pub(crate) health: Option<Health>,
    pub(crate) counters: Option<Counters>,
    pub(crate) queues: Result<Vec<QueueLine>, String>,
    pub(crate) workers: Result<Vec<Worker>, String>,
    pub(crate) dead_letters: Result<Vec<Task>, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueueLine {
    pub(crate) name: Box<str>,
    pub(crate) paused: bool,
    pub(crate) depth: u64,
    /// By priority, where that was asked for.
    pub(crate) depths: Option<Depths>,
}

/// What has been counted since the server's start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Counters {
    pub(crate) submitted: f64,
    pub(crate) completed: f64,
    pub(crate) failed: f64,
}

impl Counters {
    /// From the server's metrics.
    pub(crate) fn read(text: &str) -> Self {
        let mut counters = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            match name {
                "tasklane_tasks_submitted_total" => counters.submitted += value,
                "tasklane_tasks_completed_total" if labels.contains(r#"status="completed""#) => {
                    counters.completed += value;
                }
                "tasklane_tasks_failed_total" => counters.failed += value,
                _ => {}
            }
        }
        counters
    }

    /// How much each rose a second. A server that began anew counts from zero.
    pub(crate) fn rates(self, earlier: Self, passed: Duration) -> Self {
        let seconds = passed.as_secs_f64().max(1e-3);
        let rate = |now: f64, then: f64| if now < then { now } else { now - then } / seconds;
        Self {
            submitted: rate(self.submitted, earlier.submitted),
            completed: rate(self.completed, earlier.completed),
            failed: rate(self.failed, earlier.failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels_and_rates_survive_a_restart() {
        let text = "# TYPE tasklane_tasks_submitted counter\n\
            tasklane_tasks_submitted_total{queue=\"a\",type=\"x y\"} 7\n\
            tasklane_tasks_submitted_total{queue=\"b\"} 3\n\
            tasklane_tasks_completed_total{queue=\"a\",status=\"completed\"} 5\n\
            tasklane_tasks_completed_total{queue=\"a\",status=\"cancelled\"} 9\n\
            tasklane_tasks_failed_total{queue=\"a\",kind=\"bug\"} 1\n";
        let counters = Counters::read(text);
        assert_eq!(counters, Counters { submitted: 10.0, completed: 5.0, failed: 1.0 });
        let later = Counters { submitted: 30.0, completed: 1.0, failed: 1.0 };
        let rates = later.rates(counters, Duration::from_secs(2));
        assert_eq!(rates, Counters { submitted: 10.0, completed: 0.5, failed: 0.0 });
    }
}
