//! Parts one and two: the disk fails, and the power goes.
//!
//! A long sequence of operations is cut into segments; between two of them the store is closed, or
//! left as a kill leaves it. Each segment is run once to count its calls to the disk, opening and
//! closing included, and then once for every call and every way in which it can fail, from the files
//! with which the segment began. After each of these runs the power goes: what was not synced is
//! lost in part or whole. Then the store is opened on a disk that works, and judged by the history.
//!
//! In part two nothing fails before the power goes, at calls that are chosen by chance.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tasklane_sqlite::{Options, SqliteStore};
use tasklane_store::conformance::{ManualClock, block_on};
use tasklane_store::{Store, StoreError};

use super::crew::{Desk, Share};
use super::files::Files;
use super::shim::{Error, Fault, Seen, Shim};
use super::world::{Burst, World};
use crate::Failure;
use crate::checker::{self, Class};
use crate::content::{self, Mark};
use crate::history::Operation;

/// Operations between two openings of the store.
pub(super) const SEGMENT_STEPS: u64 = 20;
/// Segments of one store; the next ones begin with an empty store, so that looks stay short.
const CHAPTER_SEGMENTS: u64 = 10;
/// Steps after the first failure, before room is made on a disk that was full.
const FULL_STEPS: u64 = 3;
/// Steps after which a store that has stopped has shown that it does not go on.
const STOPPED_STEPS: u64 = 4;
/// Every so many points what is left is worked off, too.
const DRAIN_EVERY: u64 = 8;

/// Chapters of which one has a flood, in which many calls to the disk are alike: of these, every
/// so many fail.
const FLOOD_CHAPTERS: u64 = 25;
const FLOOD_STRIDE: usize = 16;
/// Room that the store keeps for settles.
const SPARE_BYTES: u64 = 65_536;

/// Which points to try.
#[derive(Debug, Clone, Copy)]
pub struct Trace {
    /// What everything follows from.
    pub seed: u64,
    /// Operations in all.
    pub operations: u64,
    /// Points in all, by chance; every point if there is none.
    pub points: Option<u64>,
    /// What happens at a point.
    pub disk: Disk,
}

/// What becomes of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// A call fails, in each of its ways.
    Failing,
    /// It only says that it syncs: this must not go well.
    Lying,
    /// Its power goes.
    Powerless,
}

/// The process that tries points; it has the shim in it.
pub fn serve(trace: &Trace, folder: &Path, share: Share) -> Result<(), Failure> {
    let mut bench = Bench { shim: Shim::here()?, store: folder.join("store") };
    let mut desk = Desk::new(share);
    let chapters = trace.operations.div_ceil(SEGMENT_STEPS * CHAPTER_SEGMENTS).max(1);
    let segments = trace.operations.div_ceil(SEGMENT_STEPS).max(1);
    let wanted = trace.points.map(|points| points.div_ceil(segments));
    for chapter in 0..chapters {
        let mut world = World::new(trace.seed.wrapping_add(chapter));
        let mut files = Files::default();
        for number in 0..CHAPTER_SEGMENTS.min(segments - chapter * CHAPTER_SEGMENTS) {
            let segment = Segment { begin: world.clone(), files, chapter, number };
            let (calls, after) = bench.count(&segment, &mut world)?;
            files = after;
            for point in segment.points(trace.disk, &calls, wanted) {
                if desk.takes_next() {
                    let tried = bench.try_point(&segment, &point)?;
                    let name = format!("chapter {chapter}, segment {number}, {point:?}: ");
                    let wrong: Vec<_> = tried.wrong.iter().map(|w| format!("{name}{w}")).collect();
                    desk.tell(&tried.class(), &wrong)?;
                }
            }
        }
    }
    Ok(desk.close()?)
}

/// Some steps between an opening and a closing.
struct Segment {
    begin: World,
    files: Files,
    chapter: u64,
    number: u64,
}

impl Segment {
    /// All points of a segment that makes these calls, or as many as are wanted.
    fn points(&self, disk: Disk, calls: &str, wanted: Option<u64>) -> Vec<Fault> {
        match disk {
            Disk::Failing => self.failing(calls, wanted),
            Disk::Lying => {
                let failing = self.failing(calls, wanted).into_iter();
                failing.map(|fault| Fault { error: Error::Lie, ..fault }).collect()
            }
            Disk::Powerless => {
                let calls = calls.len().max(1) as u64;
                (0..wanted.unwrap_or(calls)).map(|number| self.power_goes(number, calls)).collect()
            }
        }
    }

    /// The power goes at one of so many calls.
    fn power_goes(&self, number: u64, calls: u64) -> Fault {
        let weather = self.begin.draw(number);
        let at = 1 + ((weather >> 32) % calls) as usize;
        Fault { at, error: Error::Power, lasting: true, weather }
    }

