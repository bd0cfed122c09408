//! What a proof ends with.

use std::process::ExitCode;

use crate::Failure;

/// 0 if every promise was kept, 1 if one was not, and 2, with the reason, if the test itself could
/// not run.
pub fn code(proof: &str, outcome: Result<bool, Failure>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("{proof}: could not be tried: {failure}");
            ExitCode::from(2)
        }
    }
}
