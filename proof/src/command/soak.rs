//! The soak test: tasks come and go for a long time, and nothing grows.
//!
//! `proof soak PROGRAM [--lifecycles N] [--seconds N] [--seed S] [--store sqlite|postgres|redis]
//! [--report FILE] [--chart FILE]`
//!
//! Ends with 0 if nothing grew, with 1 if something did, and with 2 if the test itself could not
//! run.

use std::process::ExitCode;

use tasklane_proof::{exit, soak};

pub(crate) fn prove(arguments: impl Iterator<Item = String>) -> ExitCode {
    exit::code("soak", soak::run(arguments))
}
