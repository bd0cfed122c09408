//! Random commands on the store and on the naive model, side by side.

use tasklane_store::conformance::{model_test, seed_and_steps};

use crate::fixture::Embedded;

#[test]
fn the_store_in_memory_does_what_the_model_does() {
    let (seed, steps) = seed_and_steps(0x5EED, 1_000_000);
    model_test(Embedded::in_memory, seed, steps);
}

#[test]
fn the_store_on_disk_does_what_the_model_does_across_crashes() {
    let (seed, steps) = seed_and_steps(0xD15C, 100_000);
    model_test(Embedded::on_disk_unsynced, seed, steps);
}
