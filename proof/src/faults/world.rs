//! One client and what it knows: a fixed sequence of operations, each chosen by a seed and by the
//! answers before it. Time stands still unless the sequence moves it, so that the same sequence
//! makes the same calls to the disk.

use std::sync::Arc;
use std::time::Duration;

use tasklane_core::{Random as _, SeededRandom, TaskId, WorkerId};
use tasklane_store::conformance::{ManualClock, block_on};
use tasklane_store::{Leases, Prune, Renewal, Store, StoreError, maintain};

use crate::Failure;
use crate::content;
use crate::history::{Answer, Ending, Hold, Operation, Plan, Record};
use crate::perform::{attempt, submission, submitted};

/// Ids begin at this time.
const FIRST_MILLIS: u64 = 1_790_000_000_000;
/// Tasks of one submission at most.
const SUBMIT_TASKS_MAX: u64 = 6;
/// Submissions that are under way together in a burst.
const BURST_SUBMISSIONS: usize = 4;
/// Bodies that can be divided by this have long payloads.
const LARGE_BODY: u64 = 32;
/// Longer than the store takes to notice that its log has grown.
const NOTICED_AFTER: Duration = Duration::from_millis(70);
/// Rounds of a drain: each lets a lease end, and all that waits become due.
const DRAIN_ROUNDS_MAX: usize = 60;
const DRAIN_STEP: Duration = Duration::from_secs(40);

/// What the outside world knows and does.
#[derive(Debug, Clone)]
pub(super) struct World {
    random: SeededRandom,
    /// Since the beginning.
    elapsed: Duration,
    worker: Option<WorkerId>,
    held: Vec<Hold>,
    submitted: Vec<TaskId>,
    numbers: u64,
    calls: u64,
    /// All calls and their answers.
    pub(super) history: Vec<Record>,
    /// Calls of which the store said that nothing of them was written.
    pub(super) denied: Vec<Operation>,
}

/// How much is submitted at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Burst {
    /// Enough for the store to go on with one submission while it syncs another.
    Many,
    /// So much that the log is copied into the database meanwhile.
    Flood,
}

impl Burst {
    const fn tasks(self) -> usize {
        match self {
            Self::Many => 40,
            Self::Flood => 140,
        }
    }
}

/// How a step went.
#[derive(Debug, Default)]
pub(super) struct Stepped {
    /// Something that was written was acknowledged, after everything that failed.
    pub(super) acknowledged: bool,
    /// What the store said instead.
    pub(super) errors: Vec<StoreError>,
}

