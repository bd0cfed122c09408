//! Points that are tried, and the processes that try them.
//!
//! A point is one fault in one place. The processes of a crew share the points of a run; each tells
//! what became of a point when it is through with it. One that dies or hangs has found something:
//! it is noted, and another goes on behind that point.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::shim::{CONTROL, FOLDER};
use crate::Failure;

/// Longer than any point takes on a busy machine: what takes longer hangs.
const POINT_MAX: Duration = Duration::from_secs(60);
/// After so many deaths of one process there is enough to look at.
const DEATHS_MAX: u64 = 5;

/// Which points a process tries.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Its number in the crew.
    pub number: u64,
    /// How many there are.
    pub of: u64,
    /// Points of its own that another process was through with.
    pub skip: u64,
}

/// Where a process of a crew tells what became of its points.
pub(super) struct Desk {
    share: Share,
    /// Points that have come by.
    seen: u64,
    /// Of those, its own.
    own: u64,
}

impl Desk {
    pub(super) const fn new(share: Share) -> Self {
        Self { share, seen: 0, own: 0 }
    }

    /// Whether the next point is for this process.
    pub(super) fn takes_next(&mut self) -> bool {
        self.seen += 1;
        if self.seen % self.share.of != self.share.number {
            return false;
        }
        self.own += 1;
        self.own > self.share.skip
    }

    /// What became of the point that was taken last, and what was wrong with it.
    pub(super) fn tell(&self, class: &str, wrong: &[String]) -> std::io::Result<()> {
        let mut output = std::io::stdout().lock();
        for wrong in wrong {
            let line: Vec<&str> = wrong.split_whitespace().collect();
            writeln!(output, "wrong {}", line.join(" "))?;
        }
        writeln!(output, "is {class}")?;
        output.flush()
    }

    /// There are no more points.
    pub(super) fn close(&self) -> std::io::Result<()> {
        writeln!(std::io::stdout(), "done")
    }
}

/// What has come of points.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many ended how.
    pub classes: BTreeMap<String, u64>,
    /// What was wrong.
    pub wrong: Vec<String>,
}

impl Tally {
    /// How many points were tried.
    pub fn points(&self) -> u64 {
        self.classes.values().sum()
    }

    /// How many ended in this way.
    pub fn of(&self, class: &str) -> u64 {
        self.classes.get(class).copied().unwrap_or(0)
    }

    fn add(&mut self, other: Self) {
        for (class, count) in other.classes {
            *self.classes.entry(class).or_default() += count;
        }
        self.wrong.extend(other.wrong);
    }
}

/// Processes that try points together.
pub(super) struct Crew<'a> {
    /// This program.
    pub(super) program: &'a Path,
    /// What they are told, before their shares.
    pub(super) arguments: Vec<String>,
    /// Where they work.
    pub(super) folder: PathBuf,
    /// What is loaded into them.
    pub(super) shim: Option<PathBuf>,
    /// How many.
    pub(super) processes: u64,
}

impl Crew<'_> {
    /// Tries all points; `progress` hears how many are through.
    pub(super) fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Tally, Failure> {
        std::thread::scope(|scope| {
            let (through, counted) = channel();
            let processes: Vec<_> = (0..self.processes)
                .map(|number| {
                    let through = through.clone();
                    scope.spawn(move || self.run_share(number, &through))
                })
                .collect();
            drop(through);
            for (count, ()) in (1..).zip(counted) {
                progress(count);
            }
            let mut tally = Tally::default();
            for process in processes {
                tally.add(process.join().map_err(|_| "a watcher panicked")??);
            }
            Ok(tally)
        })
    }

    fn run_share(&self, number: u64, through: &Sender<()>) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        for _ in 0..DEATHS_MAX {
            let share = Share { number, of: self.processes, skip: tally.points() };
            match self.run_process(&share, &mut tally, through)? {
                None => return Ok(tally),
                Some(death) => {
                    let point = tally.points() + 1;
                    tally.wrong.push(format!("point {point} of process {number}: {death}"));
                    *tally.classes.entry("died".into()).or_default() += 1;
                }
            }
        }
        Ok(tally)
    }

    /// Runs one process; how it died, if it was not done.
    fn run_process(
        &self,
        share: &Share,
        tally: &mut Tally,
        through: &Sender<()>,
    ) -> Result<Option<String>, Failure> {
        let folder = self.folder.join(format!("process-{}", share.number));
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new(self.program);
        command.args(&self.arguments).arg("--folder").arg(&folder);
        command.arg("--share").arg(format!("{}/{}/{}", share.number, share.of, share.skip));
        if let Some(shim) = &self.shim {
            command.env("LD_PRELOAD", shim).env(CONTROL, folder.join("control"));
            command.env(FOLDER, folder.join("store"));
        }
        let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn()?;
        let (Some(output), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("the process has no pipes".into());
        };
        std::thread::scope(|scope| {
            let (sender, lines) = channel();
            scope.spawn(move || {
                let lines = BufReader::new(output).lines();
                lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
            let errors = scope.spawn(move || {
                let mut bytes = Vec::new();
                let _ = errors.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            });
            let mut death = None;
            loop {
                match lines.recv_timeout(POINT_MAX) {
                    Ok(line) if line == "done" => break,
                    Ok(line) => {
                        if let Err(failure) = note(&line, tally, through) {
                            child.kill()?;
                            child.wait()?;
                            return Err(failure);
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        death = Some(String::from("it died"));
                        break;
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        child.kill()?;
                        death = Some(String::from("it hung"));
                        break;
                    }
                }
            }
            let status = child.wait()?;
            let errors = errors.join().unwrap_or_default();
            // What writes to standard error and goes on has something to say too.
            let told = format!("{status} {}", errors.trim());
            let is_odd = !status.success() || !errors.trim().is_empty();
            Ok(death.map(|death| format!("{death}: {told}")).or_else(|| is_odd.then_some(told)))
        })
    }
}

fn note(line: &str, tally: &mut Tally, through: &Sender<()>) -> Result<(), Failure> {
    match line.split_once(' ') {
        Some(("wrong", what)) => tally.wrong.push(what.to_owned()),
        Some(("is", class)) => {
            *tally.classes.entry(class.to_owned()).or_default() += 1;
            let _ = through.send(());
        }
        _ => return Err(format!("a process said: {line}").into()),
    }
    Ok(())
}
