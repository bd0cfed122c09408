//! The figures of a run, for people and for files.

use std::fmt::Write as _;
use std::time::Duration;

use super::judge::Counts;
use crate::checker::{Class, Violation};
use crate::report::percentile;

/// How soon all servers do their work again once a cut is healed.
pub const CONVERGED_WITHIN: Duration = Duration::from_secs(5);

/// What a run has come to.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The store's word.
    pub store: &'static str,
    /// What the run's decisions follow from.
    pub seed: u64,
    /// How packets were made late.
    pub lateness: &'static str,
    /// Of each cut, how long the last server took to do its work again, without the time in which this
    /// machine itself stood still.
    pub converged: Vec<Duration>,
    /// That time, in sum.
    pub still: Duration,
    /// How long links were cut in all.
    pub cut: Duration,
    /// Cuts that were made once more, because they had healed late.
    pub repeated: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// How often things happened.
    pub counts: Counts,
    /// How long it took in all.
    pub took: Duration,
}

impl Figures {
    /// Cuts after which it took too long.
    pub fn converged_late(&self) -> usize {
        self.converged.iter().filter(|took| **took > CONVERGED_WITHIN).count()
    }

    /// What this share of cuts did not pass, in milliseconds.
    pub fn converged_ms(&self, share: f64) -> u128 {
        percentile(&self.converged, share).as_millis()
    }

    /// As JSON.
    pub fn to_json(&self, violations: &[Violation]) -> String {
        let of = |class: Class| {
            violations.iter().filter(|violation| violation.class == class).count() as u64
        };
        let counts = &self.counts;
        let mut numbers = vec![
            ("seed", self.seed),
            ("cuts", self.converged.len() as u64),
            ("cut_ms", self.cut.as_millis() as u64),
            ("cuts_repeated", self.repeated),
            ("stood_still_ms", self.still.as_millis() as u64),
            ("packets_dropped", self.dropped),
            ("sent", counts.sent),
            ("acknowledged", counts.taken),
            ("unanswered_and_sent_again", counts.unanswered),
            ("acknowledged_as_replayed", counts.replayed),
            ("accepted_completions", counts.completed),
            ("late_completions_refused", counts.late),
            ("lease_losses", counts.lease_losses),
            ("stale_tokens_shown", counts.stale),
            ("events_told", counts.told),
            ("feed_resumed", counts.resumed),
        ];
        let named = [
            ("lost", Class::Lost),
            ("phantom", Class::Phantom),
            ("duplicated", Class::Duplicated),
            ("completed_twice", Class::CompletedTwice),
            ("missed_events", Class::Missed),
            ("stuck", Class::Stuck),
        ];
        numbers.extend(named.map(|(name, class)| (name, of(class))));
        let sum: u64 = named.iter().map(|(_, class)| of(*class)).sum();
        numbers.push(("other_violations", violations.len() as u64 - sum));
        numbers.push(("converged_late", self.converged_late() as u64));
        for (name, share) in
            [("converged_ms_p50", 0.5), ("converged_ms_p99", 0.99), ("converged_ms_max", 1.0)]
        {
            numbers.push((name, self.converged_ms(share) as u64));
        }
        let mut json = format!("{{\n  \"store\": {:?},\n", self.store);
        let _ = writeln!(json, "  \"bad_links\": {:?},", self.lateness);
        for (name, number) in numbers {
            let _ = writeln!(json, "  \"{name}\": {number},");
        }
        let _ = writeln!(json, "  \"seconds\": {:.1}\n}}", self.took.as_secs_f64());
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_too_long_is_counted_and_json_is_json() {
        let converged = [1, 2, 6].map(Duration::from_secs).to_vec();
        let figures = Figures { store: "redis", seed: 7, converged, ..Figures::default() };
        assert_eq!(figures.converged_late(), 1);
        assert_eq!((figures.converged_ms(0.5), figures.converged_ms(1.0)), (2_000, 6_000));
        let json: serde_json::Value =
            serde_json::from_str(&figures.to_json(&[Violation::trouble("x")])).unwrap();
        for (name, number) in [("seed", 7), ("cuts", 3), ("lost", 0), ("other_violations", 1)] {
            assert_eq!(json[name], number, "{name}");
        }
    }
}
