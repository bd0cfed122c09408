//! Fuzzing: inputs that nobody would send, made of real ones.
//!
//! `proof fuzz [--target NAME] [--inputs N|TARGET=N,… | --seconds N] [--seed S] [--report FILE]
//! [--program FILE] [--corpus FOLDER] [--keep FOLDER] [--trace FILE]`
//!
//! Without a number it is the short form. `--seconds` are those of each target, and so are `--inputs`,
//! unless they are said for every one of them. A failing input is kept in a file; `--replay FILE --target
//! NAME` checks it again.
//!
//! Ends with 0 if every property held, with 1 if one did not, and with 2 if the test itself could
//! not run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tasklane_proof::fuzz::ground::Ground;
use tasklane_proof::fuzz::run::{Plan, Tally, Until, replay, run};
use tasklane_proof::fuzz::target::TARGETS;
use tasklane_proof::fuzz::watch::note_panics;
use tasklane_proof::fuzz::{Target, corpus};
use tasklane_proof::options::Options;
use tasklane_proof::terminal::Progress;
use tasklane_proof::{Failure, exit};

const OPTIONS: [&str; 10] = [
    "--target",
    "--inputs",
    "--seconds",
    "--seed",
    "--report",
    "--program",
    "--corpus",
    "--keep",
    "--trace",
    "--replay",
];

pub(crate) fn prove(arguments: impl Iterator<Item = String>) -> ExitCode {
    exit::code("fuzz", fuzz(arguments))
}

/// Whether every property held.
fn fuzz(arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let options = Arguments::parse(arguments)?;
    let targets: Vec<&Target> = match &options.target {
        None => TARGETS.iter().collect(),
        Some(name) => {
            let names = TARGETS.map(|target| target.name).join(", ");
            let found = TARGETS.iter().find(|target| target.name == name);
            vec![found.ok_or_else(|| format!("--target {name}: one of {names}"))?]
        }
    };
    note_panics();
    let mut ground = Ground::new(&options.program)?;
    if let Some(file) = &options.replay {
        let [target] = targets[..] else { return Err("--replay needs --target NAME".into()) };
        let tally = replay(target, &mut ground, &options.plan, &std::fs::read(file)?)?;
        return Ok(conclude(&[(target.name, tally)], &options));
    }
    println!("fuzz: {} targets, seed {}", targets.len(), options.plan.seed);
    let (mut tallies, mut silent) = (Vec::new(), Vec::new());
    for target in targets {
        let of = options.plan.until.inputs(target);
        let mut progress = Progress::new("fuzz", target.name, of);
        let tally = run(target, &mut ground, &options.plan, &mut |tally| {
            progress.show(tally.inputs, " inputs");
        })?;
        progress.end();
        summarize(target.name, &tally);
        if tally.found.is_empty() && !tally.is_telling() {
            silent.push(target.name);
        }
        tallies.push((target.name, tally));
    }
    if let Some(file) = &options.report {
        let seen = tallies.iter().map(|(name, tally)| ((*name).to_owned(), tally.to_json()));
        let report = json!({"seed": options.plan.seed, "targets": seen.collect::<serde_json::Map<String, Value>>()});
        std::fs::write(file, report.to_string())?;
    }
    let held = conclude(&tallies, &options);
    if held && !silent.is_empty() {
        return Err(format!("nothing taken, or nothing refused: {}", silent.join(", ")).into());
    }
    Ok(held)
}

struct Arguments {
    target: Option<String>,
    replay: Option<PathBuf>,
    report: Option<PathBuf>,
    program: PathBuf,
    plan: Plan,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let options = Options::parse(arguments, &OPTIONS)?;
        let until = match (options.has("--inputs"), options.has("--seconds")) {
            (false, false) => Until::Short,
            (true, _) => inputs(options.text("--inputs").unwrap_or_default())?,
            (false, true) => Until::Time(Duration::from_secs(options.number("--seconds", 0)?)),
        };
        let keep = || std::env::temp_dir().join("tasklane-fuzz");
        let plan = Plan {
            until,
            seed: options.seed()?,
            corpus: options.path("--corpus").unwrap_or_else(corpus::own),
            keep: options.path("--keep").unwrap_or_else(keep),
            trace: options.path("--trace"),
        };
        // Both are built into one folder.
        let beside = std::env::current_exe()?.with_file_name("tasklane");
        Ok(Self {
            target: options.text("--target").map(str::to_owned),
            replay: options.path("--replay"),
            report: options.path("--report"),
            program: options.path("--program").unwrap_or(beside),
            plan,
        })
    }
}

/// As many of each target, or so many of one and so many of another.
fn inputs(text: &str) -> Result<Until, Failure> {
    if let Ok(count) = text.parse() {
        return Ok(Until::Inputs(count));
    }
    let count = |name: &str| -> Option<u64> {
        let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(of, _)| *of == name)?.1.parse().ok()
    };
    let mut counts = BTreeMap::new();
    for Target { name, .. } in TARGETS {
        let count = count(name).ok_or_else(|| format!("--inputs {text}: none for {name}"))?;
        counts.insert(name, count);
    }
    if counts.len() != text.split(',').count() {
        return Err(format!("--inputs {text}: that is more than there is").into());
    }
    Ok(Until::Each(counts))
}

fn summarize(name: &str, tally: &Tally) {
    println!(
        "fuzz: {name:<7} {:>8} inputs in {:>5.1} s: {} taken, {} refused, {} waiting; slowest \
         {:.1} ms, {} MiB",
        tally.inputs,
        tally.took.as_secs_f64(),
        tally.taken,
        tally.refused,
        tally.waits,
        tally.slowest.as_secs_f64() * 1e3,
        tally.peak_bytes >> 20
    );
}

fn conclude(tallies: &[(&'static str, Tally)], options: &Arguments) -> bool {
    let mut held = true;
    for (name, tally) in tallies {
        for found in &tally.found {
            held = false;
            eprintln!("fuzz: {name}: {}", found.what);
            eprintln!("fuzz: again: proof fuzz --target {name} --replay {}", found.file.display());
        }
    }
    let inputs: u64 = tallies.iter().map(|(_, tally)| tally.inputs).sum();
    let seed = options.plan.seed;
    match held {
        true => println!("fuzz: {inputs} inputs: no panic, none over 100 ms, every property held"),
        false => println!("fuzz: FAILED after {inputs} inputs, seed {seed}"),
    }
    held
}
