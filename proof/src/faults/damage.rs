//! Part three: what was written is no longer what is read.
//!
//! A small store with tasks in all kinds of states, closed, and the same store as a kill leaves it,
//! with a log. Their files are cut at every byte, and a bit of every byte is turned. Then the store is
//! opened, checked, read and worked off. It may recover, refuse or find what is wrong; it must neither
//! panic nor hang. What nobody notices is counted, by what it harms.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tasklane_core::SeededRandom;
use tasklane_store::conformance::block_on;
use tasklane_store::{AuditFrom, Cursor, Filter, Query, Store, StoreError, StoredTask, Trail};

use super::crew::{Desk, Share};
use super::disk_error::open;
use super::files::Files;
use super::world::World;
use crate::Failure;

/// Steps that make the store: some fifty tasks.
const STEPS: u64 = 60;
/// Steps whose writes are in the log of the one that was killed.
const LOGGED_STEPS: u64 = 6;
/// The parts of a log.
const LOG_HEADER_BYTES: usize = 32;
const FRAME_BYTES: usize = 24 + 4_096;
/// Tasks and events of one page.
const PAGE: usize = 1_000;

/// Which points to try.
#[derive(Debug, Clone, Copy)]
pub struct Damage {
    /// What everything follows from.
    pub seed: u64,
    /// Points in all, by chance; every point if there is none.
    pub points: Option<u64>,
}

/// The process that tries points.
pub fn serve(damage: &Damage, folder: &Path, share: Share) -> Result<(), Failure> {
    let originals = Original::both(damage.seed, &folder.join("store"))?;
    let mut points: Vec<Point> = Vec::new();
    for (number, original) in originals.iter().enumerate() {
        points.extend(original.points(number, damage.seed));
    }
    if let Some(wanted) = damage.points {
        let mut random = SeededRandom::new(damage.seed);
        let mut chosen = |_| points.get(random.below(points.len() as u64) as usize).cloned();
        points = (0..wanted).filter_map(&mut chosen).collect();
    }
    let mut desk = Desk::new(share);
    for point in points {
        if desk.takes_next() {
            let original = originals.get(point.original).ok_or("an original is missing")?;
            let (class, wrong) = original.try_point(&point)?;
            let wrong: Vec<_> =
                wrong.map(|wrong| format!("{point:?}: {wrong}")).into_iter().collect();
            let what = if point.bit.is_some() { "bit" } else { "cut" };
            desk.tell(&format!("{what} {class}"), &wrong)?;
        }
    }
    Ok(desk.close()?)
}

/// One place that is damaged.
#[derive(Debug, Clone)]
struct Point {
    original: usize,
    file: String,
    /// The byte.
    at: usize,
    /// The bit that is turned; the file ends before the byte if there is none.
    bit: Option<u8>,
}

/// All that can be read of a store.
#[derive(Debug, Clone, PartialEq)]
struct Reading {
    tasks: Vec<StoredTask>,
    trails: Vec<Option<Trail>>,
    /// Counters, queues and workers.
    board: String,
    /// Feed and audit log.
    events: String,
}

/// A store before it is damaged.
struct Original {
    folder: PathBuf,
    files: Files,
    world: World,
    reading: Reading,
    /// What could be read earlier: without the end of its log, this is what is left.
    earlier: Vec<Reading>,
    /// Only the log of the second one is damaged: its database is that of the first.
    only_log: bool,
}

impl Original {
    /// One that was closed, and one that was killed.
    fn both(seed: u64, folder: &Path) -> Result<[Self; 2], Failure> {
        let mut world = World::new(seed);
        Files::default().write(folder)?;
        run(&mut world, folder, STEPS)?;
        let closed = Files::read(folder)?;
        let first = Self::new(folder, closed.clone(), world.clone(), Vec::new())?;
        closed.write(folder)?;
        let killed = run(&mut world, folder, LOGGED_STEPS)?;
        let earlier = prefixes(&killed, folder, &world)?;
        let second = Self { only_log: true, ..Self::new(folder, killed, world, earlier)? };
        Ok([first, second])
    }

    fn new(
        folder: &Path,
        files: Files,
        world: World,
        earlier: Vec<Reading>,
    ) -> Result<Self, Failure> {
        let reading = read_files(&files, folder, &world)?;
        let folder = folder.to_owned();
        Ok(Self { folder, files, world, reading, earlier, only_log: false })
    }

    fn points(&self, original: usize, seed: u64) -> Vec<Point> {
        let mut points = Vec::new();
        let mut random = SeededRandom::new(seed);
        for (file, length) in self.files.lengths() {
            if self.only_log && !file.ends_with("-wal") {
                continue;
            }
            for at in 0..length {
                let bit = random.below(8) as u8;
                for bit in [None, Some(bit)] {
                    points.push(Point { original, file: file.to_owned(), at, bit });
                }
            }
        }
        points
    }