impl Stepped {
    fn note<T>(&mut self, outcome: Result<T, StoreError>) {
        self.errors.extend(outcome.err());
    }
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: SeededRandom::new(seed),
            elapsed: Duration::ZERO,
            worker: None,
            held: Vec::new(),
            submitted: Vec::new(),
            numbers: 0,
            calls: 0,
            history: Vec::new(),
            denied: Vec::new(),
        }
    }

    /// The clock of this world, for a store that is about to be opened.
    pub(super) fn clock(&self) -> Arc<ManualClock> {
        let clock = ManualClock::default();
        clock.advance(self.elapsed);
        Arc::new(clock)
    }

    /// A number for decisions about this world, not of it.
    pub(super) fn draw(&self, of: u64) -> u64 {
        SeededRandom::new(self.random.clone().next_u64() ^ of).next_u64()
    }

    /// The next operation.
    pub(super) fn step(&mut self, store: &Arc<dyn Store>, clock: &ManualClock) -> Stepped {
        self.pass(clock, Duration::from_millis(3));
        let mut stepped = Stepped::default();
        let Some(worker) = self.worker else {
            self.call(store, Operation::Register, &mut stepped);
            return stepped;
        };
        match self.random.below(32) {
            0..=9 => {
                let count = 1 + self.random.below(SUBMIT_TASKS_MAX);
                let plans = (0..count).map(|_| self.plan()).collect();
                self.call(store, Operation::Submit(plans), &mut stepped);
            }
            10..=16 => {
                let count = 1 + self.random.below(4) as usize;
                let auto_start = self.random.below(3) > 0;
                self.call(store, Operation::Claim { worker, count, auto_start }, &mut stepped);
            }
            17..=24 => self.settle(store, &mut stepped),
            25 | 26 => {
                let renewal = Renewal { worker, leases: Leases::All, health: None };
                stepped.note(block_on(store.renew(vec![renewal])));
            }
            27 | 28 => {
                self.pass(clock, Duration::from_millis(40));
                stepped.note(block_on(maintain(&**store)));
            }
            29 => {
                let prune = Prune { events_max: 60, ..Prune::default() };
                stepped.note(block_on(store.prune(prune)));
            }
            30 => self.operate(store, Operation::Cancel, &mut stepped),
            _ => self.operate(store, Operation::Retry, &mut stepped),
        }
        stepped
    }

    /// Several submissions under way at the same time.
    pub(super) fn burst(
        &mut self,
        store: &Arc<dyn Store>,
        burst: Burst,
    ) -> Result<Stepped, Failure> {
        let mut stepped = Stepped::default();
        let mut calls = Vec::new();
        for _ in 0..BURST_SUBMISSIONS {
            let mut plans: Vec<Plan> = (0..burst.tasks()).map(|_| self.plan()).collect();
            if burst == Burst::Flood {
                plans.iter_mut().for_each(|plan| plan.body -= plan.body % LARGE_BODY);
            }
            let submission = submission(&plans)?;
            let call = self.intend(Operation::Submit(plans.clone()));
            calls.push((call, plans, store.submit(vec![submission])));
        }
        for (call, plans, answer) in calls {
            let answer = block_on(answer).and_then(submitted);
            self.heard(call, Operation::Submit(plans), answer, &mut stepped);
        }
        if burst == Burst::Flood {
            std::thread::sleep(NOTICED_AFTER);
        }
        Ok(stepped)
    }

    /// Works off all that is left; whether nothing was.
    pub(super) fn drain(
        &mut self,
        store: &Arc<dyn Store>,
        clock: &ManualClock,
    ) -> Result<bool, StoreError> {
        let mut stepped = Stepped::default();
        for _ in 0..DRAIN_ROUNDS_MAX {
            block_on(maintain(&**store))?;
            if content::live(store)? == 0 {
                return Ok(true);
            }
            // One that was silent for so long is dead: a new one each time.
            self.worker = None;
            self.call(store, Operation::Register, &mut stepped);
            if let Some(worker) = self.worker {
                let claim = Operation::Claim { worker, count: 1_000, auto_start: true };
                self.call(store, claim, &mut stepped);
            }
            for hold in std::mem::take(&mut self.held) {
                self.call(store, Operation::Settle(hold, Ending::Completed), &mut stepped);
            }
            if let Some(error) = stepped.errors.pop() {
                return Err(error);
            }
            self.pass(clock, DRAIN_STEP);
        }
        Ok(false)
    }

    fn pass(&mut self, clock: &ManualClock, span: Duration) {
        clock.advance(span);
        self.elapsed += span;
    }

    fn plan(&mut self) -> Plan {
        self.numbers += 1;
        let number = self.numbers;
        // Some ids fall on the row of another one.
        let counter = if self.random.below(40) == 0 { number - 1 } else { number };
        let id = TaskId::generate(FIRST_MILLIS + (counter >> 8), counter, &mut self.random);
        let key = (self.random.below(4) == 0).then(|| format!("key-{number}").into());
        Plan { id, body: self.random.next_u64() >> 8, key }
    }

    fn settle(&mut self, store: &Arc<dyn Store>, stepped: &mut Stepped) {
        let Some(hold) = self.held.pop() else { return };
        let ending = match self.random.below(8) {
            0..=4 => Ending::Completed,
            5 => Ending::Failed,
            6 => Ending::FailedForGood,
            _ => Ending::Released,
        };
        // Refused if it is running already, and that is fine.
        self.call(store, Operation::Start(hold), stepped);
        self.call(store, Operation::Settle(hold, ending), stepped);
    }

    fn operate(
        &mut self,
        store: &Arc<dyn Store>,
        operation: impl Fn(TaskId) -> Operation,
        stepped: &mut Stepped,
    ) {
        let chosen = self.random.below(self.submitted.len() as u64) as usize;
        if let Some(task) = self.submitted.get(chosen).copied() {
            self.call(store, operation(task), stepped);
        }
    }

    fn call(&mut self, store: &Arc<dyn Store>, operation: Operation, stepped: &mut Stepped) {
        let call = self.intend(operation.clone());
        let answer = attempt(store, &operation);
        self.heard(call, operation, answer, stepped);
    }

    fn intend(&mut self, operation: Operation) -> u64 {
        self.calls += 1;
        self.history.push(Record::Intent { call: self.calls, operation });
        self.calls
    }

    fn heard(
        &mut self,
        call: u64,
        operation: Operation,
        answer: Result<Answer, StoreError>,
        stepped: &mut Stepped,
    ) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                if !matches!(error, StoreError::OutcomeUnknown(_)) {
                    self.denied.push(operation);
                }
                let unknown = Answer::Unknown(error.to_string());
                stepped.errors.push(error);
                stepped.acknowledged = false;
                self.history.push(Record::Answer { call, answer: unknown });
                return;
            }
        };
        match &answer {
            Answer::Registered(worker) => {
                self.worker = Some(*worker);
                stepped.acknowledged = true;
            }
            Answer::Submitted(taken) => {
                self.submitted.extend(taken.iter().map(|taken| taken.id));
                stepped.acknowledged |= taken.iter().any(|taken| !taken.replayed);
            }
            Answer::Claimed(grants) => {
                let hold =
                    |grant: &crate::history::Grant| Hold { task: grant.task, token: grant.token };
                self.held.extend(grants.iter().map(hold));
                stepped.acknowledged |= !grants.is_empty();
            }
            Answer::Changed { repeated, .. } => stepped.acknowledged |= !repeated,
            Answer::Refused(_) | Answer::Unknown(_) | Answer::Trouble(_) => {}
        }
        self.history.push(Record::Answer { call, answer });
    }
}
