//! Random commands on the store and on the naive model, side by side.

use tasklane_store::conformance::{model_test, seed_and_steps};

use crate::fixture::OnPostgres;

#[test]
fn the_store_does_what_the_model_does() {
    let (seed, steps) = seed_and_steps(0x9057, 100_000);
    model_test(OnPostgres::new, seed, steps);
}