    /// All calls that fail, in all ways, or as many as are wanted.
    fn failing(&self, calls: &str, wanted: Option<u64>) -> Vec<Fault> {
        let every: Vec<Fault> = (1..)
            .zip(calls.chars())
            .flat_map(|(at, letter)| Error::ALL.map(|error| (at, letter, error)))
            // Only a write can be short.
            .filter(|(_, letter, error)| *error != Error::Short || "dlio".contains(*letter))
            .map(|(at, _, error)| {
                let lasting = self.begin.draw(at as u64 * 3 + error as u64).is_multiple_of(2);
                Fault { at, error, lasting, weather: self.begin.draw(at as u64) }
            })
            .collect();
        let Some(wanted) = wanted else {
            let stride = if self.burst() == Some(Burst::Flood) { FLOOD_STRIDE } else { 1 };
            return every.into_iter().step_by(stride).collect();
        };
        let chosen = |number| self.begin.draw(number) as usize % every.len().max(1);
        (0..wanted).filter_map(|number| every.get(chosen(number)).copied()).collect()
    }
}

/// What became of a point.
#[derive(Debug, Default)]
struct Tried {
    fired: Option<char>,
    error: Option<Error>,
    opened: bool,
    /// It happened after the last step, when the store was closed.
    closing: bool,
    refused: bool,
    stopped: bool,
    wrong: Vec<String>,
}

impl Tried {
    /// How it ended, in a word or two.
    fn class(&self) -> String {
        let class = match () {
            () if self.fired.is_none() => "not reached",
            () if !self.opened => "not opened",
            () if self.stopped => "stopped",
            () if self.refused => "refused, went on",
            () if self.closing => "while closing",
            () => "absorbed",
        };
        class.to_owned()
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.wrong.push(what.into());
    }
}

/// Where segments are run.
struct Bench {
    shim: Shim,
    store: PathBuf,
}

impl Bench {
    /// Runs a segment on a disk that works: its calls to the disk, and the files that it leaves.
    fn count(&mut self, segment: &Segment, world: &mut World) -> Result<(String, Files), Failure> {
        segment.files.write(&self.store)?;
        self.shim.arm(&Fault::NONE)?;
        let clock = world.clock();
        let store = open(&self.store, clock.clone())?;
        for step in 0..SEGMENT_STEPS {
            let mut stepped = world.step(&store, &clock);
            if let Some(burst) = segment.burst_at(step) {
                stepped.errors.extend(world.burst(&store, burst)?.errors);
            }
            if let Some(error) = stepped.errors.first() {
                return Err(format!("without a fault: {error}").into());
            }
        }
        let killed = Files::read(&self.store)?;
        drop(store);
        let calls = self.shim.seen()?.calls;
        self.shim.lose_power(0)?;
        // Every other segment begins with a log to recover.
        let files =
            if segment.number.is_multiple_of(2) { killed } else { Files::read(&self.store)? };
        Ok((calls, files))
    }

    fn try_point(&mut self, segment: &Segment, fault: &Fault) -> Result<Tried, Failure> {
        let mut world = segment.begin.clone();
        let mut tried = Tried { error: Some(fault.error), ..Tried::default() };
        segment.files.write(&self.store)?;
        self.shim.arm(fault)?;
        let clock = world.clock();
        match open(&self.store, clock.clone()) {
            Ok(store) => {
                tried.opened = true;
                self.live(segment, fault, &mut world, (&store, &clock), &mut tried)?;
                tried.closing = self.shim.seen()?.fired.is_none();
            }
            Err(StoreError::Corrupt(text)) => tried.wrong(format!("called damaged: {text}")),
            Err(_) => {}
        }
        let seen = self.shim.seen()?;
        tried.fired = seen.fired;
        if seen.late_syncs > 0 {
            tried.wrong(format!("{} syncs came after one that had failed", seen.late_syncs));
        }
        let seed = fault.weather;
        self.shim.lose_power(seed)?;
        let left = Files::read(&self.store)?;
        if let Err(failure) = self.judge(world, seed.is_multiple_of(DRAIN_EVERY), &mut tried) {
            tried.wrong(format!("it cannot be read any more: {failure}"));
        }
        if !tried.wrong.is_empty() {
            // To be looked at, as it was before it was opened again.
            left.write(&self.store.with_file_name(format!("wrong-{seed}")))?;
        }
        Ok(tried)
    }

