//! Numbers, times and words on the command line.
//!
//! An input is a line with the command, then its arguments, one on each line. Whatever they are, the
//! command ends soon, with one of the codes that its help names.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{divide, none};
use crate::fuzz::ground::Ground;
use crate::fuzz::{Form, Memory, Seen, Target, Verdict, Wrong, broken};

/// Longer than this no command takes that finds no server.
const PATIENCE: Duration = Duration::from_secs(15);
/// Where nobody listens.
const NOWHERE: &str = "http://127.0.0.1:1";

pub(super) const TARGET: Target = Target {
    name: "flag",
    form: Form::LineAndBytes,
    words: &[
        "\n",
        "=",
        "-",
        "--",
        "--lease-ms",
        "--heartbeat-ms",
        "--limit",
        "--state",
        "pending",
        "--priority",
        "--delay",
        "90d",
        "12h",
        "30m",
        "45s",
        "1.5h",
        "--label",
        "a=b",
        "--at",
        "--expires-at",
        "--timeout",
        "--max-retries",
        "--created-after",
        "2026-11-15T12:00:00Z",
        "--json",
        "--queue",
        "--type",
        "é",
        "\u{202e}",
    ],
    bytes_max: 16 * 1024,
    short: 60,
    memory: Memory::Passing,
    seeds: none,
    check,
};

/// How a command ended.
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) output: String,
    pub(super) errors: String,
}

fn check(ground: &mut Ground, input: &[u8]) -> Verdict {
    let (command, arguments) = divide(input);
    let words = command.split_whitespace().map(Into::into);
    let given = arguments.split(|byte| *byte == b'\n').filter(|argument| !argument.is_empty());
    let given = given.map(|argument| std::ffi::OsStr::from_bytes(argument).to_owned());
    let arguments: Vec<std::ffi::OsString> = words.chain(given).collect();
    if arguments.iter().any(|argument| argument.as_bytes().contains(&0)) {
        return Ok(Seen::Refused);
    }
    let ended = run(ground, &arguments)?;
    match ended.code {
        0 => Ok(Seen::Taken),
        // All was well but for the server that is not there, which is asked more than once.
        4 => Ok(Seen::Waits),
        1..=3 if !ended.errors.is_empty() => Ok(Seen::Refused),
        code => broken(format!("ended with {code}: {}", ended.errors)),
    }
}

/// Runs the command without a server; a panic or a signal is not an end.
pub(super) fn run(ground: &Ground, arguments: &[std::ffi::OsString]) -> Result<Ended, Wrong> {
    let child = Command::new(ground.program())
        .args(arguments)
        .current_dir(ground.folder())
        .env("TASKLANE_SERVER", NOWHERE)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        // The system itself takes no such arguments: too long, for example.
        Err(error) if error.kind() == std::io::ErrorKind::ArgumentListTooLong => {
            return Ok(Ended { code: 2, output: String::new(), errors: error.to_string() });
        }
        Err(error) => return Err(error.into()),
    };
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let reading = std::thread::spawn(move || {
        let mut errors = Vec::new();
        let _ = stderr.as_mut().map(|stderr| stderr.read_to_end(&mut errors));
        String::from_utf8_lossy(&errors).into_owned()
    });
    let watching = std::thread::spawn(move || {
        let mut output = Vec::new();
        let _ = stdout.as_mut().map(|stdout| stdout.read_to_end(&mut output));
        String::from_utf8_lossy(&output).into_owned()
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return broken("the command does not end");
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    let output = watching.join().map_err(|_| "no output")?;
    let errors = reading.join().map_err(|_| "no errors")?;
    match status.code() {
        Some(code) if !errors.contains("panicked at") => Ok(Ended { code, output, errors }),
        _ => broken(format!("{status}: {errors}")),
    }
}
