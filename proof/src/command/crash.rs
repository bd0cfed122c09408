//! The crash test: kills a store under load again and again, and checks what it promised.
//!
//! `proof crash [--restarts N] [--seed S] [--report FILE] [--tasks N] [--look-every N] [--chapter N]
//! [--folder FOLDER] [--store sqlite|postgres|redis] [--servers N]`
//!
//! `--tasks` are there before the first kill. With 100,000 of them or more in the embedded store, how
//! soon it is ready again is judged too.
//!
//! Ends with 0 if every promise was kept, with 1 and the ids of the tasks if one was not, and
//! with 2 if the test itself could not run. Started as `proof crash child --store PLACE` it is the
//! process that is killed.
//!
//! Two more tests of what crashes and pauses must not break, against a real server:
//! `proof crash zombie PROGRAM [--zombies N] [--at-once N] [--lease-ms N] …` stops workers past their
//! lease and lets them go on; `proof crash idempotency PROGRAM [--keys N] [--duplicates N] [--kills N]
//! …` submits the same task many times at once. Both take `--seed`, `--store` and `--report`.

use std::process::ExitCode;

use tasklane_proof::options::Options;
use tasklane_proof::parent::{Engine, Observer, Settings, run};
use tasklane_proof::place::Place;
use tasklane_proof::report::{Report, accuse};
use tasklane_proof::terminal::Progress;
use tasklane_proof::{Failure, exit, idempotency, zombie};

/// A store with so many tasks, in files, is to be ready after a kill within so long, but for one restart in
/// a hundred, and for few in which this machine itself stood still (docs/adr/0014-judging.md).
const READY_TASKS: u64 = 100_000;
const READY_P99_MS_MAX: f64 = 250.0;

const OPTIONS: [&str; 9] = [
    "--restarts",
    "--seed",
    "--report",
    "--tasks",
    "--look-every",
    "--chapter",
    "--folder",
    "--store",
    "--servers",
];

pub(crate) fn prove(arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut arguments = arguments.peekable();
    let part = arguments.next_if(|first| !first.starts_with("--"));
    let outcome = match part.as_deref() {
        Some("child") => serve(arguments).map(|()| true),
        Some("zombie") => zombie::run(arguments),
        Some("zombie-worker") => zombie::serve(arguments).map(|()| true),
        Some("idempotency") => idempotency::run(arguments),
        Some(other) => Err(format!("{other} is no part of this test").into()),
        None => test(arguments),
    };
    exit::code("crash", outcome)
}

fn serve(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("--store"), Some(place)) => tasklane_proof::child::serve(&Place::parse(&place)),
        _ => Err("a child needs --store FOLDER or an address".into()),
    }
}

/// Runs the test; whether every promise was kept.
fn test(arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let options = Options::parse(arguments, &OPTIONS)?;
    let parent = options.path("--folder").unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("crash-").tempdir_in(parent)?;
    let settings = Settings {
        program: std::env::current_exe()?,
        folder: folder.path().to_owned(),
        restarts: options.number("--restarts", 200)?,
        seed: options.seed()?,
        tasks: options.number("--tasks", 0)?,
        look_every: options.number("--look-every", 50)?,
        chapter: options.number("--chapter", 200)?,
        engine: options.engine()?,
        servers: options.number("--servers", 3)? as usize,
    };
    println!("crash: {} restarts, seed {}", settings.restarts, settings.seed);
    let mut watcher = Watcher(Progress::new("crash", "restarts", settings.restarts));
    let outcome = run(&settings, &mut watcher);
    watcher.0.end();
    let outcome = outcome?;
    if let Some(file) = options.path("--report") {
        std::fs::write(file, outcome.report.to_json())?;
    }
    summarize(&outcome.report);
    let again = options.again("crash", settings.seed);
    if !outcome.violations.is_empty() {
        accuse("crash", &outcome.violations);
        let (count, kept) = (outcome.violations.len(), folder.keep());
        let kept = kept.display();
        println!(
            "crash: FAILED: {count} violations; store and history are kept in {kept}; again: {again}"
        );
        return Ok(false);
    }
    let counts = outcome.report.counts;
    if counts.submits == 0 || counts.completions == 0 {
        return Err("nothing was submitted or completed: nothing was shown".into());
    }
    if let Some(late) = ready_too_late(&settings, &outcome.report) {
        println!("crash: FAILED: {late}; again: {again}");
        return Ok(false);
    }
    println!("crash: every promise was kept");
    Ok(true)
}

/// How late a store was ready again that has so many tasks that it matters, if that was too late.
fn ready_too_late(settings: &Settings, report: &Report) -> Option<String> {
    let (tasks, slow) = (settings.tasks, report.ready_ms(0.99));
    let is_judged = settings.engine == Engine::Sqlite && tasks >= READY_TASKS;
    (is_judged && slow > READY_P99_MS_MAX).then(|| {
        format!("ready after {slow:.1} ms, p99, with {tasks} tasks; {READY_P99_MS_MAX} at most")
    })
}

struct Watcher(Progress);

impl Observer for Watcher {
    fn killed(&mut self, report: &Report) {
        self.0.show(report.restarts, &format!(", {} tasks so far", report.tasks));
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
        "crash: restart to ready p50 {:.1} ms, p99 {:.1} ms; with the {} in which this machine stood \
         still p99 {:.1} ms",
        report.ready_ms(0.5),
        report.ready_ms(0.99),
        report.left_out(),
        report.ready_ms_all(0.99)
    );
}
