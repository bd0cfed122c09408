//! The network test: three servers on one store, their workers and producers, each in a network
//! namespace of its own, while links between them are cut, silenced in one direction, and made bad.
//!
//! `proof net [--store postgres|redis] [--cuts N] [--seed S] [--report FILE] [--folder FOLDER]
//! [--binary TASKLANE]`
//!
//! Ends with 0 if every promise was kept and every cut healed within five seconds, with 1 if not, and
//! with 2 if the test itself could not run. It takes root, for namespaces; nothing outside of those
//! that it makes is changed, and they are gone when it ends, however it ends. The program starts
//! itself again inside of them.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use tasklane_proof::Failure;
use tasklane_proof::net::convergence::Took;
use tasklane_proof::net::cut::Cut;
use tasklane_proof::net::figures::{CONVERGED_WITHIN, Figures};
use tasklane_proof::net::run::{Observer, Outcome, Settings, run};
use tasklane_proof::net::space::{Node, Space, Spaces};
use tasklane_proof::net::{Engine, SERVERS, role};
use tasklane_proof::options::Options;
use tasklane_proof::report::accuse;
use tasklane_proof::terminal::Progress;

const OPTIONS: [&str; 6] = ["--store", "--cuts", "--seed", "--report", "--folder", "--binary"];
/// Unless it is said otherwise.
const CUTS: u64 = 8;
/// Of so many cuts at most each has a line of its own.
const LINES_MAX: u64 = 50;

pub(crate) fn prove(arguments: impl Iterator<Item = String>) -> ExitCode {
    let arguments: Vec<String> = arguments.collect();
    if let Some(code) = role::play(&arguments) {
        return code;
    }
    let outcome = match arguments.split_first() {
        Some((word, rest)) if word == "watch" => watch(rest),
        _ => test(&arguments),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("net: could not be tried: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Makes the machines and runs the test on one of them; gives what to end with.
fn test(arguments: &[String]) -> Result<u8, Failure> {
    let options = Options::parse(arguments.iter().cloned(), &OPTIONS)?;
    let parent = options.path("--folder").unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("net-").tempdir_in(parent)?;
    let (engine, cuts) = (engine(&options)?, options.number("--cuts", CUTS)?);
    let seed = options.seed()?;
    println!("net: {cuts} cuts between {SERVERS} servers on {}, seed {seed}", engine.as_str());
    let spaces = Spaces::make(folder.path())?;
    let own = std::env::current_exe()?;
    let status = Command::new("ip")
        .args(["netns", "exec", &spaces.space.name(Node::Watcher)])
        .arg(own)
        .args(["net", "watch", &spaces.space.prefix])
        .arg(folder.path())
        .args(["--seed", &seed.to_string()])
        .args(arguments)
        .status()?;
    drop(spaces);
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2);
    if code != 0 {
        eprintln!("net: seed {seed}; logs and records are kept in {}", folder.keep().display());
    }
    Ok(code)
}

/// The test, on the machine that watches: `PREFIX FOLDER` and the arguments.
fn watch(arguments: &[String]) -> Result<u8, Failure> {
    let [prefix, folder, rest @ ..] = arguments else { return Err("PREFIX FOLDER".into()) };
    let options = Options::parse(rest.iter().cloned(), &OPTIONS)?;
    let settings = Settings {
        engine: engine(&options)?,
        cuts: options.number("--cuts", CUTS)?,
        seed: options.seed()?,
        folder: PathBuf::from(folder),
        space: Space { prefix: prefix.clone() },
        tasklane: match options.path("--binary") {
            Some(binary) => std::fs::canonicalize(binary)?,
            None => std::env::current_exe()?.with_file_name("tasklane"),
        },
    };
    let progress = Progress::new("net", "cuts", settings.cuts);
    let mut watcher = Watcher { cuts: settings.cuts, progress };
    let outcome = run(&settings, &mut watcher);
    watcher.progress.end();
    let outcome = outcome?;
    if let Some(file) = options.path("--report") {
        std::fs::write(file, outcome.figures.to_json(&outcome.violations))?;
    }
    Ok(u8::from(!sum_up(&outcome, &settings.folder)))
}

fn engine(options: &Options) -> Result<Engine, Failure> {
    options.text("--store").map_or(Ok(Engine::Postgres), Engine::parse)
}

struct Watcher {
    cuts: u64,
    progress: Progress,
}

impl Observer for Watcher {
    fn began(&mut self, lateness: &str) {
        println!("net: packets are dropped by a filter; on bad links the others are {lateness}");
    }

    fn repeats(&mut self, cut: &Cut, took: &[Took], still: Duration) {
        self.progress.end();
        let times = times(took);
        println!("net: {cut}: late, comes again: {times}; this machine stood still for {still:?}");
    }

    fn healed(&mut self, cut: &Cut, took: &[Took], figures: &Figures) {
        let done = figures.converged.len() as u64;
        if figures.converged.last().is_some_and(|took| *took > CONVERGED_WITHIN) {
            self.progress.end();
            println!("net: cut {done}: {cut}: work went on too late: {}", times(took));
        }
        if self.cuts <= LINES_MAX && !self.progress.is_bar() {
            println!("net: cut {done}: {cut}: work went on after {}", times(took));
        } else {
            let slowest = figures.converged_ms(1.0);
            self.progress.show(done, &format!(", work went on within {slowest} ms"));
        }
    }
}

/// Of each server: ready, task taken, task completed.
fn times(took: &[Took]) -> String {
    let one = |took: &Took| {
        let [ready, taken, completed] =
            [took.ready, took.taken, took.completed].map(|time| time.as_millis());
        format!("{ready}/{taken}/{completed}")
    };
    format!("{} ms", took.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Tells the figures and the verdict; whether it is a good one.
fn sum_up(outcome: &Outcome, folder: &Path) -> bool {
    let Outcome { figures, violations } = outcome;
    let counts = &figures.counts;
    println!(
        "net: {} cuts, {:.1} s of them, {} packets dropped, in {:.1} s; {} tasks sent, {} \
         acknowledged ({} calls unanswered), {} completions accepted, {} refused as late, {} leases \
         lost",
        figures.converged.len(),
        figures.cut.as_secs_f64(),
        figures.dropped,
        figures.took.as_secs_f64(),
        counts.sent,
        counts.taken,
        counts.unanswered,
        counts.completed,
        counts.late,
        counts.lease_losses,
    );
    println!(
        "net: {} stale tokens shown; {} events followed, from {} cursors; work went on after \
         {} ms (p50), {} ms (p99), {} ms (max)",
        counts.stale,
        counts.told,
        counts.resumed,
        figures.converged_ms(0.5),
        figures.converged_ms(0.99),
        figures.converged_ms(1.0),
    );
    accuse("net", violations);
    let late = figures.converged_late();
    if late > 0 {
        eprintln!("net: VIOLATION: {late} cuts took longer than {CONVERGED_WITHIN:?} to heal");
    }
    let well = violations.is_empty() && late == 0;
    let excused = format!(
        "{} cuts were made again because they healed late, and {} ms in which this machine stood still \
         do not count",
        figures.repeated,
        figures.still.as_millis()
    );
    match well {
        true => println!("net: every promise was kept, and every cut healed in time; {excused}"),
        false => println!("net: FAILED; {excused}; logs are in {}", folder.display()),
    }
    well
}
