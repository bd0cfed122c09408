//! `tasklane doctor`: looks at a running server and says what is wrong and what to do.
//!
//! - [`look`] asks the server
//! - [`check`] judges what was seen; asks nobody

mod check;
mod look;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::connection::Connection;
use crate::ending::{DONE, Outcome, UNREACHABLE, not_as_it_should_be};
use crate::show::{Colours, Format, Shown, clean, line};
use check::{Finding, Verdict};

const EXAMPLES: &str = "\
Examples:
  tasklane doctor
  TASKLANE_API_KEY=tl_... tasklane doctor --server https://queue.example.org:7170
  tasklane doctor -o json | jq '.checks[] | select(.verdict == \"problem\")'

Exit codes: 0 nothing is wrong (there may be warnings), 1 something is, 4 the server cannot be
reached. A key with the scope read sees most; one that is not bounded sees all.";

/// Look at a running server: what is wrong, and what to do.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: Connection,
    #[command(flatten)]
    shown: Shown,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
struct Report<'a> {
    server: &'a str,
    /// `fine`, `problems` or `unreachable`.
    status: &'static str,
    checks: &'a [Finding],
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let target = arguments.server.target()?;
    let seen = look::look(&target.client()?, target.key.is_some()).await;
    let findings = check::judge(&seen);
    let is_wrong = findings.iter().any(|finding| finding.verdict == Verdict::Problem);
    let (status, code) = match (seen.reached.is_err(), is_wrong) {
        (true, _) => ("unreachable", ExitCode::from(UNREACHABLE)),
        (false, true) => ("problems", not_as_it_should_be()),
        (false, false) => ("fine", DONE),
    };
    let report = Report { server: &seen.url, status, checks: &findings };
    match arguments.shown.format() {
        Format::Ndjson => findings.iter().try_for_each(line)?,
        Format::Table | Format::Json => {
            arguments.shown.one(&report, |colours| told(&findings, colours))?;
        }
    }
    Ok(code)
}

/// A line for each, and below it what to do.
fn told(findings: &[Finding], colours: Colours) -> String {
    let mut text = String::new();
    for Finding { check, verdict, found, advice } in findings {
        let word = colours.paint(verdict.paint(), &format!("{:<8}", verdict.as_str()));
        text.push_str(&format!("{word} {check}: {}\n", clean(found)));
        if let Some(advice) = advice {
            text.push_str(&format!("{:<8} → {advice}\n", ""));
        }
    }
    text
}
