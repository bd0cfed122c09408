//! The faults test: a disk that fails, power that goes, a disk that is full, files that are damaged.
//!
//! `proof faults --server PATH [--operations N] [--points N|all] [--power N] [--damage N|all] [--seed S]
//! [--report FILE] [--folder FOLDER] [--processes N] [--disk failing|lying]`
//!
//! On a lying disk syncs do nothing, which no store survives: that shows that the test can fail.
//! Mounts a small file system, so it must be run by root. Ends with 0 if every promise was kept, with
//! 1 if one was not, and with 2 if the test itself could not run. Started as `proof faults child PART`
//! it is one of the processes that try points.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::json;
use tasklane_proof::faults::damage::{self, Damage};
use tasklane_proof::faults::disk_error::{self, Disk, Trace};
use tasklane_proof::faults::disk_full::{self, Full};
use tasklane_proof::faults::{Settings, Share, Tally, end_with_the_first_panic, fast_folder};
use tasklane_proof::options::Options;
use tasklane_proof::terminal::Progress;
use tasklane_proof::{Failure, exit};

const OPTIONS: [&str; 11] = [
    "--server",
    "--operations",
    "--points",
    "--power",
    "--damage",
    "--seed",
    "--report",
    "--folder",
    "--processes",
    "--disk",
    "--share",
];
/// Points of each part, unless it is said otherwise.
const POINTS: u64 = 400;

/// What is wrong is printed up to this many lines.
const SHOWN_MAX: usize = 20;

pub(crate) fn prove(arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut arguments = arguments.peekable();
    let outcome = if arguments.next_if(|first| first == "child").is_some() {
        end_with_the_first_panic();
        let part = arguments.next().unwrap_or_default();
        Arguments::parse(arguments).and_then(|options| serve(&part, &options)).map(|()| true)
    } else {
        Arguments::parse(arguments).and_then(|options| test(&options))
    };
    exit::code("faults", outcome)
}

fn serve(part: &str, options: &Arguments) -> Result<(), Failure> {
    let (Some(folder), Some(share)) = (&options.folder, options.share) else {
        return Err("a child needs --folder and --share".into());
    };
    let (seed, points) = (options.seed, options.points);
    let operations = options.operations;
    match part {
        "fail" => {
            let disk = if options.lies { Disk::Lying } else { Disk::Failing };
            disk_error::serve(&Trace { seed, operations, points, disk }, folder, share)
        }
        "power" => {
            let trace = Trace { seed, operations, points, disk: Disk::Powerless };
            disk_error::serve(&trace, folder, share)
        }
        "damage" => damage::serve(&Damage { seed, points }, folder, share),
        _ => Err(format!("{part} is no part of this test").into()),
    }
}

/// Runs the parts; whether every promise was kept.
fn test(options: &Arguments) -> Result<bool, Failure> {
    let began = Instant::now();
    let server = options.server.as_ref().ok_or("--server PATH is missing")?;
    let server = server.canonicalize().map_err(|e| format!("{}: {e}", server.display()))?;
    let parent = options.folder.clone().unwrap_or_else(fast_folder);
    let folder = tempfile::Builder::new().prefix("faults-").tempdir_in(parent)?;
    let settings = Settings {
        program: std::env::current_exe()?,
        folder: folder.path().to_owned(),
        seed: options.seed,
        operations: options.operations,
        points: options.points,
        power: options.power,
        damage: options.damage,
        lies: options.lies,
        processes: options.processes,
    };
    println!("faults: {} operations, seed {}", settings.operations, settings.seed);
    let failed = watched("a disk that fails", options.points, |told| settings.fail(told))?;
    conclude("a disk that fails", &failed);
    let power = watched("the power goes", Some(options.power), |told| settings.lose_power(told))?;
    conclude("the power goes", &power);
    let full = disk_full::run(&server, folder.path())?;
    conclude_full(&full);
    let damaged = watched("damaged files", options.damage, |told| settings.damage(told))?;
    conclude("damaged files", &damaged);
    let wrong = [&failed.wrong, &power.wrong, &full.wrong, &damaged.wrong]
        .map(Vec::len)
        .iter()
        .sum::<usize>();
    // After a call that fails the power goes too.
    let losses = failed.points() + power.points();
    if let Some(file) = &options.report {
        let report = json!({"seed": options.seed, "operations": options.operations,
            "disk_error": failed.classes, "disk_error_wrong": failed.wrong.len(),
            "power": power.classes, "power_wrong": power.wrong.len(), "losses_of_power": losses,
            "full_submitted": full.submitted, "full_refused": full.refused,
            "full_settled": full.settled, "full_wrong": full.wrong.len(),
            "room_after_ms": full.room_after.as_millis() as u64,
            "damage": damaged.classes, "damage_wrong": damaged.wrong.len(),
            "seconds": began.elapsed().as_secs()});
        std::fs::write(file, format!("{report:#}\n"))?;
    }
    let took = began.elapsed().as_secs_f64();
    if wrong == 0 {
        show_something(&failed, options.points)?;
        show_something(&power, Some(options.power))?;
        show_something(&damaged, options.damage)?;
        let points = losses + damaged.points();
        println!(
            "faults: every promise was kept: {points} points, at {losses} of which the power went, in {took:.1} s"
        );
        return Ok(true);
    }
    let kept = folder.keep();
    println!("faults: FAILED: {wrong} times, seed {}; see {}", options.seed, kept.display());
    Ok(false)
}

