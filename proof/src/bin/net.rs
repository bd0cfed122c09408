//! The network test: three servers on one store, their workers and producers, each in a network
//! namespace of its own, while links between them are cut, silenced in one direction, and made bad.
//!
//! `cargo run --release -p tasklane-proof --bin net -- [--store postgres|redis] [--cuts N]
//! [--seed S] [--report FILE] [--folder FOLDER] [--binary TASKLANE]`
//!
//! Ends with 0 if every promise was kept and every cut healed within five seconds, with 1 if not, and
//! with 2 if the test itself could not run. It takes root, for namespaces; nothing outside of those
//! that it makes is changed, and they are gone when it ends, however it ends. The program starts
//! itself again inside of them.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use tasklane_proof::Failure;
use tasklane_proof::checker::Class;
use tasklane_proof::net::convergence::Took;
use tasklane_proof::net::cut::Cut;
use tasklane_proof::net::figures::{CONVERGED_WITHIN, Figures};
use tasklane_proof::net::run::{Observer, Outcome, Settings, is_late, run};
use tasklane_proof::net::space::{Node, Space, Spaces};
use tasklane_proof::net::{Engine, SERVERS, role};

/// Violations of one class that are printed.
const SHOWN_MAX: u64 = 20;
/// Cuts between two lines of progress.
const LINE_EVERY: usize = 50;
const BAR_WIDTH: usize = 30;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
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
            eprintln!("net: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Makes the machines and runs the test on one of them; gives what to end with.
fn test(arguments: &[String]) -> Result<u8, Failure> {
    let options = Arguments::parse(arguments)?;
    let parent = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("net-").tempdir_in(parent)?;
    let Arguments { engine, cuts, seed, .. } = options;
    println!("net: {cuts} cuts between {SERVERS} servers on {}, seed {seed}", engine.as_str());
    let spaces = Spaces::make(folder.path())?;
    let own = std::env::current_exe()?;
    let status = Command::new("ip")
        .args(["netns", "exec", &spaces.space.name(Node::Watcher)])
        .arg(own)
        .args(["watch", &spaces.space.prefix])
        .arg(folder.path())
        .args(["--seed", &seed.to_string()])
        .args(arguments)
        .status()?;
    drop(spaces);
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2);
    if code == 1 {
        eprintln!("net: seed {seed}; logs and records are kept in {}", folder.keep().display());
    }
    Ok(code)
}

/// The test, on the machine that watches: `PREFIX FOLDER` and the arguments.
fn watch(arguments: &[String]) -> Result<u8, Failure> {
    let [prefix, folder, rest @ ..] = arguments else { return Err("PREFIX FOLDER".into()) };
    let options = Arguments::parse(rest)?;
    let settings = Settings {
        engine: options.engine,
        cuts: options.cuts,
        seed: options.seed,
        folder: PathBuf::from(folder),
        space: Space { prefix: prefix.clone() },
        tasklane: match options.binary {
            Some(binary) => std::fs::canonicalize(binary)?,
            None => std::env::current_exe()?.with_file_name("tasklane"),
        },
    };
    let mut progress = Progress { of: settings.cuts, bar: std::io::stdout().is_terminal() };
    let outcome = run(&settings, &mut progress)?;
    if let Some(file) = &options.report {
        std::fs::write(file, outcome.figures.to_json(&outcome.violations))?;
    }
    Ok(u8::from(!sum_up(&outcome, &settings.folder)))
}

struct Arguments {
    engine: Engine,
    cuts: u64,
    seed: u64,
    report: Option<PathBuf>,
    folder: Option<PathBuf>,
    binary: Option<PathBuf>,
}

impl Arguments {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mut parsed = Self {
            engine: Engine::Postgres,
            cuts: 8,
            seed: since.as_micros() as u64,
            report: None,
            folder: None,
            binary: None,
        };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} needs a value", pair.concat()).into());
            };
            let number = || value.parse::<u64>().map_err(|_| format!("{name} {value}: no number"));
            match name.as_str() {
                "--store" => parsed.engine = Engine::parse(value)?,
                "--cuts" => parsed.cuts = number()?,
                "--seed" => parsed.seed = number()?,
                "--report" => parsed.report = Some(value.into()),
                "--folder" => parsed.folder = Some(value.into()),
                "--binary" => parsed.binary = Some(value.into()),
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
    fn began(&mut self, lateness: &str) {
        println!("net: packets are dropped by a filter; on bad links the others are {lateness}");
    }

    fn healed(&mut self, cut: &Cut, took: &[Took], figures: &Figures) {
        let (done, of) = (figures.converged.len(), self.of as usize);
        if is_late(took) {
            let lead = if self.bar { "\r" } else { "" };
            println!("{lead}net: cut {done}: {cut}: work went on too late: {}", times(took));
        }
        if self.bar {
            let filled = (done * BAR_WIDTH / of.max(1)).min(BAR_WIDTH);
            print!("\r[{}{}] {done}/{of}", "#".repeat(filled), " ".repeat(BAR_WIDTH - filled));
            if done == of {
                println!();
            }
            let _ = std::io::stdout().flush();
        } else if of <= LINE_EVERY {
            println!("net: cut {done}: {cut}: work went on after {}", times(took));
        } else if done.is_multiple_of(LINE_EVERY) || done == of {
            let slowest = figures.converged_ms(1.0);
            println!("net: {done}/{of} cuts, work went on within {slowest} ms");
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
        "net: {} cuts, {:.1} s of them, in {:.1} s; {} tasks sent, {} acknowledged ({} calls \
         unanswered), {} completions accepted, {} refused as late, {} leases lost",
        figures.converged.len(),
        figures.cut.as_secs_f64(),
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
    let mut shown: BTreeMap<Class, u64> = BTreeMap::new();
    for violation in violations {
        let count = shown.entry(violation.class).or_default();
        *count += 1;
        if *count <= SHOWN_MAX {
            eprintln!("net: {violation}");
        }
    }
    for (class, count) in shown {
        eprintln!("net: VIOLATION: {count} × {}", class.as_str());
    }
    let late = figures.converged_late();
    if late > 0 {
        eprintln!("net: VIOLATION: {late} cuts took longer than {CONVERGED_WITHIN:?} to heal");
    }
    let well = violations.is_empty() && late == 0;
    match well {
        true => println!("net: every promise was kept, and every cut healed in time"),
        false => println!("net: FAILED; logs are in {}", folder.display()),
    }
    well
}