    /// The steps of a segment, with a fault in it.
    fn live(
        &self,
        segment: &Segment,
        fault: &Fault,
        world: &mut World,
        (store, clock): (&Arc<dyn Store>, &ManualClock),
        tried: &mut Tried,
    ) -> Result<(), Failure> {
        let (mut since_failure, mut is_armed) = (0, true);
        for step in 0..SEGMENT_STEPS {
            let mut stepped = world.step(store, clock);
            if let Some(burst) = segment.burst_at(step) {
                let burst = world.burst(store, burst)?;
                let failed = !burst.errors.is_empty();
                stepped.acknowledged = burst.acknowledged || (stepped.acknowledged && !failed);
                stepped.errors.extend(burst.errors);
            }
            let seen = self.shim.seen()?;
            if seen.log_is_unsynced() && stepped.acknowledged {
                tried.wrong(format!("step {step} was acknowledged after a sync that failed"));
            }
            if tried.stopped && stepped.acknowledged {
                tried.wrong(format!("step {step} was acknowledged by a store that had stopped"));
            }
            let had_stopped = tried.stopped;
            for error in &stepped.errors {
                tried.hear(step, error, &seen, is_armed, had_stopped);
            }
            since_failure += u64::from(tried.stopped || tried.refused);
            if fault.error.is_full() && since_failure == FULL_STEPS && is_armed {
                // Room is made.
                self.shim.disarm()?;
                is_armed = false;
            }
            if tried.stopped && since_failure >= STOPPED_STEPS {
                break;
            }
        }
        Ok(())
    }

    /// Looks at what is left, on a disk that works.
    fn judge(&self, mut world: World, drain: bool, tried: &mut Tried) -> Result<(), Failure> {
        let clock = world.clock();
        let store = match open(&self.store, clock.clone()) {
            Ok(store) => store,
            Err(error) => {
                tried.wrong(format!("it does not open any more: {error}"));
                return Ok(());
            }
        };
        let findings = block_on(store.check())?;
        tried.wrong.extend(findings.iter().map(|f| format!("check: {}: {}", f.place, f.problem)));
        if drain {
            match world.drain(&store, &clock) {
                Ok(true) => {}
                Ok(false) => tried.wrong("it was not drained"),
                Err(error) => tried.wrong(format!("the drain failed: {error}")),
            }
        }
        let content = content::read(&store)?;
        let verdict = checker::check(&world.history, &content);
        let counted = |class: Class| drain || class != Class::Stuck;
        let broken = verdict.violations.iter().filter(|violation| counted(violation.class));
        tried.wrong.extend(broken.map(ToString::to_string));
        // Without power there is nobody to whom a refusal could be said.
        let heard = tried.error != Some(Error::Power);
        for denied in world.denied.iter().filter(|_| heard) {
            if was_done(denied, &content) {
                tried.wrong(format!("said not to be written, but it was: {denied}"));
            }
        }
        Ok(())
    }
}

impl Segment {
    /// The last segment of a chapter has a burst.
    fn burst(&self) -> Option<Burst> {
        let flood = self.chapter % FLOOD_CHAPTERS == 1;
        let burst = if flood { Burst::Flood } else { Burst::Many };
        (self.number + 1 == CHAPTER_SEGMENTS).then_some(burst)
    }

    /// It is in the middle.
    fn burst_at(&self, step: u64) -> Option<Burst> {
        self.burst().filter(|_| step == SEGMENT_STEPS / 2)
    }
}

impl Tried {
    /// What an error means, and whether it is one that may be given. Of calls that are under way together
    /// one may find the disk full while the sync of another fails.
    fn hear(
        &mut self,
        step: u64,
        error: &StoreError,
        seen: &Seen,
        is_armed: bool,
        had_stopped: bool,
    ) {
        let is_write = seen.fired.is_some_and(|letter| "dl".contains(letter));
        match error {
            StoreError::Full(_) if !had_stopped => self.refused = true,
            StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_) => self.stopped = true,
            other => self.wrong(format!("step {step} got another error: {other}")),
        }
        if seen.fired.is_none() {
            self.wrong(format!("step {step} failed without a fault: {error}"));
        }
        if is_write && self.error.is_some_and(Error::is_full) && self.stopped {
            self.wrong(format!("step {step}: a full disk stopped the store: {error}"));
        }
        if !is_armed && !self.stopped {
            self.wrong(format!("step {step}: there is room, but: {error}"));
        }
    }
}

/// Opens a store that keeps a little room, so that it is not the room that takes all the time.
pub(super) fn open(folder: &Path, clock: Arc<ManualClock>) -> Result<Arc<dyn Store>, StoreError> {
    let options = Options { clock, spare_bytes: SPARE_BYTES, ..Options::default() };
    Ok(Arc::new(SqliteStore::open(folder, &options)?))
}

fn was_done(operation: &Operation, content: &[content::Stored]) -> bool {
    match operation {
        Operation::Submit(plans) => {
            plans.iter().any(|plan| content.iter().any(|stored| stored.id == plan.id))
        }
        Operation::Settle(hold, _) => content.iter().any(|stored| {
            stored.id == hold.task
                && stored.marks.iter().any(|mark| match mark {
                    Mark::Left { token } | Mark::Ended { token, .. } => *token == Some(hold.token),
                    _ => false,
                })
        }),
        _ => false,
    }
}
