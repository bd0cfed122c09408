//! The figures of a run, for people and for files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::checker::{Class, Counts, Violation};

/// Violations of one class that are told in full.
const SHOWN_MAX: u64 = 20;

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
    pub ready_after: Vec<Duration>,
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

    /// The restart time that this share of all restarts did not pass, in milliseconds.
    pub fn ready_ms(&self, share: f64) -> f64 {
        percentile(&self.ready_after, share).as_secs_f64() * 1e3
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let counts = &self.counts;
        let mut numbers = vec![
            ("seed", self.seed),
            ("restarts", self.restarts),
            ("killed_while_opening", self.killed_while_opening),
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
        let (median, slow) = (self.ready_ms(0.5), self.ready_ms(0.99));
        let _ = writeln!(json, "  \"restart_ms_p50\": {median:.1},");
        let _ = writeln!(json, "  \"restart_ms_p99\": {slow:.1},");
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
        let ready_after = (1..=100).rev().map(Duration::from_millis).collect();
        let mut report = Report { seed: 7, restarts: 100, ready_after, ..Report::default() };
        report.add_violations(&[Violation::trouble("x"), Violation::trouble("y")]);
        assert_eq!((report.ready_ms(0.5), report.ready_ms(0.99)), (50.0, 99.0));
        assert_eq!(Report::default().ready_ms(0.99), 0.0);
        let json = report.to_json();
        for part in ["\"seed\": 7,", "\"lost\": 0,", "\"other_violations\": 2,", "p99\": 99.0,"] {
            assert!(json.contains(part), "{part} is not in {json}");
        }
    }
}
