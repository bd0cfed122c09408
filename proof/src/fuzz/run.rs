//! The loop: inputs are made, checked, timed; what breaks something is made small and kept.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ground::Ground;
use super::mutate::Mutator;
use super::watch::{self, Watch};
use super::{Memory, Seen, TIME_MAX, Target, Verdict, Wrong, corpus};
use crate::Failure;

/// A slow input is tried so often: what is slow each time is slow itself, not the machine.
const TRIES: usize = 6;
/// Inputs between two looks at memory.
const BLOCK: u64 = 256;
/// What this process, with inputs, corpus and stores, or a server may need at most.
const MEMORY_MAX: u64 = 512 * 1024 * 1024;
/// Failures after which a target is given up.
const FAILURES_MAX: usize = 3;
/// Attempts to make a failing input smaller.
const SHRINKS_MAX: usize = 300;
/// How long they may take.
const SHRINK_WITHIN: Duration = Duration::from_secs(5);

/// How long to go on.
#[derive(Debug, Clone)]
pub enum Until {
    /// As many inputs as the target has in its short form.
    Short,
    /// So many inputs of each target.
    Inputs(u64),
    /// So many of this one, by its name.
    Each(BTreeMap<&'static str, u64>),
    /// So long.
    Time(Duration),
}

impl Until {
    /// How many inputs of this target that is, where it is a number.
    pub fn inputs(&self, target: &Target) -> Option<u64> {
        match self {
            Self::Short => Some(target.short),
            Self::Inputs(count) => Some(*count),
            Self::Each(counts) => counts.get(target.name).copied(),
            Self::Time(_) => None,
        }
    }

    fn is_over(&self, target: &Target, number: u64, began: Instant) -> bool {
        match self {
            Self::Time(span) => began.elapsed() >= *span,
            _ => number >= self.inputs(target).unwrap_or(0),
        }
    }
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How long.
    pub until: Until,
    /// All inputs follow from it.
    pub seed: u64,
    /// Where the corpus is.
    pub corpus: PathBuf,
    /// Where failing inputs go.
    pub keep: PathBuf,
    /// Each input is written there before it is checked, for one that ends the process.
    pub trace: Option<PathBuf>,
}

/// An input that broke something.
#[derive(Debug)]
pub struct Found {
    /// What.
    pub what: String,
    /// Where it is kept.
    pub file: PathBuf,
}

/// What a target has seen.
#[derive(Debug, Default)]
pub struct Tally {
    /// Inputs.
    pub inputs: u64,
    /// By what became of them.
    pub taken: u64,
    /// By what became of them.
    pub refused: u64,
    /// By what became of them.
    pub waits: u64,
    /// The longest that any took.
    pub slowest: Duration,
    /// The most memory.
    pub peak_bytes: u64,
    /// How long it all took.
    pub took: Duration,
    /// What broke something.
    pub found: Vec<Found>,
}

impl Tally {
    /// For a report.
    pub fn to_json(&self) -> Value {
        let found: Vec<_> = self.found.iter().map(|found| &found.what).collect();
        json!({"inputs": self.inputs, "taken": self.taken, "refused": self.refused,
            "waits": self.waits, "slowest_ms": self.slowest.as_secs_f64() * 1e3,
            "peak_bytes": self.peak_bytes, "seconds": self.took.as_secs_f64(), "found": found})
    }

