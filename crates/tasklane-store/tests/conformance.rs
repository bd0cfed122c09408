//! The model passes its own suite.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tasklane_core::lifecycle::Rules;
use tasklane_core::{Clock, Timestamp};
use tasklane_store::Store;
use tasklane_store::conformance::{
    Differences, Fixture, ManualClock, NaiveStore, block_on, model_test, seed_and_steps,
};

struct Naive {
    clock: Arc<ManualClock>,
    store: Arc<NaiveStore>,
}

impl Naive {
    fn new(rules: Rules) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(NaiveStore::new(clock.clone(), rules, 0x7A51));
        Self { clock, store }
    }
}

impl Fixture for Naive {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    fn set_wall(&self, wall: Timestamp) {
        self.clock.set_wall(wall);
    }

    fn reopen(&mut self) {
        self.store.restart();
    }

    fn differences(&self) -> Differences {
        Differences {
            survives_reopen: true,
            leases_restart: true,
            exact_depth: true,
            numbers_have_gaps: false,
            backs_up: false,
        }
    }

    fn run<T>(&self, answer: impl Future<Output = T>) -> T {
        block_on(answer)
    }
}

tasklane_store::conformance_suite!(Naive::new);

/// The model against another instance of itself: the test asks only what follows from the calls.
#[test]
fn the_model_agrees_with_itself() {
    let (seed, steps) = seed_and_steps(1, 200_000);
    model_test(Naive::new, seed, steps);
}

/// A store that differs from the model in one rule alone does not pass.
#[test]
fn every_wrong_rule_is_found() {
    let wrong: [fn(&mut Rules); 7] = [
        |rules| rules.lease += Duration::from_secs(1),
        |rules| rules.silence += Duration::from_secs(1),
        |rules| rules.assignment += Duration::from_secs(1),
        |rules| rules.lease_losses_max += 1,
        |rules| rules.withhold += Duration::from_millis(500),
        |rules| rules.timeout_growth += 0.1,
        |rules| rules.kinds.resource += 1,
    ];
    for (number, spoil) in wrong.into_iter().enumerate() {
        let make = |mut rules: Rules| {
            spoil(&mut rules);
            Naive::new(rules)
        };
        let found = std::panic::catch_unwind(|| model_test(make, 1, 50_000));
        assert!(found.is_err(), "wrong rule {number} was not found");
    }
}