/// Points that were not tried, or did no harm, say nothing of what happens at them.
fn show_something(tally: &Tally, wanted: Option<u64>) -> Result<(), Failure> {
    let (points, idle) = (tally.points(), tally.of("not reached"));
    if points < wanted.unwrap_or(1) || (points > 0 && points == idle) {
        return Err(format!("{points} points were tried, {idle} of them in vain").into());
    }
    Ok(())
}

fn conclude(part: &str, tally: &Tally) {
    let classes: Vec<_> =
        tally.classes.iter().map(|(class, count)| format!("{count} {class}")).collect();
    println!("faults: {part}: {} points: {}", tally.points(), classes.join(", "));
    accuse(part, &tally.wrong);
}

fn conclude_full(full: &Full) {
    println!(
        "faults: a full disk: {} tasks taken, {} refused; {} results taken meanwhile; \
         submissions again {} ms after there was room",
        full.submitted,
        full.refused,
        full.settled,
        full.room_after.as_millis()
    );
    accuse("a full disk", &full.wrong);
}

fn accuse(part: &str, wrong: &[String]) {
    for wrong in wrong.iter().take(SHOWN_MAX) {
        eprintln!("faults: {part}: {wrong}");
    }
    if !wrong.is_empty() {
        println!("faults: {part}: {} things are wrong", wrong.len());
    }
}

/// Runs a part and shows how far it is. How many points all of them are, nobody knows before.
fn watched(
    part: &'static str,
    points: Option<u64>,
    run: impl FnOnce(&(dyn Fn(u64) + Sync)) -> Result<Tally, Failure>,
) -> Result<Tally, Failure> {
    let progress = Mutex::new(Progress::new("faults", part, points));
    let locked = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let tally = run(&|count| locked().show(count, ""));
    locked().end();
    tally
}

struct Arguments {
    server: Option<PathBuf>,
    operations: u64,
    points: Option<u64>,
    power: u64,
    damage: Option<u64>,
    seed: u64,
    report: Option<PathBuf>,
    folder: Option<PathBuf>,
    lies: bool,
    processes: u64,
    share: Option<Share>,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let options = Options::parse(arguments, &OPTIONS)?;
        let number_or_all = |name: &str| match options.text(name) {
            Some("all") => Ok(None),
            _ => options.number(name, POINTS).map(Some),
        };
        Ok(Self {
            server: options.path("--server"),
            operations: options.number("--operations", 400)?.max(1),
            points: number_or_all("--points")?,
            power: options.number("--power", POINTS)?,
            damage: number_or_all("--damage")?,
            seed: options.seed()?,
            report: options.path("--report"),
            folder: options.path("--folder"),
            lies: match options.text("--disk") {
                None | Some("failing") => false,
                Some("lying") => true,
                Some(other) => return Err(format!("--disk {other}: failing, lying").into()),
            },
            processes: options.number("--processes", 2)?.max(1),
            share: options.text("--share").map(share).transpose()?,
        })
    }
}

fn share(text: &str) -> Result<Share, Failure> {
    let numbers = text.split('/').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    match numbers.as_slice() {
        [number, of, skip] if *of > 0 => Ok(Share { number: *number, of: *of, skip: *skip }),
        _ => Err(format!("{text} is no share").into()),
    }
}
