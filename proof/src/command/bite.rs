//! Do the tests bite? Puts bugs into a copy of the workspace, one at a time, and runs the ordinary
//! tests on each.
//!
//! `proof bite [--only BUG,BUG] [--area AREA,AREA] [--sample N] [--seed S] [--report FILE]
//! [--folder FOLDER] [--list]`
//!
//! In the workspace's folder. The copy and what is compiled of it are kept in FOLDER, by default
//! below the target folder. `--report` writes JSON, and a table beside it.
//!
//! Ends with 0 if every bug was caught, with 1 if one survived, and with 2 if the test itself could
//! not run: also if the catalogue is stale, or if the tests fail without a bug.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tasklane_proof::Failure;
use tasklane_proof::bite::cargo::Cargo;
use tasklane_proof::bite::catalogue::{Bug, Catalogue};
use tasklane_proof::bite::report::{Report, told};
use tasklane_proof::bite::tree::Tree;
use tasklane_proof::bite::trial::{Observer, Trial, Verdict, run};
use tasklane_proof::options::Options;
use tasklane_proof::terminal::bar;

const OPTIONS: [&str; 6] = ["--only", "--area", "--sample", "--seed", "--report", "--folder"];

pub(crate) fn prove(arguments: impl Iterator<Item = String>) -> ExitCode {
    match test(arguments) {
        Ok(report) if report.unusable() > 0 => ExitCode::from(2),
        Ok(report) if report.survived() > 0 => ExitCode::from(1),
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bite: {failure}");
            ExitCode::from(2)
        }
    }
}

fn test(arguments: impl Iterator<Item = String>) -> Result<Report, Failure> {
    let options = Arguments::parse(arguments)?;
    let workspace = std::env::current_dir()?;
    let mut catalogue = Catalogue::read(&workspace.join("proof/bite"))?;
    let of = catalogue.bugs.len();
    if !options.areas.is_empty() {
        catalogue.keep_areas(&options.areas)?;
    }
    if !options.only.is_empty() {
        catalogue.keep_named(&options.only)?;
    }
    catalogue.keep_sample(options.sample, options.seed);
    if options.list {
        for bug in &catalogue.bugs {
            println!("{:<36} {:<10} {}", bug.name, bug.area, bug.class);
        }
        return Ok(Report { seed: options.seed, of, trials: Vec::new() });
    }
    if catalogue.bugs.is_empty() {
        return Err("there is no bug to try".into());
    }
    println!("bite: {} of {of} bugs, seed {}", catalogue.bugs.len(), options.seed);
    let started = Instant::now();
    let tree = Tree::copy(&workspace, &options.folder.join("tree"))?;
    let cargo = Cargo::new(tree.folder(), &options.folder.join("build"));
    let mut progress = Progress { done: 0, of: catalogue.bugs.len(), bar: is_watched() };
    let trials = run(&catalogue, &tree, &cargo, &mut progress)?;
    let report = Report { seed: options.seed, of, trials };
    if let Some(file) = &options.report {
        write(&report, file)?;
    }
    println!("\n{}", report.to_markdown());
    conclude(&report, started.elapsed());
    Ok(report)
}

fn write(report: &Report, file: &Path) -> Result<(), Failure> {
    std::fs::write(file, report.to_json())?;
    std::fs::write(file.with_extension("md"), report.to_markdown())?;
    Ok(())
}

fn conclude(report: &Report, took: Duration) {
    for trial in &report.trials {
        match &trial.verdict {
            Verdict::Caught(_) => {}
            Verdict::Survived => eprintln!("bite: {} survived: {}", trial.bug.name, trial.bug.why),
            Verdict::Unusable(why) => eprintln!("bite: {} is no bug: {why}", trial.bug.name),
        }
    }
    let (caught, tried) = (report.caught(), report.trials.len());
    let minutes = took.as_secs_f64() / 60.0;
    match (report.unusable(), report.survived()) {
        (0, 0) => println!("bite: all {tried} bugs were caught, in {minutes:.1} min"),
        (0, survived) => println!("bite: {survived} of {tried} bugs survived"),
        (unusable, _) => {
            println!("bite: {unusable} of {tried} bugs are none; {caught} were caught")
        }
    }
}

fn is_watched() -> bool {
    std::io::stdout().is_terminal()
}

struct Arguments {
    only: Vec<String>,
    areas: Vec<String>,
    sample: usize,
    seed: u64,
    report: Option<PathBuf>,
    folder: PathBuf,
    list: bool,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let (lists, arguments): (Vec<_>, Vec<_>) = arguments.partition(|name| name == "--list");
        let options = Options::parse(arguments.into_iter(), &OPTIONS)?;
        let names = |name: &str| -> Vec<String> {
            let names = options.text(name).into_iter().flat_map(|text| text.split(','));
            names.map(str::to_owned).collect()
        };
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        Ok(Self {
            only: names("--only"),
            areas: names("--area"),
            sample: options.number("--sample", u64::MAX)? as usize,
            seed: options.seed()?,
            report: options.path("--report"),
            folder: match options.path("--folder") {
                Some(folder) => std::path::absolute(folder)?,
                None => std::env::current_dir()?.join(target).join("bite"),
            },
            list: !lists.is_empty(),
        })
    }
}

/// A bar on a terminal, and a line for each bug that was tried.
struct Progress {
    done: usize,
    of: usize,
    bar: bool,
}

impl Progress {
    fn line(&self, text: &str) {
        let clear = if self.bar { "\r\x1b[K" } else { "" };
        println!("{clear}bite: {text}");
    }
}

impl Observer for Progress {
    fn passed(&mut self, suite: &str, took: Duration) {
        self.line(&format!("{suite} passes without a bug, {:.1} s", took.as_secs_f64()));
    }

    fn begins(&mut self, bug: &Bug) {
        if self.bar {
            let bar = bar(self.done as u64, self.of as u64);
            print!("\r\x1b[K{bar} {}/{} {}", self.done, self.of, bug.name);
            let _ = std::io::stdout().flush();
        }
    }

    fn tried(&mut self, trial: &Trial) {
        self.done += 1;
        let (by, tests) = told(&trial.verdict);
        let (done, of, took) = (self.done, self.of, trial.took.as_secs_f64());
        self.line(&format!("{done}/{of} {}: {by} ({tests} tests, {took:.1} s)", trial.bug.name));
    }
}
