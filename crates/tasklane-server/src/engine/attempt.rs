//! A task's attempts, as its trail tells them.

use std::sync::Arc;

use tasklane_core::{Entry, Event, EventKind, Failure, Timestamp, WorkerId};

/// One worker's hold on a task, from its claim to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Which attempt it was, from 1; what ended without an outcome is followed by the same number.
    pub number: u32,
    /// Who had it.
    pub worker: WorkerId,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When it was started, if it was.
    pub started_at: Option<Timestamp>,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// How it ended: `completed`, `failed`, `cancelled`, `released`, `lease_lost` or `requeued`.
    pub outcome: Option<&'static str>,
    /// What went wrong.
    pub failure: Option<Arc<Failure>>,
}

/// The attempts of a whole trail, in order.
pub fn attempts(entries: &[Entry]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut number = 1;
    for Entry { stamp, event } in entries {
        if let Event::Claimed { worker, started, .. } = event {
            attempts.push(Attempt {
                number,
                worker: *worker,
                claimed_at: stamp.at,
                started_at: started.then_some(stamp.at),
                ended_at: None,
                outcome: None,
                failure: None,
            });
            continue;
        }
        if let Event::Replayed { reset_attempts: true, .. } = event {
            number = 1;
        }
        let Some(open) = attempts.last_mut().filter(|attempt| attempt.ended_at.is_none()) else {
            continue;
        };
        if let Event::Started = event {
            open.started_at = Some(stamp.at);
        }
        if let Some(outcome) = outcome(event) {
            open.ended_at = Some(stamp.at);
            open.outcome = Some(outcome);
            open.failure = event.failure().cloned();
            if matches!(outcome, "completed" | "failed") {
                number += 1;
            }
        }
    }
    attempts
}

/// How an attempt ends by this event, if it does.
fn outcome(event: &Event) -> Option<&'static str> {
    match event.kind() {
        EventKind::Completed => Some("completed"),
        EventKind::Retrying | EventKind::Failed | EventKind::DeadLettered => {
            // Poison: the last of too many leases that ended without a word.
            Some(if event.failure().is_some() { "failed" } else { "lease_lost" })
        }
        EventKind::Cancelled => Some("cancelled"),
        EventKind::Released => Some("released"),
        EventKind::LeaseLost => Some("lease_lost"),
        EventKind::Requeued => Some("requeued"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tasklane_core::{DeadReason, Death, ErrorKind, Fence, LeaseToken, Sequence, Stamp};

    fn entry(number: u64, event: Event) -> Entry {
        let at = Timestamp::from_millis(number as i64 * 1_000);
        Entry { stamp: Stamp { at, sequence: Sequence(number) }, event }
    }

    fn claimed(worker: u8, started: bool) -> Event {
        Event::Claimed {
            worker: WorkerId::from_bytes([worker; 16]),
            token: LeaseToken::from_bytes([0; 16]),
            fence: Fence::default(),
            started,
        }
    }

    #[test]
    fn each_claim_is_one_and_only_outcomes_count() {
        let failure = Arc::new(Failure::new(ErrorKind::Transient, "no answer"));
        let death = Death {
            reason: DeadReason::RetriesExhausted,
            failure: Some(failure.clone()),
            settled: None,
        };
        let trail = [
            entry(1, Event::Submitted),
            entry(2, claimed(1, false)),
            entry(3, Event::LeaseLost),
            entry(4, claimed(2, false)),
            entry(5, Event::Started),
            entry(
                6,
                Event::Retrying {
                    failure,
                    due_at: Timestamp::EPOCH,
                    timeout: std::time::Duration::ZERO,
                    settled: None,
                },
            ),
            entry(7, Event::Due),
            entry(8, claimed(1, true)),
            entry(9, Event::DeadLettered(death)),
        ];
        let attempts = attempts(&trail);
        let told: Vec<_> =
            attempts.iter().map(|a| (a.number, a.outcome, a.started_at.is_some())).collect();
        assert_eq!(
            told,
            [(1, Some("lease_lost"), false), (1, Some("failed"), true), (2, Some("failed"), true)]
        );
        assert!(attempts[0].failure.is_none() && attempts[2].failure.is_some());
        assert_eq!(attempts[1].ended_at, Some(Timestamp::from_millis(6_000)));
    }
}
