//! Configuration files.
//!
//! `tasklane config check` takes a file or says what is wrong; what it takes, `config print` shows as
//! a file that means the same.

use std::path::Path;

use super::flag::{Ended, run};
use super::none;
use crate::fuzz::ground::Ground;
use crate::fuzz::{Form, Memory, Seen, Target, Verdict, Wrong, broken};

pub(super) const TARGET: Target = Target {
    name: "config",
    form: Form::Bytes,
    words: &[
        "\n",
        "=",
        "\"",
        "'''",
        "[",
        "]",
        "[[",
        "#",
        ".",
        "true",
        "nan",
        "inf",
        "1e9",
        "0x7f",
        "2026-11-15",
        "lease_ms = ",
        "[limits]",
        "[log]",
        "[queues.mail]",
        "[types.\"a.b\"]",
        "[[classify]]",
        "\"forever\"",
        "weights = [70, 20, 8, 2]",
        "body_bytes_max = ",
    ],
    bytes_max: 16 * 1024,
    short: 60,
    memory: Memory::Passing,
    seeds: none,
    check,
};

fn check(ground: &mut Ground, input: &[u8]) -> Verdict {
    let file = ground.folder().join("tasklane.toml");
    std::fs::write(&file, input)?;
    let checked = call(ground, "check", &file)?;
    match checked.code {
        0 => {}
        1 if !checked.errors.trim().is_empty() => return Ok(Seen::Refused),
        code => return broken(format!("check ended with {code}: {}", checked.errors)),
    }
    let printed = call(ground, "print", &file)?;
    let again = ground.folder().join("again.toml");
    std::fs::write(&again, &printed.output)?;
    let reprinted = call(ground, "print", &again)?;
    if reprinted.code != 0 {
        return broken(format!("what print shows is refused: {}", reprinted.errors));
    }
    let (first, second) = (values(&printed.output), values(&reprinted.output));
    match first.iter().zip(&second).find(|(one, other)| one != other) {
        None if first.len() == second.len() => Ok(Seen::Taken),
        differs => broken(format!("print shows something else of itself: {differs:?}")),
    }
}

fn call(ground: &Ground, verb: &str, file: &Path) -> Result<Ended, Wrong> {
    let file = file.display().to_string();
    run(ground, &["config".into(), verb.into(), "--config".into(), file.into()])
}

/// Lines without where each value comes from.
fn values(page: &str) -> Vec<&str> {
    page.lines().map(|line| line.split(" # ").next().unwrap_or_default().trim_end()).collect()
}
