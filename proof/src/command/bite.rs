//! Do the tests bite? Puts bugs into a copy of the workspace, one at a time, and runs the ordinary
//! tests on each.
//!
//! `proof bite [--only BUG,BUG] [--area AREA,AREA] [--sample N] [--seed S] [--report FILE]
//! [--folder FOLDER] [--resume] [--list]`
//!
//! In the workspace's folder. The copy and what is compiled of it are kept in FOLDER, by default
//! below the target folder. `--report` writes JSON, and a table beside it, after each bug; what is in
//! them of other bugs stays, so that several runs can fill one report. With `--resume` bugs that
//! were caught, as FILE says, are not tried again.
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
            eprintln!("bite: could not be tried: {failure}");
            ExitCode::from(2)
        }
    }
}

fn test(arguments: impl Iterator<Item = String>) -> Result<Report, Failure> {
    let options = Arguments::parse(arguments)?;
    let workspace = std::env::current_dir()?;
    let whole = Catalogue::read(&workspace.join("proof/bite"))?;
    let of = whole.bugs.len();
    let mut catalogue = whole.clone();
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
        return Ok(Report::default());
    }
    if catalogue.bugs.is_empty() {
        return Err("there is no bug to try".into());
    }
    let known = options.known(&whole)?;
    let mut left = catalogue.clone();
    if options.resume {
        left.bugs.retain(|bug| !known.has_caught(bug));
    }
    let started = Instant::now();
    let tree = Tree::copy(&workspace, &options.folder.join("tree"))?;
    let (count, seed, commit) = (left.bugs.len(), options.seed, tree.commit());
    println!("bite: {count} of {of} bugs, seed {seed}, at {commit}");
    let cargo = Cargo::new(tree.folder(), &options.folder.join("build"));
    let mut clerk = Clerk {
        progress: Progress { done: 0, of: left.bugs.len(), bar: is_watched() },
        report: known,
        catalogue: &whole,
        file: options.report.as_deref(),
    };
    run(&left, &tree, &cargo, &mut clerk)?;
    let report = clerk.report.only(&catalogue);
    println!("\n{}", report.to_markdown());
    conclude(&report, started.elapsed());
    Ok(report)
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
        (0, survived) => println!("bite: FAILED: {survived} of {tried} bugs survived"),
        (unusable, survived) => println!(
            "bite: could not be tried: {unusable} of {tried} bugs are none; {caught} were caught, \
             {survived} survived"
        ),
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
    resume: bool,
    list: bool,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let (flags, arguments): (Vec<_>, Vec<_>) =
            arguments.partition(|name| ["--list", "--resume"].contains(&name.as_str()));
        let has = |flag: &str| flags.iter().any(|name| name == flag);
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
            resume: has("--resume"),
            list: has("--list"),
        })
    }

    /// What the report has that is there already.
    fn known(&self, catalogue: &Catalogue) -> Result<Report, Failure> {
        let empty = Report { of: catalogue.bugs.len(), ..Report::default() };
        let Some(file) = self.report.as_ref().filter(|file| file.exists()) else {
            return Ok(empty);
        };
        let report = Report::read(&std::fs::read_to_string(file)?, catalogue);
        report.map_err(|error| format!("{}: {error}", file.display()).into())
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

/// Tells how far it is, and keeps the report.
struct Clerk<'a> {
    progress: Progress,
    report: Report,
    catalogue: &'a Catalogue,
    file: Option<&'a Path>,
}

impl Observer for Clerk<'_> {
    fn passed(&mut self, suite: &str, took: Duration) {
        let seconds = took.as_secs_f64();
        self.progress.line(&format!("{suite} passes without a bug, {seconds:.1} s"));
    }

    fn begins(&mut self, bug: &Bug) {
        let Progress { done, of, bar: is_bar } = self.progress;
        if is_bar {
            print!("\r\x1b[K{} {done}/{of} {}", bar(done as u64, of as u64), bug.name);
            let _ = std::io::stdout().flush();
        }
    }

    fn tried(&mut self, trial: Trial) -> Result<(), Failure> {
        self.progress.done += 1;
        let Progress { done, of, .. } = self.progress;
        let ((suite, tests), took) = (told(&trial.verdict), trial.took.as_secs_f64());
        self.progress
            .line(&format!("{done}/{of} {}: {suite}: {tests} ({took:.1} s)", trial.bug.name));
        self.report.put(trial, self.catalogue);
        let Some(file) = self.file else { return Ok(()) };
        std::fs::write(file, self.report.to_json())?;
        std::fs::write(file.with_extension("md"), self.report.to_markdown())?;
        Ok(())
    }
}
