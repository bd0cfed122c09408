//! One life of the child: started, loaded, killed.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tasklane_core::SeededRandom;

use super::line::{Line, guard};
use super::load::Load;
use crate::Failure;
use crate::child::READY;
use crate::history::History;
use crate::place::Place;

/// The signal that nobody can catch.
const SIGKILL: i32 = 9;

/// How long a child may take until it is ready: longer than a database may be away from it.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// When the child is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kill {
    /// This long after it was started, ready or not.
    AfterStart(Duration),
    /// This long after it was ready.
    AfterReady(Duration),
}

impl Kill {
    /// Mostly 5 to 60 ms into the load; one in eight while the store is being opened.
    pub(super) fn choose(random: &mut SeededRandom) -> Self {
        Self::choose_at(1, random)
    }

    /// The same for a store that is so many times slower.
    pub(super) fn choose_at(pace: u64, random: &mut SeededRandom) -> Self {
        let micros = |micros: u64| Duration::from_micros(micros * pace);
        if random.below(8) == 0 {
            Self::AfterStart(micros(random.below(12_000)))
        } else {
            Self::AfterReady(micros(5_000 + random.below(55_000)))
        }
    }
}

/// How a life went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lived {
    /// Killed so early that most are not ready yet, and before the first call.
    KilledWhileOpening,
    /// Killed under load; it had been ready after this time.
    Killed(Duration),
    /// It ended by itself, which it must not.
    EndedByItself(String),
}

/// Starts a child on `store`, puts the load on it and kills it.
pub(super) fn live(
    program: &Path,
    store: &Place,
    history: &Mutex<History>,
    load: &mut Load,
    kill: Kill,
    random: &mut SeededRandom,
) -> Result<Lived, Failure> {
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(["crash", "child", "--store"])
        .arg(store.argument())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let served = match kill {
        Kill::AfterStart(after) => {
            std::thread::sleep(after);
            Ok(None)
        }
        Kill::AfterReady(after) => under_load(&mut child, history, load, started, after, random),
    };
    let status = end(&mut child)?;
    // What it sent to a database may still be carried out.
    if let Place::Folder(_) = store {
        guard(history).killed()?;
    }
    let ready_after = served?;
    Ok(match (status.signal(), ready_after) {
        (Some(SIGKILL), Some(ready_after)) => Lived::Killed(ready_after),
        (Some(SIGKILL), None) => Lived::KilledWhileOpening,
        _ => Lived::EndedByItself(status.to_string()),
    })
}

/// Lets the clients make calls for a while and kills the child; how long it took to be ready,
/// which it never is if it ends by itself.
fn under_load(
    child: &mut Child,
    history: &Mutex<History>,
    load: &mut Load,
    started: Instant,
    after: Duration,
    random: &mut SeededRandom,
) -> Result<Option<Duration>, Failure> {
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the child has no pipes".into());
    };
    let mut output = BufReader::new(output);
    if !is_ready(child, &mut output)? {
        // It closed its output, so it is about to end: the kill must not hide how.
        child.wait()?;
        return Ok(None);
    }
    let ready_after = started.elapsed();
    let line = Line::new(history, input);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| line.read_answers(output));
        let clients = scope.spawn(|| load.run(&line, random));
        std::thread::sleep(after);
        // Before anything else is looked at: the clients only end when it is gone.
        end(child)?;
        reader.join().map_err(|_| "the reader of answers panicked")??;
        clients.join().map_err(|_| "a client panicked")?;
        Ok(Some(ready_after))
    })
}

/// Kills, and waits until nothing of the child is left that could write.
fn end(child: &mut Child) -> std::io::Result<ExitStatus> {
    child.kill()?;
    child.wait()
}

/// Waits for its word; a child that says nothing for too long is killed.
fn is_ready(child: &mut Child, output: &mut BufReader<ChildStdout>) -> Result<bool, Failure> {
    std::thread::scope(|scope| {
        let (sender, said) = channel();
        scope.spawn(move || {
            let mut line = String::new();
            // Somebody waits for it, or waits no more.
            let _ = sender.send(output.read_line(&mut line).map(|_| line));
        });
        match said.recv_timeout(READY_WITHIN) {
            Ok(line) => Ok(line?.trim_end() == READY),
            Err(_) => {
                end(child)?;
                Err(format!("a child was not ready within {READY_WITHIN:?}").into())
            }
        }
    })
}
