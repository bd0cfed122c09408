//! Refused calls on their way into the audit log: told at once, repetitions as counts, so that
//! nobody can fill a disk by knocking.

use std::collections::HashMap;
use std::time::Instant;

use tasklane_core::{AuditEntry, Who};

use crate::limits::{REFUSALS_FOLDED_FOR, REFUSALS_TOLD_APART};

/// What refusals have in common that are counted as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Refusal {
    /// Who, as far as that is known.
    pub(crate) who: Box<str>,
    /// From where, without the port.
    pub(crate) from: Box<str>,
    /// What was asked for.
    pub(crate) action: Box<str>,
    /// Why not.
    pub(crate) outcome: Box<str>,
}

impl Refusal {
    /// Those for which there is no room.
    fn others(outcome: Box<str>) -> Self {
        let many: Box<str> = "many".into();
        Self { who: many.clone(), from: many.clone(), action: many, outcome }
    }

    fn entry(&self, count: u64) -> AuditEntry {
        let Self { who, from, action, outcome } = self;
        let entry = AuditEntry::new(&Who::Anyone, action, outcome).from(Some(from));
        AuditEntry { who: who.clone(), count, ..entry }
    }
}

#[derive(Debug)]
struct Folded {
    since: Instant,
    /// Not told yet.
    count: u64,
    /// The first was told.
    told: bool,
}

/// Refusals that are not in the log yet.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    folded: HashMap<Refusal, Folded>,
}

impl Refusals {
    /// Counts one.
    pub(super) fn add(&mut self, refusal: Refusal, now: Instant) {
        let full = self.folded.len() >= REFUSALS_TOLD_APART;
        let refusal = match full && !self.folded.contains_key(&refusal) {
            true => Refusal::others(refusal.outcome),
            false => refusal,
        };
        let folded =
            self.folded.entry(refusal).or_insert(Folded { since: now, count: 0, told: false });
        folded.count += 1;
    }

    /// Takes back what could not be written.
    pub(super) fn put_back(&mut self, entries: Vec<AuditEntry>, now: Instant) {
        for entry in entries {
            let AuditEntry { who, action, outcome, count, from, .. } = entry;
            let refusal = Refusal { who, from: from.unwrap_or_default(), action, outcome };
            let folded =
                self.folded.entry(refusal).or_insert(Folded { since: now, count: 0, told: false });
            folded.count += count;
            folded.told = false;
        }
    }

    /// What is to be written now: the first of each, and what came after it once its time is over.
    /// At the end, everything.
    pub(super) fn take(&mut self, now: Instant, end: bool) -> Vec<AuditEntry> {
        let mut entries = Vec::new();
        self.folded.retain(|refusal, folded| {
            let over = now.duration_since(folded.since) >= REFUSALS_FOLDED_FOR;
            if !folded.told || over || end {
                if folded.count > 0 {
                    entries.push(refusal.entry(folded.count));
                }
                let quiet = folded.told && folded.count == 0;
                *folded = Folded { since: now, count: 0, told: true };
                return !quiet;
            }
            true
        });
        entries
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refusal(from: &str) -> Refusal {
        let [who, action, outcome] = ["nobody", "GET /x", "no key"].map(Box::from);
        Refusal { who, from: from.into(), action, outcome }
    }

    fn counts(entries: &[AuditEntry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.count).collect()
    }

    #[test]
    fn the_first_is_told_at_once_and_repetitions_as_one_count() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        refusals.add(refusal("192.0.2.1"), start);
        assert_eq!(counts(&refusals.take(start, false)), [1]);
        for _ in 0..500 {
            refusals.add(refusal("192.0.2.1"), start);
        }
        let later = start + REFUSALS_FOLDED_FOR;
        assert_eq!(refusals.take(later - Duration::from_secs(1), false), []);
        assert_eq!(counts(&refusals.take(later, false)), [500]);
        assert_eq!(refusals.take(later + REFUSALS_FOLDED_FOR, false), []);
        assert!(refusals.folded.is_empty(), "who has stopped is forgotten");
    }

    #[test]
    fn what_could_not_be_written_is_told_the_next_time() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        refusals.add(refusal("192.0.2.1"), start);
        let entries = refusals.take(start, false);
        refusals.put_back(entries, start);
        refusals.add(refusal("192.0.2.1"), start);
        assert_eq!(counts(&refusals.take(start, false)), [2]);
        assert_eq!(refusals.take(start, false), []);
    }

    #[test]
    fn a_flood_from_many_places_is_few_records() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let mut records = 0;
        let mut told = 0;
        for n in 0..100_000u64 {
            let now = start + Duration::from_millis(n * 10);
            refusals.add(refusal(&format!("2001:db8::{n:x}")), now);
            let entries = refusals.take(now, n == 99_999);
            records += entries.len();
            told += entries.iter().map(|entry| entry.count).sum::<u64>();
        }
        assert_eq!(told, 100_000, "none is forgotten");
        // 1,000 seconds: two windows begin in them.
        assert!(records <= 4 * (REFUSALS_TOLD_APART + 2), "{records} records");
        assert!(refusals.folded.len() <= REFUSALS_TOLD_APART + 1);
    }
}