    /// Whether it saw what is taken and what is refused: otherwise it has shown little.
    pub fn is_telling(&self) -> bool {
        self.inputs < 100 || (self.taken > 0 && self.refused > 0)
    }
}

/// Runs one target; `observe` is told of each input.
pub fn run(
    target: &Target,
    ground: &mut Ground,
    plan: &Plan,
    observe: &mut dyn FnMut(&Tally),
) -> Result<Tally, Failure> {
    let mut seeds = corpus::read(&plan.corpus, target.name)?;
    let known = seeds.len() as u64;
    let made = (target.seeds)(ground)?;
    // Made ones are looked at as they are too, but not all of them where there is time for few.
    let plain = known + (made.len() as u64).min(target.short / 4);
    seeds.extend(made);
    let Target { form, words, bytes_max, .. } = *target;
    let mutator = Mutator { seeds: &seeds, form, words, bytes_max };
    let mut runner = Runner::new(target, ground, plan);
    let began = Instant::now();
    for number in 0.. {
        let is_over = plan.until.is_over(target, number, began);
        // What once broke something is looked at each time.
        if (is_over && number >= known) || runner.tally.found.len() >= FAILURES_MAX {
            break;
        }
        let input = match seeds.get(number as usize).filter(|_| number < plain) {
            Some(seed) => seed.clone(),
            None => mutator.input(plan.seed, number),
        };
        runner.input(&input, number)?;
        runner.tally.took = began.elapsed();
        observe(&runner.tally);
    }
    runner.look_at_memory(0)?;
    Ok(runner.tally)
}

/// Checks one input that was kept.
pub fn replay(
    target: &Target,
    ground: &mut Ground,
    plan: &Plan,
    input: &[u8],
) -> Result<Tally, Failure> {
    let mut runner = Runner::new(target, ground, plan);
    runner.input(input, 0)?;
    runner.look_at_memory(0)?;
    Ok(runner.tally)
}

struct Runner<'r> {
    target: &'r Target,
    ground: &'r mut Ground,
    plan: &'r Plan,
    tally: Tally,
    watch: Arc<Watch>,
    known: BTreeMap<String, u64>,
    block: Vec<Vec<u8>>,
}

impl<'r> Runner<'r> {
    fn new(target: &'r Target, ground: &'r mut Ground, plan: &'r Plan) -> Self {
        ground.clear();
        let watch = Watch::begin(plan.keep.join(format!("{}-hangs", target.name)));
        let (tally, known, block) = (Tally::default(), BTreeMap::new(), Vec::new());
        Self { target, ground, plan, tally, watch, known, block }
    }

    fn input(&mut self, input: &[u8], number: u64) -> Result<(), Failure> {
        if let Some(file) = &self.plan.trace {
            std::fs::write(file, input)?;
        }
        self.tally.inputs += 1;
        match self.timed(input)? {
            Ok(Seen::Taken) => self.tally.taken += 1,
            Ok(Seen::Refused) => self.tally.refused += 1,
            Ok(Seen::Waits) => self.tally.waits += 1,
            Err(what) => self.found(input, what, number)?,
        }
        self.block.push(input.to_vec());
        if self.block.len() as u64 >= BLOCK {
            self.look_at_memory(number)?;
        }
        Ok(())
    }

    /// What became of an input, once it is known whether it is slow.
    fn timed(&mut self, input: &[u8]) -> Result<Result<Seen, String>, Failure> {
        let mut fastest = Duration::MAX;
        for _ in 0..TRIES {
            let (verdict, took) = self.once(input);
            let seen = match verdict {
                Ok(seen) => seen,
                Err(Wrong::Broken(what)) => return Ok(Err(what)),
                Err(Wrong::Stuck(failure)) => return Err(failure),
            };
            // A wait that was asked for is no time that was taken.
            if seen == Seen::Waits {
                return Ok(Ok(seen));
            }
            fastest = fastest.min(took);
            if fastest <= TIME_MAX {
                self.tally.slowest = self.tally.slowest.max(fastest);
                return Ok(Ok(seen));
            }
        }
        Ok(Err(format!("takes too long: {} ms each time", fastest.as_millis())))
    }

    fn once(&mut self, input: &[u8]) -> (Verdict, Duration) {
        self.watch.set(Some(input));
        let began = Instant::now();
        let check = self.target.check;
        let ended = panic::catch_unwind(AssertUnwindSafe(|| check(self.ground, input)));
        let took = self.ground.answered_within().unwrap_or(began.elapsed());
        self.watch.set(None);
        match (watch::panicked(), ended) {
            (Some(what), _) => (Err(Wrong::Broken(what)), took),
            (None, Ok(verdict)) => (verdict, took),
            (None, Err(_)) => (Err(Wrong::Broken("a panic".into())), took),
        }
    }

