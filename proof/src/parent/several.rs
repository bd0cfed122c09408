//! Several children that share a database: each is killed by itself, the database is restarted
//! under all of them, and a follower reads the feed all the while.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tasklane_core::{EventKind, Random as _, SeededRandom, TaskId};
use tasklane_store::conformance::block_on;
use tasklane_store::{Cursor, Store, Subject};

use super::database::Database;
use super::life::{Kill, Lived, live};
use super::line::guard;
use super::load::{Load, rest};
use super::producer::Numbers;
use super::{Observer, Outcome, Settings, look};
use crate::Failure;
use crate::checker::{Class, Violation};
use crate::content::Stored;
use crate::history::History;
use crate::place::Place;
use crate::report::Report;

/// How much slower than a store in files a database is, in the lives of children.
const PACE: u64 = 40;
/// Restarts of the database in a run.
const OUTAGES: u64 = 2;
/// Events read at once.
const PAGE_EVENTS: usize = 1_000;

/// What the feed told, in its order.
type Told = HashMap<TaskId, Vec<EventKind>>;

pub(super) fn run(
    settings: &Settings,
    database: &Database,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let started = Instant::now();
    let place = database.place()?;
    let history_path = settings.folder.join("history");
    let run = Run {
        settings,
        database,
        place: &place,
        history: &Mutex::new(History::create(&history_path)?),
        killed: AtomicU64::new(0),
        report: Mutex::new(Report { seed: settings.seed, ..Report::default() }),
        observer: Mutex::new(observer),
        is_over: AtomicBool::new(false),
    };
    let (mut violations, told) = run.lives()?;
    database.wait_until_quiet()?;
    guard(run.history).killed()?;
    let mut report = guard(&run.report).clone();
    if violations.is_empty() {
        match look::look(&place, run.history, &history_path) {
            Ok(looked) => {
                let told = follow_to_the_end(&place, told)?;
                report.looks = 1;
                report.tasks = looked.content.len() as u64;
                report.counts = looked.verdict.counts;
                report.completions_under_load = looked.before.completions;
                violations.extend(looked.verdict.violations);
                violations.extend(missed(&looked.content, &told));
            }
            // A store that cannot be opened, read or drained has broken its word too.
            Err(failure) => violations.push(Violation::trouble(failure.to_string())),
        }
    }
    report.took = started.elapsed();
    report.add_violations(&violations);
    let kept = (!violations.is_empty()).then(|| settings.folder.clone());
    Ok(Outcome { report, violations, kept })
}

struct Run<'a> {
    settings: &'a Settings,
    database: &'a Database,
    place: &'a Place,
    history: &'a Mutex<History>,
    /// Lives begun.
    killed: AtomicU64,
    report: Mutex<Report>,
    observer: Mutex<&'a mut dyn Observer>,
    is_over: AtomicBool,
}

