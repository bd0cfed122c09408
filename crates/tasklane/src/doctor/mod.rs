//! `tasklane doctor`: looks at a running server and says what is wrong and what to do.
//!
//! - [`look`] asks the server
//! - [`check`] judges what was seen; asks nobody

mod check;
mod look;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::place::wait;
use crate::remote::{Remote, Secure};
use check::{Finding, Verdict};

/// Nobody could be asked.
const UNREACHABLE: u8 = 4;

const EXAMPLES: &str = "\
Examples:
  tasklane doctor
  TASKLANE_API_KEY=tl_... tasklane doctor --server https://queue.example.org:7170
  tasklane doctor -o json | jq '.checks[] | select(.verdict == \"problem\")'

Exit codes: 0 nothing is wrong (there may be warnings), 1 something is, 4 the server cannot be
reached. A key with the scope read sees most; one that is not bounded sees all.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The server; its key is taken from the environment variable TASKLANE_API_KEY.
    #[arg(
        long,
        env = "TASKLANE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7170"
    )]
    server: String,
    #[command(flatten)]
    secure: Secure,
    /// How to say it.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
struct Report<'a> {
    server: &'a str,
    /// `fine`, `problems` or `unreachable`.
    status: &'static str,
    checks: &'a [Finding],
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let remote = Remote::new(&arguments.server, &arguments.secure)?;
    let seen = wait(async { Ok(look::look(&remote, &arguments.server).await) })?;
    let findings = check::judge(&seen);
    let is_wrong = findings.iter().any(|finding| finding.verdict == Verdict::Problem);
    let (status, code) = match (seen.reached.is_err(), is_wrong) {
        (true, _) => ("unreachable", ExitCode::from(UNREACHABLE)),
        (false, true) => ("problems", ExitCode::FAILURE),
        (false, false) => ("fine", ExitCode::SUCCESS),
    };
    match arguments.output {
        Output::Json => {
            let report = Report { server: &arguments.server, status, checks: &findings };
            println!("{}", serde_json::to_string_pretty(&report)?);
        }
        Output::Text => print!("{}", told(&findings)),
    }
    Ok(code)
}

/// A line for each, and below it what to do.
fn told(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { check, verdict, found, advice } in findings {
        text.push_str(&format!("{:<8} {check}: {found}\n", verdict.as_str()));
        if let Some(advice) = advice {
            text.push_str(&format!("{:<8} → {advice}\n", ""));
        }
    }
    text
}
