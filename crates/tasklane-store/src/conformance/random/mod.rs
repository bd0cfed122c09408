//! The random test: a store and the model get the same calls on the same time, and everything
//! that can be seen of them must be the same: what a step answers, after each or each tenth the feed
//! and the counters, and everything there is, checked in itself too, after each thousand.
//!
//! A run follows from its seed alone, and its steps from one another, so a failure is replayed
//! with the seed and the number of steps that it prints. A step is one unit of work: a submission,
//! a claim, a command, a renewal, or one look at the store. Lease tokens and workers' ids are
//! random in a store; [`names`] translates those of the store into those of the model.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test support: a difference must stop the test"
)]

mod access;
mod draft;
mod draw;
mod look;
mod names;
mod numbers;
mod operate;
mod seen;
mod time;
mod work;
mod world;

use std::time::Duration;

use tasklane_core::lifecycle::Rules;

use self::world::World;
use super::Fixture;

/// Short spans, so that every deadline is met often.
const RULES: Rules = Rules {
    lease: Duration::from_secs(10),
    silence: Duration::from_secs(12),
    assignment: Duration::from_secs(7),
    lease_losses_max: 2,
    withhold: Duration::from_secs(1),
    timeout_growth: 1.5,
    timeout_growth_max: Duration::from_secs(20),
    kinds: tasklane_core::KindLimits {
        transient: 5,
        rate_limited: 4,
        timeout: 3,
        resource: 2,
        unknown: 1,
    },
};

/// Steps between two looks at the feed and the counters: each step in memory. Where answers come from
/// files or over a connection they cost more than the steps themselves.
const STEPS_BETWEEN_LOOKS_IN_MEMORY: u64 = 1;
const STEPS_BETWEEN_LOOKS: u64 = 10;

/// Steps between two looks at everything at once.
const STEPS_BETWEEN_AUDITS: u64 = 1_000;

/// Steps after which everything that can happen has happened.
const STEPS_TO_MEET_ALL: u64 = 200_000;

/// Applies random operations to a store and to the model until `steps` of them are done; panics
/// at the first difference.
pub fn model_test<F: Fixture>(make: impl Fn(Rules) -> F, seed: u64, steps: u64) {
    println!("model test: {SEED}={seed} {STEPS}={steps}");
    let mut world = World::new(make(RULES), seed);
    let in_memory = !world.fixture.differences().survives_reopen;
    let between = if in_memory { STEPS_BETWEEN_LOOKS_IN_MEMORY } else { STEPS_BETWEEN_LOOKS };
    let (mut next_look, mut next_audit) = (between, STEPS_BETWEEN_AUDITS);
    while world.step < steps {
        world.step();
        if world.step >= next_look {
            world.look();
            next_look = world.step + between;
        }
        if world.step >= next_audit {
            world.audit();
            next_audit += STEPS_BETWEEN_AUDITS;
        }
    }
    world.audit();
    println!("model test: met {:?}", world.seen);
    let missing = world.seen.missing();
    assert!(steps < STEPS_TO_MEET_ALL || missing.is_empty(), "a long run never met {missing:?}");
}

const SEED: &str = "TASKLANE_MODEL_SEED";
const STEPS: &str = "TASKLANE_MODEL_STEPS";

/// Seed and steps of a model test: these, unless the environment names others.
pub fn seed_and_steps(seed: u64, steps: u64) -> (u64, u64) {
    let named = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    (named(SEED).unwrap_or(seed), named(STEPS).unwrap_or(steps))
}

type Operation<F> = fn(&mut World<F>);

impl<F: Fixture> World<F> {
    fn step(&mut self) {
        let chances: [(u64, Operation<F>); 21] = [
            (150, Self::submit),
            (270, Self::claim),
            (420, Self::execute),
            (60, Self::execute_and_claim),
            (50, Self::renew),
            (150, Self::let_time_pass),
            (6, Self::step_the_wall_clock),
            (70, Self::carry_out_what_is_overdue),
            (8, Self::look_at_overdue_in_parts),
            (30, Self::prune),
            (25, Self::register),
            (30, Self::direct),
            (25, Self::configure),
            (3, Self::announce_purge),
            (30, Self::compare_lists),
            (25, Self::compare_counters),
            (60, Self::compare_tasks),
            (90, Self::follow_the_feed),
            (10, Self::compare_an_old_cursor),
            (15, Self::keep_keys_and_records),
            (2, Self::reopen),
        ];
        let total = chances.iter().map(|(chance, _)| chance).sum();
        let mut ticket = self.draw.below(total);
        for (chance, operation) in chances {
            if ticket < chance {
                self.step += 1;
                return operation(self);
            }
            ticket -= chance;
        }
    }
}
