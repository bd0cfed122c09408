//! Both stores, the time they share, and what the test remembers to ask about.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use tasklane_core::{Clock, NewTask, Outcome, SeededRandom, TaskId};

use super::RULES;
use super::draw::Draw;
use super::names::{Names, TokenPair, WorkerPair};
use super::numbers::Numbers;
use super::seen::Seen;
use crate::conformance::{Fixture, ManualClock, NaiveStore, block_on};
use crate::feed::Cursor;
use crate::store::{Answer, Store};

/// Leases no longer held, settles and submissions to come back to.
const REMEMBERED: usize = 32;
/// Lines shown of two answers that differ.
const DIFFERENCES_SHOWN: usize = 12;

pub(super) struct World<F> {
    pub(super) fixture: F,
    pub(super) model: NaiveStore,
    pub(super) clock: Arc<ManualClock>,
    pub(super) draw: Draw,
    pub(super) names: Names,
    pub(super) step: u64,
    seed: u64,
    /// Tasks that may be there.
    pub(super) tasks: Vec<TaskId>,
    pub(super) ids_made: u64,
    pub(super) last_id: TaskId,
    /// Ids whose time and counter another one has too.
    pub(super) alike: HashSet<TaskId>,
    pub(super) sent: Recent<NewTask>,
    /// Sent with an idempotency key.
    pub(super) keyed: Recent<NewTask>,
    /// Leases that may be held.
    pub(super) held: Vec<Held>,
    pub(super) given_up: Recent<Held>,
    pub(super) settled: Recent<(Held, Outcome)>,
    /// Workers that may be alive.
    pub(super) workers: Vec<WorkerPair>,
    pub(super) gone: Recent<WorkerPair>,
    /// Where the feed was read up to, in the model and in the store.
    pub(super) followed: [Cursor; 2],
    pub(super) old_cursors: Recent<[Cursor; 2]>,
    pub(super) seen: Seen,
    numbers: RefCell<Numbers>,
}

/// A lease as both sides gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Held {
    pub(super) task: TaskId,
    pub(super) worker: WorkerPair,
    pub(super) token: TokenPair,
}

/// The last few of something.
pub(super) struct Recent<T>(Vec<T>);

impl<T: Clone> Recent<T> {
    const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn push(&mut self, value: T, draw: &mut Draw) {
        if self.0.len() < REMEMBERED {
            self.0.push(value);
        } else {
            let at = draw.below(REMEMBERED as u64) as usize;
            self.0[at] = value;
        }
    }

    pub(super) fn one(&self, draw: &mut Draw) -> Option<T> {
        draw.one(&self.0)
    }
}

impl<F: Fixture> World<F> {
    pub(super) fn new(fixture: F, seed: u64) -> Self {
        let steady = fixture.differences().leases_restart;
        let clock = if steady { ManualClock::default() } else { ManualClock::single() };
        let clock = Arc::new(clock);
        clock.set_wall(fixture.now());
        let mut world = Self {
            model: NaiveStore::new(clock.clone(), RULES, seed),
            fixture,
            clock,
            draw: Draw::new(seed),
            names: Names::default(),
            step: 0,
            seed,
            tasks: Vec::new(),
            // Away from the ids that a store makes itself.
            ids_made: 10_000,
            last_id: TaskId::generate(0, 0, &mut SeededRandom::new(seed)),
            alike: HashSet::new(),
            sent: Recent::new(),
            keyed: Recent::new(),
            held: Vec::new(),
            given_up: Recent::new(),
            settled: Recent::new(),
            workers: Vec::new(),
            gone: Recent::new(),
            followed: [Cursor::OLDEST; 2],
            old_cursors: Recent::new(),
            seen: Seen::default(),
            numbers: RefCell::default(),
        };
        world.begin();
        world
    }

    /// Queues with small limits, so that the set of live tasks stays small.
    pub(super) fn begin(&mut self) {
        for name in ["b", "a", "c"] {
            self.configure_queue(name);
        }
        self.register();
    }

    /// After a reopen that kept nothing.
    pub(super) fn begin_anew(&mut self) {
        self.model = NaiveStore::new(self.clock.clone(), RULES, self.seed ^ self.step);
        self.tasks.clear();
        self.held.clear();
        self.workers.clear();
        self.sent = Recent::new();
        self.keyed = Recent::new();
        self.given_up = Recent::new();
        self.settled = Recent::new();
        self.old_cursors = Recent::new();
        self.followed = [Cursor::OLDEST; 2];
        self.begin();
    }

    /// Asks the store under test.
    pub(super) fn real<T>(&self, call: impl for<'a> FnOnce(&'a dyn Store) -> Answer<'a, T>) -> T {
        let store = self.fixture.store();
        let answer = self.fixture.run(call(&*store));
        answer.unwrap_or_else(|error| self.fail(&"a call", &error, &"an answer"))
    }

    /// Asks the model.
    pub(super) fn model<T>(&self, call: impl for<'a> FnOnce(&'a dyn Store) -> Answer<'a, T>) -> T {
        block_on(call(&self.model)).expect("the model always answers")
    }

    /// Asks both and compares what they say.
    pub(super) fn both<T: PartialEq + Debug>(
        &self,
        asked: &impl Debug,
        call: impl for<'a> Fn(&'a dyn Store) -> Answer<'a, T>,
    ) -> T {
        let (real, model) = (self.real(&call), self.model(&call));
        self.agree(asked, &real, &model);
        real
    }

    pub(super) fn agree<T: PartialEq + Debug>(&self, asked: &impl Debug, real: &T, model: &T) {
        if !self.alike(real, model) {
            self.fail(asked, real, model);
        }
    }

    /// Whether two answers are the same, but for numbers that a store may leave out.
    pub(super) fn alike<T: PartialEq + Debug>(&self, real: &T, model: &T) -> bool {
        let numbers =
            || self.numbers.borrow_mut().alike(&format!("{real:?}"), &format!("{model:?}"));
        real == model || self.fixture.differences().numbers_have_gaps && numbers()
    }

    pub(super) fn expect(&self, asked: &impl Debug, holds: bool) {
        if !holds {
            self.fail(asked, &"no", &"yes");
        }
    }

    pub(super) fn fail(&self, asked: &impl Debug, real: &impl Debug, model: &impl Debug) -> ! {
        let (real, model) = (format!("{real:#?}"), format!("{model:#?}"));
        let lines = real.lines().zip(model.lines());
        let first = lines.filter(|(one, other)| one != other).take(DIFFERENCES_SHOWN);
        let first: String = first.map(|(one, other)| format!("- {one}\n+ {other}\n")).collect();
        panic!(
            "\nmodel test: {seed_name}={seed} {steps_name}={steps}\nstore: {real}\nmodel: {model}\n\
             store and model differ at {now} in the answer to: {asked:#?}\n{first}",
            seed_name = super::SEED,
            seed = self.seed,
            steps_name = super::STEPS,
            steps = self.step,
            now = self.clock.wall(),
        )
    }
}
