//! The figures of a run, for people and for files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::checker::{Class, Counts, Violation};

/// Violations of one class that are told in full.
const SHOWN_MAX: u64 = 20;
/// Of all restarts, those that may be left out because this machine stood still, in percent. A store that
/// makes it stand still itself must not hide behind that.
const LEFT_OUT_PERCENT_MAX: usize = 5;

/// What a run has come to.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What the run's decisions follow from.
    pub seed: u64,
    /// Kills, each followed by a restart.
    pub restarts: u64,
    /// Of those, kills before the first call, most of them while the store was being opened.
    pub killed_while_opening: u64,
    /// Looks at the store, each with a check and a drain.
    pub looks: u64,
    /// Tasks found in the stores at the end.
    pub tasks: u64,
    /// What the histories amount to.
    pub counts: Counts,
    /// Of the acknowledged completions, those from a child that was killed later.
    pub completions_under_load: u64,
    /// From the start of a process to its being ready.
    pub(crate) ready_after: Vec<Duration>,
    /// The same where this machine itself stood still meanwhile.
    pub(crate) ready_after_still: Vec<Duration>,
    /// Violations by class.
    pub violations: BTreeMap<Class, u64>,
    /// How long it took in all.
    pub took: Duration,
}

impl Report {
    /// Counts violations by class.
    pub fn add_violations(&mut self, violations: &[Violation]) {
        for violation in violations {
            *self.violations.entry(violation.class).or_default() += 1;
        }
    }

    /// How many violations of a class there were.
    pub fn violations_of(&self, class: Class) -> u64 {
        self.violations.get(&class).copied().unwrap_or(0)
    }

    /// Notes how long a process took to be ready, and for how much of it this machine stood still.
    pub fn was_ready(&mut self, after: Duration, still: Duration) {
        let is_still = still > Duration::ZERO;
        (if is_still { &mut self.ready_after_still } else { &mut self.ready_after }).push(after);
    }

    /// Restarts whose time says nothing: this machine itself stood still meanwhile. Where that is so for
    /// many, the slowest of them, and the others count.
    pub fn left_out(&self) -> usize {
        let (others, still) = (self.ready_after.len(), self.ready_after_still.len());
        still.min((others + still) * LEFT_OUT_PERCENT_MAX / 100)
    }

    /// The restart time that this share of restarts did not pass, in milliseconds, without those that are
    /// left out.
    pub fn ready_ms(&self, share: f64) -> f64 {
        self.ready_ms_without(self.left_out(), share)
    }

    /// The same of all restarts.
    pub fn ready_ms_all(&self, share: f64) -> f64 {
        self.ready_ms_without(0, share)
    }

    fn ready_ms_without(&self, left_out: usize, share: f64) -> f64 {
        let mut still = self.ready_after_still.clone();
        still.sort_unstable();
        still.truncate(still.len().saturating_sub(left_out));
        still.extend(&self.ready_after);
        percentile(&still, share).as_secs_f64() * 1e3
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let counts = &self.counts;
        let mut numbers = vec![
            ("seed", self.seed),
            ("restarts", self.restarts),
            ("killed_while_opening", self.killed_while_opening),
            ("restart_times_left_out", self.left_out() as u64),
            ("looks", self.looks),
            ("tasks", self.tasks),
            ("acknowledged_submits", counts.submits),
            ("acknowledged_claims", counts.claims),
            ("acknowledged_completions", counts.completions),
            ("completions_under_load", self.completions_under_load),
            ("unknown_outcomes", counts.unknown),
            ("recovered_unknowns", counts.recovered),
        ];
        let classes = [
            ("lost", Class::Lost),
            ("phantom", Class::Phantom),
            ("duplicated", Class::Duplicated),
            ("claims_after_completion", Class::ClaimedAfterCompletion),
        ];
        numbers.extend(classes.map(|(name, class)| (name, self.violations_of(class))));
        let named: u64 = classes.iter().map(|(_, class)| self.violations_of(*class)).sum();
        numbers.push(("other_violations", self.violations.values().sum::<u64>() - named));
        let mut json = String::from("{\n");
        for (name, number) in numbers {
            let _ = writeln!(json, "  \"{name}\": {number},");
        }
        for (name, ms) in [
            ("restart_ms_p50", self.ready_ms(0.5)),
            ("restart_ms_p99", self.ready_ms(0.99)),
            ("restart_ms_p99_all", self.ready_ms_all(0.99)),
        ] {
            let _ = writeln!(json, "  \"{name}\": {ms:.1},");
        }
        let _ = writeln!(json, "  \"seconds\": {:.1}", self.took.as_secs_f64());
        json.push_str("}\n");
        json
    }
}

/// The duration that this share of them does not pass; nought if there is none.
pub fn percentile(durations: &[Duration], share: f64) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Tells of violations: some of each class, and then how many it has.
pub fn accuse(proof: &str, violations: &[Violation]) {
    let mut counts: BTreeMap<Class, u64> = BTreeMap::new();
    for violation in violations {
        let count = counts.entry(violation.class).or_default();
        *count += 1;
        if *count <= SHOWN_MAX {
            eprintln!("{proof}: {violation}");
        }
    }
    for (class, count) in counts {
        eprintln!("{proof}: VIOLATION: {count} × {}", class.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks_and_json_has_every_figure() {
        let mut report = Report { seed: 7, restarts: 100, ..Report::default() };
        for ms in (1..=100).rev() {
            report.was_ready(Duration::from_millis(ms), Duration::ZERO);
        }
        report.add_violations(&[Violation::trouble("x"), Violation::trouble("y")]);
        assert_eq!((report.ready_ms(0.5), report.ready_ms(0.99)), (50.0, 99.0));
        assert_eq!(Report::default().ready_ms(0.99), 0.0);
        let json = report.to_json();
        for part in ["\"seed\": 7,", "\"lost\": 0,", "\"other_violations\": 2,", "p99\": 99.0,"] {
            assert!(json.contains(part), "{part} is not in {json}");
        }
    }

    #[test]
    fn few_restarts_on_a_machine_that_stands_still_are_left_out() {
        let mut report = Report::default();
        let ms = Duration::from_millis;
        for _ in 0..36 {
            report.was_ready(ms(60), Duration::ZERO);
        }
        for slow in [500, 400] {
            report.was_ready(ms(slow), ms(300));
        }
        assert_eq!((report.left_out(), report.ready_ms(0.99)), (1, 400.0), "5 % of 38 is one");
        report.was_ready(ms(70), Duration::ZERO);
        report.was_ready(ms(70), Duration::ZERO);
        assert_eq!((report.left_out(), report.ready_ms(0.99)), (2, 70.0), "5 % of 40 are two");
        report.was_ready(ms(300), ms(200));
        assert_eq!((report.left_out(), report.ready_ms(0.99)), (2, 300.0), "the slowest of three");
        assert_eq!(report.ready_ms_all(0.99), 500.0, "and all are told");
        assert!(report.to_json().contains("\"restart_ms_p99_all\": 500.0,"));
    }
}
