//! The soak test: tasks come and go for a long time, and nothing grows.
//!
//! `cargo run --release -p tasklane-proof --bin soak -- PROGRAM [--lifecycles N] [--seconds N]
//! [--seed S] [--store sqlite|postgres|redis] [--report FILE] [--chart FILE]`
//!
//! Ends with 0 if nothing grew, with 1 if something did, and with 2 if the test itself could not
//! run.

use std::process::ExitCode;

fn main() -> ExitCode {
    match tasklane_proof::soak::run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("soak: {failure}");
            ExitCode::from(2)
        }
    }
}