impl Run<'_> {
    /// All lives of all children, and what a follower was told meanwhile.
    fn lives(&self) -> Result<(Vec<Violation>, Following), Failure> {
        let mut random = SeededRandom::new(self.settings.seed);
        let fill = Load::new();
        let numbers = &fill.known.numbers;
        if self.settings.tasks > 0 {
            let tasks = self.settings.tasks;
            look::fill(self.place, self.history, &fill.known, tasks, &mut random)?;
        }
        let seeds: Vec<u64> =
            (0..self.settings.servers.max(1)).map(|_| random.next_u64()).collect();
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| self.follow());
            let outages = scope.spawn(|| self.outages());
            let servers: Vec<_> = seeds
                .iter()
                .map(|seed| scope.spawn(move || self.one_after_the_other(*seed, numbers)))
                .collect();
            let mut violations = Vec::new();
            let mut failed = None;
            for server in servers {
                // Whatever became of one, the threads below have to hear that it is over.
                match server.join() {
                    Ok(Ok(found)) => violations.extend(found),
                    Ok(Err(failure)) => failed = Some(failure),
                    Err(_) => failed = Some("a server's thread panicked".into()),
                }
            }
            self.is_over.store(true, Ordering::Relaxed);
            outages.join().map_err(|_| "the thread of outages panicked")??;
            let told = follower.join().map_err(|_| "the follower panicked")??;
            match failed {
                Some(failure) => Err(failure),
                None => Ok((violations, told)),
            }
        })
    }

    /// Children in one place, one after the other.
    fn one_after_the_other(
        &self,
        seed: u64,
        numbers: &Arc<Numbers>,
    ) -> Result<Vec<Violation>, Failure> {
        let (mut random, mut load) = (SeededRandom::new(seed), Load::beside(Arc::clone(numbers)));
        let program: &Path = &self.settings.program;
        while self.killed.fetch_add(1, Ordering::Relaxed) < self.settings.restarts {
            let kill = Kill::choose_at(PACE, &mut random);
            let mut own = SeededRandom::new(random.next_u64());
            let lived = live(program, self.place, self.history, &mut load, kill, &mut own)?;
            let mut report = guard(&self.report);
            report.restarts += 1;
            match lived {
                Lived::KilledWhileOpening => report.killed_while_opening += 1,
                Lived::Killed(ready_after) => report.was_ready(ready_after, Duration::ZERO),
                Lived::EndedByItself(how) => {
                    let what = format!("the child of restart {}: {how}", report.restarts);
                    return Ok(vec![Violation::trouble(what)]);
                }
            }
            guard(&self.observer).killed(&report);
        }
        Ok(Vec::new())
    }

    /// Takes the database away, and gives it back, evenly over the run.
    fn outages(&self) -> Result<(), Failure> {
        for outage in 1..=OUTAGES {
            let at = self.settings.restarts * outage / (OUTAGES + 1);
            while self.killed.load(Ordering::Relaxed) < at {
                if self.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                rest();
            }
            self.database.restart(outage % 2 == 1)?;
        }
        Ok(())
    }

    /// Follows the feed from its beginning until the run is over.
    fn follow(&self) -> Result<Following, Failure> {
        let store = self.place.open()?;
        let mut following = Following { cursor: Cursor::OLDEST, told: Told::new() };
        while !self.is_over.load(Ordering::Relaxed) {
            if following.read(self.place, &store)? == 0 {
                rest();
            }
        }
        Ok(following)
    }
}

/// Where a follower is, and what it was told.
struct Following {
    cursor: Cursor,
    told: Told,
}

impl Following {
    /// Reads on; how many events there were.
    fn read(&mut self, place: &Place, store: &Arc<dyn Store>) -> Result<usize, Failure> {
        let page = match block_on(store.events_after(self.cursor, PAGE_EVENTS)) {
            Ok(page) => page,
            Err(error) if place.is_away(&error) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        if page.gap {
            return Err("the follower was told of a gap, though nothing was removed".into());
        }
        self.cursor = page.next;
        for event in &page.events {
            if let Subject::Task(notice) = &event.subject {
                self.told.entry(notice.id).or_default().push(notice.kind);
            }
        }
        Ok(page.events.len())
    }
}

fn follow_to_the_end(place: &Place, mut following: Following) -> Result<Told, Failure> {
    let store = place.open()?;
    while following.read(place, &store)? > 0 {}
    Ok(following.told)
}

/// Tasks of which the follower was not told all, or not in order.
fn missed(content: &[Stored], told: &Told) -> Vec<Violation> {
    let mut missed = Vec::new();
    for stored in content {
        let told = told.get(&stored.id).map_or(&[][..], Vec::as_slice);
        if told != stored.kinds {
            let what = format!("its trail has {:?}, the feed told {told:?}", stored.kinds);
            missed.push(Violation { class: Class::Missed, task: Some(stored.id), what });
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use tasklane_core::StateName;

    use super::*;

    #[test]
    fn an_event_that_was_not_told_or_told_twice_is_missed() {
        let id = TaskId::generate(1_750_000_000_000, 1, &mut SeededRandom::new(1));
        let kinds = vec![EventKind::Submitted, EventKind::Claimed, EventKind::Completed];
        let stored = Stored {
            id,
            key: None,
            body: None,
            state: StateName::Completed,
            fence: 1,
            marks: Vec::new(),
            kinds: kinds.clone(),
        };
        let told = |kinds: &[EventKind]| Told::from([(id, kinds.to_vec())]);
        let content = [stored];
        assert_eq!(missed(&content, &told(&kinds)), []);
        let twice = [kinds.clone(), vec![EventKind::Completed]].concat();
        let swapped = [EventKind::Claimed, EventKind::Submitted, EventKind::Completed];
        for wrong in [&kinds[..2], &kinds[1..], &twice, &swapped] {
            assert_eq!(missed(&content, &told(wrong)).len(), 1, "{wrong:?}");
        }
        assert_eq!(missed(&content, &Told::new()).len(), 1);
    }
}