    /// Looks at the peak of a block; one by one where it is too high.
    fn look_at_memory(&mut self, number: u64) -> Result<(), Failure> {
        let block = std::mem::take(&mut self.block);
        let whose = self.target.memory;
        let peak = self.ground.peak_bytes(whose);
        self.tally.peak_bytes = self.tally.peak_bytes.max(peak);
        if peak <= MEMORY_MAX || whose == Memory::Passing {
            return Ok(());
        }
        self.ground.clear();
        for input in &block {
            let _ = self.once(input);
            let peak = self.ground.peak_bytes(whose);
            if peak > MEMORY_MAX {
                return self.found(
                    input,
                    format!("needs too much memory: {} MiB", peak >> 20),
                    number,
                );
            }
        }
        let last = block.last().cloned().unwrap_or_default();
        self.found(
            &last,
            format!("need too much memory: {} MiB for {}", peak >> 20, block.len()),
            number,
        )
    }

    /// Keeps a failing input, smaller if it can be; once for each thing that it breaks.
    fn found(&mut self, input: &[u8], what: String, number: u64) -> Result<(), Failure> {
        let class = class(&what).to_owned();
        let times = self.known.entry(class.clone()).or_default();
        *times += 1;
        self.ground.clear();
        if *times > 1 {
            return Ok(());
        }
        let small = self.shrunk(input, &class);
        let name = format!("{}-{}-{number}", self.target.name, self.plan.seed);
        let file = self.plan.keep.join(name);
        std::fs::create_dir_all(&self.plan.keep)?;
        std::fs::write(&file, &small)?;
        self.tally.found.push(Found { what, file });
        Ok(())
    }

    /// As little of an input as breaks the same thing.
    fn shrunk(&mut self, input: &[u8], class: &str) -> Vec<u8> {
        let (mut small, mut tries) = (input.to_vec(), 0);
        let (mut piece, began) = (small.len() / 2, Instant::now());
        while piece > 0 {
            let mut at = 0;
            while at < small.len() && tries < SHRINKS_MAX && began.elapsed() < SHRINK_WITHIN {
                tries += 1;
                let mut fewer = small.clone();
                fewer.drain(at..(at + piece).min(small.len()));
                match self.once(&fewer).0 {
                    Err(Wrong::Broken(what)) if self::class(&what) == class => small = fewer,
                    _ => at += piece,
                }
            }
            piece /= 2;
        }
        small
    }
}

/// What a failure is about, without its numbers.
fn class(what: &str) -> &str {
    what.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::target::TARGETS;

    /// Those that need no server, in a build that checks its arithmetic too.
    #[test]
    fn what_needs_no_server_holds_here_too() {
        let keep = tempfile::tempdir().unwrap();
        let plan = Plan {
            until: Until::Inputs(3_000),
            seed: 1,
            corpus: corpus::own(),
            keep: keep.path().to_owned(),
            trace: None,
        };
        let mut ground = Ground::new(std::path::Path::new("no server")).unwrap();
        for target in TARGETS.iter().filter(|target| ["token", "record"].contains(&target.name)) {
            let tally = run(target, &mut ground, &plan, &mut |_| {}).unwrap();
            assert!(tally.found.is_empty(), "{}: {:?}", target.name, tally.found);
            assert!(tally.is_telling(), "{}: {tally:?}", target.name);
        }
    }

    #[test]
    fn what_breaks_something_is_found_made_small_and_kept() {
        let keep = tempfile::tempdir().unwrap();
        let until = Until::Inputs(2_000);
        let plan = Plan {
            until,
            seed: 1,
            corpus: corpus::own(),
            keep: keep.path().to_owned(),
            trace: None,
        };
        let target = Target {
            name: "sample",
            form: crate::fuzz::Form::Bytes,
            words: &["broken"],
            bytes_max: 1_000,
            short: 1,
            memory: Memory::Own,
            seeds: |_| Ok(vec![b"a long text, with something at its end".to_vec()]),
            check: |_, input| {
                assert!(!input.contains(&0xff), "a panic");
                match input.windows(6).any(|part| part == b"broken") {
                    true => super::super::broken("a word: it is there"),
                    false => Ok(Seen::Taken),
                }
            },
        };
        let mut ground = Ground::new(std::path::Path::new("no server")).unwrap();
        let tally = run(&target, &mut ground, &plan, &mut |_| {}).unwrap();
        let kept: Vec<_> =
            tally.found.iter().map(|found| std::fs::read(&found.file).unwrap()).collect();
        assert_eq!(kept.len(), 2, "{:?}", tally.found);
        assert!(kept.contains(&b"broken".to_vec()) && kept.contains(&vec![0xff]), "{kept:?}");
    }
}
