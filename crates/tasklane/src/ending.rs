//! How commands end: exit codes, and what is said of a failure.

use std::fmt;
use std::io::ErrorKind;
use std::process::ExitCode;

use tasklane_client::wire::Problem;
use tasklane_client::{Error, ErrorClass};
use tasklane_store::StoreError;

use crate::advice::{DAMAGED, advice};
use crate::show::clean;

/// What a command gives.
pub(crate) type Outcome = anyhow::Result<ExitCode>;

/// Done.
pub(crate) const DONE: ExitCode = ExitCode::SUCCESS;
const REFUSED: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
/// Nobody could be asked.
pub(crate) const UNREACHABLE: u8 = 4;

/// What every page of help may say of them.
pub(crate) const CODES: &str = "\
Exit codes: 0 done, 1 refused or not as it should be, 2 wrong usage, 3 not found, 4 the server
cannot be reached.";

/// Why a command stops before anybody was asked.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It was not called as it should be.
    Usage(String),
    /// There is no such thing.
    NotFound(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::NotFound(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Stop {}

/// A command that was called wrongly.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Stop::Usage(text.into()).into()
}

/// Something went another way than it should: said already.
pub(crate) fn not_as_it_should_be() -> ExitCode {
    ExitCode::from(REFUSED)
}

/// Ends with a code, after saying what went wrong.
pub(crate) fn end(outcome: Outcome) -> ExitCode {
    let error = match outcome {
        Ok(code) => return code,
        Err(error) => error,
    };
    let is_gone = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_gone) {
        // Who read the output has seen enough.
        return DONE;
    }
    eprintln!("tasklane: {}", told(&error));
    ExitCode::from(code(&error))
}

fn code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<Stop>() {
        Some(Stop::Usage(_)) => return USAGE,
        Some(Stop::NotFound(_)) => return NOT_FOUND,
        None => {}
    }
    let error = error.downcast_ref::<Error>();
    match error.map(Error::class) {
        // It was there once.
        Some(_) if error.is_some_and(|error| error.is("worker-gone")) => NOT_FOUND,
        Some(ErrorClass::Usage) => USAGE,
        Some(ErrorClass::NotFound) => NOT_FOUND,
        Some(ErrorClass::Unreachable) => UNREACHABLE,
        Some(ErrorClass::Refused) | None => REFUSED,
    }
}

fn told(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Error>() {
        Some(error) => match (error.problem(), error) {
            (Some(problem), _) => refusal(problem),
            (None, Error::Unreachable(_)) => unreached(error),
            (None, _) => error.to_string(),
        },
        None => match remedy(error) {
            Some(remedy) => format!("{error:#}\n  → {remedy}"),
            None => format!("{error:#}"),
        },
    }
}

/// What to do about what went wrong on this machine.
fn remedy(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(StoreError::Corrupt(_)) = error.downcast_ref() {
        return Some(DAMAGED);
    }
    let error = error.downcast_ref::<std::io::Error>()?;
    (error.kind() == ErrorKind::AddrInUse)
        .then_some("is one running there already? --listen names another address")
}

/// What the server says, where, and what to do.
pub(crate) fn refusal(problem: &Problem) -> String {
    let Problem { title, detail, problem_type, request_id, .. } = problem;
    let mut text = format!("{title}: {}", clean(detail));
    for error in &problem.errors {
        let error = format!("{}: {}", error.pointer, error.detail);
        if *error != **detail {
            text.push_str(&format!("\n  {}", clean(&error)));
        }
    }
    if let Some(state) = problem.current_state {
        text.push_str(&format!("\n  its state: {}", state.0));
    }
    if let Some(advice) = advice(problem_type) {
        text.push_str(&format!("\n  → {advice}"));
    }
    format!("{text}\n  ({} {}, request {})", problem.status, clean(problem_type), clean(request_id))
}

fn unreached(error: &Error) -> String {
    let text = clean(&error.to_string());
    let advice = match text.contains("https://") {
        true => "is it running there, and trusted? --ca FILE names the authorities to trust",
        false => {
            "is it running, and is this its address? Give another with --server URL, \
                  TASKLANE_SERVER or --profile NAME"
        }
    };
    format!("{text}\n  → {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sort_of_failure_has_its_code() {
        let problem = |status| {
            Box::new(Problem {
                problem_type: "invalid-state".into(),
                title: "Invalid state".into(),
                status,
                detail: "no".into(),
                instance: "/".into(),
                request_id: "r".into(),
                errors: Vec::new(),
                current_state: None,
            })
        };
        for (error, expected) in [
            (Error::Refused { problem: problem(409), retry_after: None }.into(), 1),
            (Error::NotFound { problem: problem(404) }.into(), 3),
            (Error::Unreachable("x".into()).into(), 4),
            (Error::Usage("x".into()).into(), 2),
            (usage("x"), 2),
            (Stop::NotFound("x".into()).into(), 3),
            (anyhow::anyhow!("x"), 1),
            (anyhow::Error::from(Error::Unreachable("x".into())).context("why"), 4),
        ] {
            assert_eq!(code(&error), expected, "{error:?}");
        }
    }
}