    /// What comes of a point; and what is wrong, if anything is.
    fn try_point(&self, point: &Point) -> Result<(&'static str, Option<String>), Failure> {
        let mut files = self.files.clone();
        let bytes = files.content(&point.file).ok_or("a file is missing")?;
        match point.bit {
            None => bytes.truncate(point.at),
            Some(bit) => {
                if let Some(byte) = bytes.get_mut(point.at) {
                    *byte ^= 1 << bit;
                }
            }
        }
        files.write(&self.folder)?;
        let mut world = self.world.clone();
        let clock = world.clock();
        let store = match open(&self.folder, clock.clone()) {
            Ok(store) => store,
            Err(StoreError::Corrupt(_)) => return Ok(("refused as damaged", None)),
            Err(StoreError::Version(_)) => return Ok(("refused as another format", None)),
            Err(_) => return Ok(("refused for another reason", None)),
        };
        let found = block_on(store.check());
        let read = read(&store);
        let drained = world.drain(&store, &clock);
        Ok(match (found, read) {
            (Err(_), _) => ("found by check", None),
            (Ok(findings), _) if !findings.is_empty() => ("found by check", None),
            (Ok(_), Err(_)) => ("found while reading", None),
            (Ok(_), Ok(read)) if read == self.reading => match drained {
                Ok(true) => ("unharmed", None),
                other => ("unnoticed: not drained", Some(format!("not drained: {other:?}"))),
            },
            (Ok(_), Ok(read)) if self.earlier.contains(&read) => {
                ("the end of the log is gone", None)
            }
            (Ok(_), Ok(read)) => (self.harm(&read), None),
        })
    }

    fn harm(&self, read: &Reading) -> &'static str {
        let ours = &self.reading;
        let ids =
            |reading: &Reading| -> Vec<_> { reading.tasks.iter().map(|t| t.task.id).collect() };
        let pairs = || read.tasks.iter().zip(&ours.tasks);
        match () {
            () if ids(read) != ids(ours) => "unnoticed: tasks",
            () if pairs().any(|(a, b)| a.task != b.task) => "unnoticed: task",
            () if pairs().any(|(a, b)| a.payload != b.payload) => "unnoticed: payload",
            () if pairs().any(|(a, b)| a.result != b.result) => "unnoticed: result",
            () if read.trails != ours.trails => "unnoticed: trail",
            () if read.board != ours.board => "unnoticed: queue or worker",
            () => "unnoticed: events",
        }
    }
}

/// Runs steps and closes; the files as they were before.
fn run(world: &mut World, folder: &Path, steps: u64) -> Result<Files, Failure> {
    let clock = world.clock();
    let store = open(folder, clock.clone())?;
    for _ in 0..steps {
        if let Some(error) = world.step(&store, &clock).errors.first() {
            return Err(error.to_string().into());
        }
    }
    Files::read(folder)
}

/// What is left of a store whose log is cut between two of its frames.
fn prefixes(files: &Files, folder: &Path, world: &World) -> Result<Vec<Reading>, Failure> {
    let mut readings: Vec<Reading> = Vec::new();
    let log = files.lengths().find(|(name, _)| name.ends_with("-wal"));
    let (name, length) =
        log.map(|(name, length)| (name.to_owned(), length)).ok_or("there is no log")?;
    for end in (LOG_HEADER_BYTES..length).step_by(FRAME_BYTES) {
        let mut cut = files.clone();
        cut.content(&name).ok_or("there is no log")?.truncate(end);
        let reading = read_files(&cut, folder, world)?;
        if readings.last() != Some(&reading) {
            readings.push(reading);
        }
    }
    Ok(readings)
}

fn read_files(files: &Files, folder: &Path, world: &World) -> Result<Reading, Failure> {
    files.write(folder)?;
    let store = open(folder, world.clock())?;
    Ok(read(&store)?)
}

fn read(store: &Arc<dyn Store>) -> Result<Reading, StoreError> {
    let query = Query { bodies: true, ..Query::new(Filter::default(), PAGE) };
    let tasks = block_on(store.list(query))?.tasks;
    let trails = tasks.iter().map(|stored| store.trail(stored.task.id)).collect::<Vec<_>>();
    let trails = trails.into_iter().map(block_on).collect::<Result<_, _>>()?;
    let (stats, queues) = (block_on(store.stats())?, block_on(store.queues())?);
    let mut workers = block_on(store.workers())?;
    workers.sort_by_key(|worker| worker.id);
    let feed = block_on(store.events_after(Cursor::OLDEST, PAGE))?;
    let audit = block_on(store.audit(AuditFrom::After(0), PAGE))?;
    let board = format!("{:?} {queues:?} {workers:?}", stats.lanes);
    Ok(Reading { tasks, trails, board, events: format!("{:?} {audit:?}", feed.events) })
}
