//! A whole run: starts everything, cuts and heals, lets all end, and compares.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tasklane_core::{Random as _, SeededRandom};

use super::convergence::{Took, all_ended, converge};
use super::cut::{Cut, Lateness, Plan};
use super::figures::{CONVERGED_WITHIN, Figures};
use super::judge::{Verdict, judge};
use super::look::look;
use super::machine::{Process, Yard};
use super::record::Records;
use super::space::{Node, Space};
use super::{Engine, PRODUCERS, SERVERS, WORKERS};
use crate::Failure;
use crate::checker::Violation;
use crate::still::Watch;

/// How long what is under way at the end may take.
const END_WITHIN: Duration = Duration::from_secs(60);
/// Between a cut that is healed and the next one.
const REST: Duration = Duration::from_millis(200);
/// How much longer a cut may last that has had nothing to cut off.
const CUT_MORE_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Where this machine itself stood still for longer, a cut that healed late says nothing, even without
/// that time.
const STILL_MAX: Duration = Duration::from_millis(500);
/// How often it is repeated then. The first cut of a run that healed late is repeated in any case: a
/// machine that others use is late without standing still.
const REPEATS_MAX: u32 = 5;

/// How to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The store that servers share.
    pub engine: Engine,
    /// How many cuts.
    pub cuts: u64,
    /// What decisions follow from.
    pub seed: u64,
    /// Where files go.
    pub folder: PathBuf,
    /// The machines, which are there.
    pub space: Space,
    /// The server's program.
    pub tasklane: PathBuf,
}

/// Is told how far a run is.
pub trait Observer {
    /// How packets are made late on this kernel.
    fn began(&mut self, lateness: &str);
    /// A cut that healed late is repeated. This machine stood still for so long meanwhile.
    fn repeats(&mut self, cut: &Cut, took: &[Took], still: Duration);
    /// A cut was healed, and servers do their work again.
    fn healed(&mut self, cut: &Cut, took: &[Took], figures: &Figures);
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Figures.
    pub figures: Figures,
    /// What must not have happened, apart from what took too long.
    pub violations: Vec<Violation>,
}

/// Runs it, on the machine that watches.
pub fn run(settings: &Settings, observer: &mut dyn Observer) -> Result<Outcome, Failure> {
    let started = Instant::now();
    let yard = Yard {
        space: &settings.space,
        folder: &settings.folder,
        own: std::env::current_exe()?,
        tasklane: settings.tasklane.clone(),
    };
    let mut random = SeededRandom::new(settings.seed);
    let watch = Watch::begin(&settings.folder)?;
    let lateness = Lateness::find(&settings.space);
    observer.began(lateness.as_str());
    let mut crew = Crew::start(&yard, settings.engine, &mut random)?;
    let own = Records::create(&yard.records(Node::Watcher))?;
    let mut figures = Figures {
        store: settings.engine.as_str(),
        seed: settings.seed,
        lateness: lateness.as_str(),
        ..Figures::default()
    };
    // Before the first cut, so that what is slow to start is not taken for slow to heal.
    converge(&crew.key, &own, &mut random)?;
    let mut violations = Vec::new();
    let mut plan = Plan::new(random.next_u64());
    for _ in 0..settings.cuts {
        let cut = plan.next_cut();
        for repeats in 0..=REPEATS_MAX {
            let (dropped, length) = carry_out(&cut, &settings.space, lateness)?;
            if cut.drops_all() && dropped == 0 {
                violations.push(Violation::trouble(format!("{cut}: it cut nothing off")));
            }
            figures.dropped += dropped;
            figures.cut += length;
            let healed = Instant::now();
            match converge(&crew.key, &own, &mut random) {
                Ok(took) => {
                    let last = took.iter().map(|took| took.completed).max().unwrap_or_default();
                    let still = watch.stood_still(healed, healed + last);
                    let last = last.saturating_sub(still);
                    let may_repeat = still > STILL_MAX || figures.repeated == 0;
                    if last > CONVERGED_WITHIN && may_repeat && repeats < REPEATS_MAX {
                        figures.repeated += 1;
                        observer.repeats(&cut, &took, still);
                        thread::sleep(REST);
                        continue;
                    }
                    figures.converged.push(last);
                    figures.still += still;
                    observer.healed(&cut, &took, &figures);
                }
                // This is what the test looks for, and no reason why it could not run.
                Err(failure) => violations.push(Violation::trouble(format!("{cut}: {failure}"))),
            }
            break;
        }
        violations.extend(crew.ended().map(Violation::trouble));
        if !violations.is_empty() {
            break;
        }
        thread::sleep(REST);
    }
    // Where somebody is missing or cut off, not all comes to an end.
    if violations.is_empty() {
        violations = crew.end(&own, &mut random)?;
        let verdict = compare(&yard, &crew.key)?;
        violations.extend(verdict.violations);
        figures.counts = verdict.counts;
    }
    drop(crew);
    figures.took = started.elapsed();
    Ok(Outcome { figures, violations })
}

