//! The crash test: kills a store under load again and again, and checks what it promised.
//!
//! `cargo run --release -p tasklane-proof --bin crash -- [--restarts N] [--seed S]
//! [--report FILE] [--tasks N] [--look-every N] [--chapter N] [--folder FOLDER]
//! [--store sqlite|postgres|redis] [--servers N]`
//!
//! Ends with 0 if every promise was kept, with 1 and the ids of the tasks if one was not, and
//! with 2 if the test itself could not run. Started as `crash child --store PLACE` it is the
//! process that is killed.
//!
//! Two more tests of what crashes and pauses must not break, against a real server:
//! `crash zombie PROGRAM [--zombies N] [--at-once N] [--lease-ms N] …` stops workers past their
//! lease and lets them go on; `crash idempotency PROGRAM [--keys N] [--duplicates N] [--kills N] …`
//! submits the same task many times at once. Both take `--seed`, `--store` and `--report`.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use tasklane_proof::checker::{Class, Violation};
use tasklane_proof::parent::{Engine, Observer, Outcome, Settings, run};
use tasklane_proof::place::Place;
use tasklane_proof::report::Report;
use tasklane_proof::{Failure, idempotency, zombie};

/// Violations of one class that are printed.
const SHOWN_MAX: u64 = 20;
/// Restarts between two lines of progress.
const LINE_EVERY: u64 = 50;
const BAR_WIDTH: u64 = 30;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let part = arguments.next_if(|first| !first.starts_with("--"));
    let outcome = match part.as_deref() {
        Some("child") => serve(arguments).map(|()| true),
        Some("zombie") => zombie::run(arguments),
        Some("zombie-worker") => zombie::serve(arguments).map(|()| true),
        Some("idempotency") => idempotency::run(arguments),
        Some(other) => Err(format!("{other} is no part of this test").into()),
        None => test(arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("crash: {failure}");
            ExitCode::from(2)
        }
    }
}

fn serve(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("--store"), Some(place)) => tasklane_proof::child::serve(&Place::parse(&place)),
        _ => Err("a child needs --store FOLDER or an address".into()),
    }
}

/// Runs the test; whether every promise was kept.
fn test(arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let options = Arguments::parse(arguments)?;
    let parent = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("crash-").tempdir_in(parent)?;
    let settings = Settings {
        program: std::env::current_exe()?,
        folder: folder.path().to_owned(),
        restarts: options.restarts,
        seed: options.seed,
        tasks: options.tasks,
        look_every: options.look_every,
        chapter: options.chapter,
        engine: options.engine,
        servers: options.servers,
    };
    println!("crash: {} restarts, seed {}", settings.restarts, settings.seed);
    let mut progress = Progress { of: settings.restarts, bar: std::io::stdout().is_terminal() };
    let outcome = run(&settings, &mut progress)?;
    if let Some(file) = &options.report {
        std::fs::write(file, outcome.report.to_json())?;
    }
    summarize(&outcome.report);
    if outcome.violations.is_empty() {
        println!("crash: every promise was kept");
        return Ok(true);
    }
    let kept = folder.keep();
    accuse(&outcome, &settings, &kept);
    Ok(false)
}

struct Arguments {
    restarts: u64,
    seed: u64,
    report: Option<PathBuf>,
    folder: Option<PathBuf>,
    tasks: u64,
    look_every: u64,
    chapter: u64,
    engine: Engine,
    servers: usize,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mut parsed = Self {
            restarts: 200,
            seed: since.as_micros() as u64,
            report: None,
            folder: None,
            tasks: 0,
            look_every: 50,
            chapter: 200,
            engine: Engine::Sqlite,
            servers: 3,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: no number"));
            match name.as_str() {
                "--restarts" => parsed.restarts = number()?,
                "--seed" => parsed.seed = number()?,
                "--tasks" => parsed.tasks = number()?,
                "--look-every" => parsed.look_every = number()?,
                "--chapter" => parsed.chapter = number()?,
                "--servers" => parsed.servers = number()? as usize,
                "--store" => parsed.engine = Engine::parse(&value)?,
                "--report" => parsed.report = Some(value.into()),
                "--folder" => parsed.folder = Some(value.into()),
                _ => return Err(format!("{name} is not an option").into()),
            }
        }
        Ok(parsed)
    }
}

/// A bar that rewrites itself on a terminal, a line now and then elsewhere.
struct Progress {
    of: u64,
    bar: bool,
}

impl Observer for Progress {
    fn killed(&mut self, report: &Report) {
        let (done, of) = (report.restarts, self.of);
        if self.bar {
            let filled = (done * BAR_WIDTH / of.max(1)).min(BAR_WIDTH) as usize;
            let empty = BAR_WIDTH as usize - filled;
            print!("\r[{}{}] {done}/{of}", "#".repeat(filled), " ".repeat(empty));
            if done == of {
                println!();
            }
            let _ = std::io::stdout().flush();
        } else if done.is_multiple_of(LINE_EVERY) || done == of {
            println!("crash: {done}/{of} restarts, {} tasks so far", report.tasks);
        }
    }
}

fn summarize(report: &Report) {
    let counts = &report.counts;
    println!(
        "crash: {} restarts ({} while opening), {} looks, {} tasks in {:.1} s",
        report.restarts,
        report.killed_while_opening,
        report.looks,
        report.tasks,
        report.took.as_secs_f64()
    );
    println!(
        "crash: acknowledged {} submits, {} claims, {} completions ({} under load); \
         unknown {}, of which done {}",
        counts.submits,
        counts.claims,
        counts.completions,
        report.completions_under_load,
        counts.unknown,
        counts.recovered
    );
    println!(
        "crash: restart to ready p50 {:.1} ms, p99 {:.1} ms",
        report.ready_ms(0.5),
        report.ready_ms(0.99)
    );
}

fn accuse(outcome: &Outcome, settings: &Settings, kept: &Path) {
    let mut shown: BTreeMap<Class, u64> = BTreeMap::new();
    for violation in &outcome.violations {
        show(violation, shown.entry(violation.class).or_default());
    }
    for (class, count) in shown {
        eprintln!("crash: VIOLATION: {} × {}", count, class.as_str());
    }
    eprintln!("crash: seed {}; store and history are kept in {}", settings.seed, kept.display());
}

fn show(violation: &Violation, shown: &mut u64) {
    *shown += 1;
    if *shown <= SHOWN_MAX {
        eprintln!("crash: {violation}");
    }
}
