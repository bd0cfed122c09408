//! What a run has met: a long one that met too little has tested nothing.

use std::collections::BTreeMap;

use tasklane_core::{CancelReason, DeadReason, EventKind, Refusal};

use crate::error::{SubmitProblem, WorkerRefusal};
use crate::feed::{FeedEvent, QueueChange, Reason, Subject, WorkerChange};

/// How often each thing was met.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<String, u64>);

impl Seen {
    pub(super) fn event(&mut self, event: &FeedEvent) {
        match &event.subject {
            Subject::Task(notice) => {
                self.count(format!("{:?}", notice.kind));
                notice.reason.iter().for_each(|reason| self.count(format!("{reason:?}")));
            }
            Subject::Worker(_, change) => self.count(format!("worker {change:?}")),
            Subject::Queue(_, change) => self.count(format!("queue {change:?}")),
        }
    }

    pub(super) fn refusal(&mut self, refusal: &Refusal) {
        self.count(match refusal {
            Refusal::InvalidState { .. } => "refused: InvalidState".into(),
            Refusal::Invalid(_) => "refused: Invalid".into(),
            other => format!("refused: {other:?}"),
        });
    }

    pub(super) fn worker_refusal(&mut self, refusal: WorkerRefusal) {
        self.count(format!("refused: {refusal:?}"));
    }

    pub(super) fn problem(&mut self, problem: &SubmitProblem) {
        self.count(match problem {
            SubmitProblem::QueueFull { for_all, .. } => format!("refused: full, all {for_all}"),
            SubmitProblem::Invalid(_) => "refused: Invalid draft".into(),
            other => format!("refused: {other:?}"),
        });
    }

    pub(super) fn fact(&mut self, fact: &str) {
        self.count(fact.into());
    }

    fn count(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    /// What a long run should have met and this one did not.
    pub(super) fn missing(&self) -> Vec<String> {
        let tasks = EventKind::ALL.iter().map(|kind| format!("{kind:?}"));
        let workers = WorkerChange::ALL.iter().map(|change| format!("worker {change:?}"));
        let queues = QueueChange::ALL.iter().map(|change| format!("queue {change:?}"));
        let facts = FACTS.iter().map(|fact| fact.to_string());
        let reasons = REASONS.iter().map(|reason| format!("{reason:?}"));
        let wanted = tasks.chain(reasons).chain(workers).chain(queues).chain(facts);
        wanted.filter(|what| !self.0.contains_key(what)).collect()
    }
}

pub(super) const REPLAYED: &str = "submission replayed";
pub(super) const EXPIRED: &str = "submission replayed, its task gone";
pub(super) const REPEATED: &str = "settle repeated";
pub(super) const LOST: &str = "renewal lost";
pub(super) const STOPPED: &str = "renewal told to stop";
pub(super) const GAP: &str = "gap in the feed";
pub(super) const KEY_EXISTS: &str = "key exists";
pub(super) const KEY_ENDED: &str = "key would have ended";
pub(super) const RECORDS_CUT: &str = "audit log cut";

const REASONS: [Reason; 6] = [
    Reason::Cancelled(CancelReason::Requested),
    Reason::Cancelled(CancelReason::Expired),
    Reason::Cancelled(CancelReason::Worker),
    Reason::Dead(DeadReason::RetriesExhausted),
    Reason::Dead(DeadReason::NotRetryable),
    Reason::Dead(DeadReason::Poison),
];

const FACTS: [&str; 19] = [
    REPLAYED,
    EXPIRED,
    REPEATED,
    LOST,
    STOPPED,
    GAP,
    KEY_EXISTS,
    KEY_ENDED,
    RECORDS_CUT,
    "refused: NotFound",
    "refused: LeaseLost",
    "refused: InvalidState",
    "refused: NotDue",
    "refused: Invalid",
    "refused: Gone",
    "refused: Mismatch",
    "refused: Invalid draft",
    "refused: full, all false",
    "refused: full, all true",
];