/// Cuts and heals; gives how many packets were dropped, and for how long it was cut.
fn carry_out(cut: &Cut, space: &Space, lateness: Lateness) -> Result<(u64, Duration), Failure> {
    let before = cut.dropped(space)?;
    cut.make(space, lateness)?;
    let begun = Instant::now();
    thread::sleep(cut.length);
    // Whoever would have sent something may have had no turn.
    while cut.drops_all()
        && cut.dropped(space)? == before
        && begun.elapsed() < cut.length + CUT_MORE_MAX
    {
        thread::sleep(LOOK_EVERY);
    }
    let length = begun.elapsed();
    cut.heal(space)?;
    Ok((cut.dropped(space)? - before, length))
}

/// What the roles noted, against what the store holds.
fn compare(yard: &Yard, key: &str) -> Result<Verdict, Failure> {
    let mut records = Records::read(&yard.records(Node::Watcher))?;
    for node in Node::all() {
        if let Node::Producer(_) | Node::Worker(_) | Node::Follower = node {
            records.extend(Records::read(&yard.records(node))?);
        }
    }
    Ok(judge(&records, &look(key)?))
}

/// All processes. The store comes last, so that it ends last.
struct Crew {
    key: String,
    producers: Vec<Process>,
    workers: Vec<Process>,
    follower: Process,
    servers: Vec<Process>,
    store: Process,
}

impl Crew {
    fn start(yard: &Yard, engine: Engine, random: &mut SeededRandom) -> Result<Self, Failure> {
        let (store, address) = yard.start_store(engine)?;
        let key = yard.make_key(&address)?;
        let servers =
            (0..SERVERS).map(|at| yard.start_server(at, &address)).collect::<Result<_, _>>()?;
        let mut role =
            |node, word: &str, at| yard.start_role(node, word, at, &key, random.next_u64());
        let mut follower = role(Node::Follower, "follower", 0)?;
        // Before there is anything to be told of.
        follower.line(END_WITHIN)?;
        let workers = (0..WORKERS)
            .map(|at| role(Node::Worker(at), "worker", at))
            .collect::<Result<_, _>>()?;
        let producers = (0..PRODUCERS)
            .map(|at| role(Node::Producer(at), "producer", at))
            .collect::<Result<_, _>>()?;
        Ok(Self { key, producers, workers, follower, servers, store })
    }

    /// Which of them ended by themselves.
    fn ended(&mut self) -> impl Iterator<Item = String> {
        let Self { producers, workers, follower, servers, store, .. } = self;
        let singles = [follower, store].into_iter();
        let all = producers.iter_mut().chain(workers).chain(servers).chain(singles);
        all.filter_map(Process::ended)
    }

    /// Lets producers finish, workers do what is left, and the follower hear of it.
    fn end(&mut self, own: &Records, random: &mut SeededRandom) -> Result<Vec<Violation>, Failure> {
        let mut violations = Vec::new();
        for producer in &mut self.producers {
            producer.tell("finish")?;
        }
        for producer in &mut self.producers {
            producer.wait(END_WITHIN)?;
        }
        if !all_ended(&self.key, END_WITHIN) {
            violations.push(Violation::trouble("some tasks do not come to an end"));
        }
        for took in converge(&self.key, own, random)?.iter().take(1) {
            self.follower.tell(&format!("finish {}", took.task))?;
        }
        if !all_ended(&self.key, END_WITHIN) {
            violations.push(Violation::trouble("some tasks do not come to an end"));
        }
        if self.follower.line(END_WITHIN).is_err() {
            violations.push(Violation::trouble("the follower does not hear of the last task"));
        }
        for process in self.workers.iter_mut().chain([&mut self.follower]) {
            process.finish(END_WITHIN)?;
        }
        Ok(violations)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // The others first; it removes its files when it ends by itself.
        self.servers.clear();
        let _ = self.store.finish(END_WITHIN);
    }
}
