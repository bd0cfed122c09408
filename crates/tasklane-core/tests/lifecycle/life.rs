//! One task under test: decides, applies and stores as a store would, and keeps what it saw.

use std::time::Duration;

use tasklane_core::lifecycle::{self, Claim, Decision, Elapsed, Moment, Rules};
use tasklane_core::{
    Backoff, Entry, ErrorKind, Event, Failure, Intent, Jitter, LeaseToken, NewTask, Order, Outcome,
    Policies, Refusal, RetryPolicy, SeededRandom, Sequence, Spec, Stamp, StateName, Task, TaskId,
    TaskType, Timestamp, WorkerId, trail,
};

/// When lives begin: far enough from the epoch to step back.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Every deadline that a store counts has passed.
pub(crate) const LATE: Elapsed = Elapsed { lease: true, execution: true, assignment: true };

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn worker(number: u8) -> WorkerId {
    WorkerId::from_bytes([number; 16])
}

/// A task with plain numbers: five retries after 1, 2, 4… seconds without jitter, a timeout of
/// 100 s.
pub(crate) fn plain() -> NewTask {
    let retry = RetryPolicy::new(Backoff::Exponential, secs(1), 2.0, secs(300), Jitter::None);
    NewTask {
        max_retries: Some(5),
        timeout: Some(secs(100)),
        retry: Some(retry.unwrap()),
        ..NewTask::new(TaskType::new("email.send").unwrap(), "{}")
    }
}

pub(crate) fn failed(kind: ErrorKind) -> Outcome {
    Outcome::Failed { failure: Failure::new(kind, "no luck"), retry_after: None }
}

pub(crate) fn completed(result: &'static str) -> Outcome {
    Outcome::Completed(result.into())
}

pub(crate) const RELEASED: Outcome = Outcome::Released { delay: None };

/// What was asked of a task.
#[derive(Debug, Clone)]
pub(crate) enum Asked {
    Claim(WorkerId),
    Unblock,
    Intent(Intent),
}

/// What came of it.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    Changed(Event),
    Nothing,
    Refused(Refusal),
}

/// One step of a life, with all that a law may ask about it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) before: Task,
    pub(crate) asked: Asked,
    pub(crate) now: Timestamp,
    pub(crate) elapsed: Elapsed,
    pub(crate) verdict: Verdict,
    pub(crate) after: Task,
    /// How many entries were stored by then.
    pub(crate) stored: usize,
}

/// A task, the moment it lives in, and what a store would keep beside it.
pub(crate) struct Life {
    pub(crate) task: Task,
    pub(crate) now: Timestamp,
    pub(crate) rules: Rules,
    pub(crate) elapsed: Elapsed,
    pub(crate) key_free: bool,
    pub(crate) order: Order,
    /// The spec as submitted, before any update.
    pub(crate) submitted: Spec,
    pub(crate) stored: Vec<Entry>,
    pub(crate) history: Vec<Seen>,
    /// Of every claim, the oldest first.
    pub(crate) tokens: Vec<LeaseToken>,
    sequence: Sequence,
    random: SeededRandom,
}

impl Life {
    pub(crate) fn of(task: NewTask) -> Self {
        Self::admitted(task, false)
    }

    /// Behind another task with its ordering key.
    pub(crate) fn blocked(task: NewTask) -> Self {
        Self::admitted(task, true)
    }

    fn admitted(task: NewTask, blocked: bool) -> Self {
        let mut random = SeededRandom::new(7);
        let draft = task.resolve(&Policies::default()).unwrap();
        lifecycle::check_admission(&draft, START).unwrap();
        let submitted = draft.spec.clone();
        let created = Stamp { at: START, sequence: Sequence(1) };
        let id = TaskId::generate(START.as_millis().unsigned_abs(), 0, &mut random);
        let (task, _) = lifecycle::admit(draft, id, created, blocked);
        Self {
            task,
            now: START,
            rules: Rules::default(),
            elapsed: Elapsed::default(),
            key_free: true,
            order: Order::default(),
            submitted,
            stored: Vec::new(),
            history: Vec::new(),
            tokens: Vec::new(),
            sequence: created.sequence,
            random,
        }
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now = self.now.plus(span);
    }

    pub(crate) fn state(&self) -> StateName {
        self.task.state.name()
    }

    /// The token of the lease that is held, or of the last one.
    pub(crate) fn token(&self) -> LeaseToken {
        *self.tokens.last().unwrap()
    }

    /// Claims without a start.
    pub(crate) fn assign(&mut self) -> LeaseToken {
        self.claim(worker(1), false).unwrap();
        self.token()
    }

    /// Claims and starts.
    pub(crate) fn run(&mut self) -> LeaseToken {
        self.claim(worker(1), true).unwrap();
        self.token()
    }

    pub(crate) fn settle(&mut self, outcome: Outcome) -> Result<Decision, Refusal> {
        self.act(Intent::Settle(self.token(), outcome))
    }

    /// Runs it once and lets it fail.
    pub(crate) fn fail(&mut self, kind: ErrorKind) -> Event {
        self.run();
        change(self.settle(failed(kind)))
    }

    /// Moves the clock to what the task waits for, and lets it come due.
    pub(crate) fn come_due(&mut self) {
        self.now = self.now.max(self.task.state.due_at().unwrap());
        self.act(Intent::ComeDue).unwrap();
    }

    /// Runs it once and loses the lease.
    pub(crate) fn lose_lease(&mut self) -> Event {
        let token = self.run();
        change(self.act_late(Intent::LoseLease(token)))
    }

    /// The same as [`Life::act`] when every deadline of the store has passed.
    pub(crate) fn act_late(&mut self, intent: Intent) -> Result<Decision, Refusal> {
        let usual = std::mem::replace(&mut self.elapsed, LATE);
        let verdict = self.act(intent);
        self.elapsed = usual;
        verdict
    }

    pub(crate) fn act(&mut self, intent: Intent) -> Result<Decision, Refusal> {
        let (now, rules, elapsed) = (self.now, &self.rules, self.elapsed);
        let moment = Moment { now, rules, elapsed, key_free: self.key_free };
        let verdict = lifecycle::decide(&self.task, &intent, &moment, &mut self.random);
        self.follow(Asked::Intent(intent), &verdict);
        verdict
    }

    pub(crate) fn unblock(&mut self) -> Result<Decision, Refusal> {
        let verdict = lifecycle::unblock(&self.task);
        self.follow(Asked::Unblock, &verdict);
        verdict
    }

    pub(crate) fn claim(&mut self, worker: WorkerId, auto_start: bool) -> Result<Claim, Refusal> {
        let (task, order, random) = (&self.task, &self.order, &mut self.random);
        let verdict = lifecycle::claim(task, worker, auto_start, order, self.now, random);
        let asked = Asked::Claim(worker);
        match &verdict {
            Ok(Claim { promoted, claimed }) => {
                if let Some(promoted) = promoted {
                    self.happen(asked.clone(), promoted.clone());
                }
                self.happen(asked, claimed.clone());
                self.tokens.push(self.task.state.lease().unwrap().token);
            }
            Err(refusal) => self.see(self.task.clone(), asked, Verdict::Refused(refusal.clone())),
        }
        verdict
    }

    fn follow(&mut self, asked: Asked, verdict: &Result<Decision, Refusal>) {
        let verdict = match verdict {
            Ok(Decision::Change(event)) => return self.happen(asked, event.clone()),
            Ok(Decision::Nothing) => Verdict::Nothing,
            Err(refusal) => Verdict::Refused(refusal.clone()),
        };
        self.see(self.task.clone(), asked, verdict);
    }

    /// What a store does with an event: number it, keep what the task will forget, apply it.
    fn happen(&mut self, asked: Asked, event: Event) {
        let before = self.task.clone();
        self.sequence = self.sequence.next();
        let entry = Entry { stamp: Stamp { at: self.now, sequence: self.sequence }, event };
        self.stored.extend(trail::to_store(before.state.lease(), &entry));
        self.task.apply(&entry).unwrap();
        self.see(before, asked, Verdict::Changed(entry.event));
    }

    fn see(&mut self, before: Task, asked: Asked, verdict: Verdict) {
        let (now, elapsed, after) = (self.now, self.elapsed, self.task.clone());
        let stored = self.stored.len();
        self.history.push(Seen { before, asked, now, elapsed, verdict, after, stored });
    }
}

/// The event of a decision that must have been a change.
pub(crate) fn change(verdict: Result<Decision, Refusal>) -> Event {
    match verdict {
        Ok(Decision::Change(event)) => event,
        other => panic!("no change: {other:?}"),
    }
}

/// The refusal that a task in `state` gives to what the diagram does not know.
pub(crate) const fn invalid<T>(current: StateName) -> Result<T, Refusal> {
    Err(Refusal::InvalidState { current })
}
