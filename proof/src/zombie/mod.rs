//! The zombie test: workers are stopped past their lease and let go on (S5).
//!
//! - `worker` the process that is stopped; `told` what it tells; `hand` how its parent holds it
//! - `sink` an outside system that compares fences
//! - `judge` what must be true of a task that a zombie came back for
//! - here: zombies and their heirs, many at a time

mod hand;
mod judge;
mod sink;
mod told;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_core::{Random as _, SeededRandom};

use crate::Failure;
use crate::http::caller::Caller;
use crate::http::home::Home;
use crate::http::server::Server;
use crate::options::Options;
use crate::terminal::Progress;
use hand::Hand;
use judge::{Case, Meanwhile, Seen};
use sink::Sink;
use told::{Told, now};

pub use worker::serve;

/// Rounds of a worker that is to be stopped: more than it gets to do before.
const ROUNDS_ZOMBIE: u32 = 1_000;
/// Rounds of its heir.
const ROUNDS_HEIR: u32 = 3;
/// Rounds of a worker in one lease.
const ROUNDS_PER_LEASE: u32 = 10;
/// A lost lease is reclaimed within a second (S6); a busy machine takes a moment longer.
const RECLAIM_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How a zombie may want its task to end.
const WISHES: [&str; 4] = ["completed", "failed", "released", "cancelled"];
/// So many cases for each that is wanted may be void, because the machine was too slow for its
/// leases: they come again until then.
const VOID_MAX: u64 = 5;
const SHOWN_MAX: usize = 20;
const OPTIONS: [&str; 6] =
    ["--zombies", "--at-once", "--lease-ms", "--seed", "--store", "--report"];

struct Test {
    /// This program, which is the workers too.
    program: PathBuf,
    server: SocketAddr,
    sink: Sink,
    zombies: u64,
    lease: Duration,
    /// Cases, without those that were void and come again.
    begun: Mutex<u64>,
    seen: Mutex<(Seen, Counts)>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    judged: u64,
    void: u64,
    waiting: u64,
    held: u64,
    ended: u64,
}

/// `PROGRAM [--zombies N] [--at-once N] [--lease-ms N] [--seed S] [--store …] [--report FILE]`:
/// whether every promise was kept.
pub fn run(arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let (program, options) = Options::with_program(arguments, &OPTIONS)?;
    let (zombies, seed) = (options.number("--zombies", 20)?, options.seed()?);
    let at_once = options.number("--at-once", 20)?.clamp(1, zombies.max(1));
    let lease_ms = options.number("--lease-ms", 1_000)?;
    println!("zombie: {zombies} workers stopped past a lease of {lease_ms} ms, seed {seed}");
    let home = Home::new(options.engine()?)?;
    let lease_text = lease_ms.to_string();
    let settings =
        [("TASKLANE_LEASE_MS", lease_text.as_str()), ("TASKLANE_RETENTION_WORKERS_SECONDS", "5")];
    let server = Server::start(&program, home.folder(), home.store(), &settings)?;
    let test = Test {
        program: std::env::current_exe()?,
        server: server.address(),
        sink: Sink::open()?,
        zombies,
        lease: Duration::from_millis(lease_ms),
        begun: Mutex::default(),
        seen: Mutex::default(),
    };
    let started = Instant::now();
    test.run(at_once, seed)?;
    let (seen, counts) = test.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let report = report(&seen, counts, seed, started.elapsed());
    if let Some(file) = options.path("--report") {
        std::fs::write(file, format!("{report:#}\n"))?;
    }
    if seen.violations.is_empty() && (counts.judged == 0 || counts.judged != zombies) {
        return Err(format!("{} cases are void: too slow for such leases", counts.void).into());
    }
    Ok(conclude(&seen, counts, started.elapsed(), &options.again("crash", seed)))
}

impl Test {
    fn run(&self, at_once: u64, seed: u64) -> Result<(), Failure> {
        let mut random = SeededRandom::new(seed);
        let mut progress = Progress::new("zombie", "zombies", self.zombies);
        std::thread::scope(|scope| {
            let slots: Vec<_> = (0..at_once)
                .map(|slot| {
                    let random = SeededRandom::new(random.next_u64());
                    scope.spawn(move || self.slot(slot, random))
                })
                .collect();
            while slots.iter().any(|slot| !slot.is_finished()) {
                std::thread::sleep(LOOK_EVERY);
                progress.show(self.counts().judged, "");
            }
            progress.end();
            slots.into_iter().try_for_each(|slot| slot.join().map_err(|_| "a slot panicked")?)
        })
    }

    fn counts(&self) -> Counts {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Two workers with a queue of their own, which are zombie and heir in turns.
    fn slot(&self, slot: u64, mut random: SeededRandom) -> Result<(), Failure> {
        let queue = format!("slot-{slot}");
        let pause = self.lease / ROUNDS_PER_LEASE;
        let start = || Hand::start(&self.program, self.server, self.sink.address(), &queue, pause);
        let (mut zombie, mut heir) = (start()?, start()?);
        let mut caller = Caller::new(self.server)?;
        while self.begins() {
            let case = self.case(&queue, &mut caller, &mut zombie, &mut heir, &mut random)?;
            if let Some(task) = case.task.get("id").and_then(Value::as_str) {
                self.sink.forget(task);
            }
            self.note(&case);
            std::mem::swap(&mut zombie, &mut heir);
        }
        Ok(())
    }

    /// Whether there is a case to begin, which it then is.
    fn begins(&self) -> bool {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let more = *begun < self.zombies;
        *begun += u64::from(more);
        more
    }

    fn note(&self, case: &Case) {
        let void = case.is_void();
        let mut guard = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, counts) = &mut *guard;
        if void {
            counts.void += 1;
            // Another one takes its place, unless the machine is hopeless.
            if counts.void < VOID_MAX * self.zombies {
                *self.begun.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            }
            return;
        }
        counts.judged += 1;
        match case.meanwhile {
            Meanwhile::Waiting => counts.waiting += 1,
            Meanwhile::Held => counts.held += 1,
            Meanwhile::Ended => counts.ended += 1,
        }
        seen.add(case.judge());
    }

    fn case(
        &self,
        queue: &str,
        caller: &mut Caller,
        zombie: &mut Hand,
        heir: &mut Hand,
        random: &mut SeededRandom,
    ) -> Result<Case, Failure> {
        let meanwhile = match random.below(10) {
            0 => Meanwhile::Waiting,
            1..=5 => Meanwhile::Held,
            _ => Meanwhile::Ended,
        };
        let wish = WISHES.get(random.below(WISHES.len() as u64) as usize).unwrap_or(&"completed");
        let task = submit(caller, queue)?;
        zombie.take(ROUNDS_ZOMBIE, wish)?;
        let mut of_zombie = read_until(zombie, |told| matches!(told, Told::Claimed { .. }))?;
        std::thread::sleep(self.lease.mul_f64(random.next_unit()));
        zombie.stop()?;
        let mut of_heir = Vec::new();
        if meanwhile == Meanwhile::Waiting {
            wait_until_pending(caller, &task)?;
        } else {
            heir.take(ROUNDS_HEIR, "completed")?;
            of_heir = match meanwhile {
                Meanwhile::Ended => read_until(heir, is_over)?,
                _ => read_until(heir, |told| matches!(told, Told::Wrote { .. }))?,
            };
        }
        let history_before = history(caller, &task)?;
        let woken_at = now();
        zombie.wake()?;
        of_zombie.extend(read_until(zombie, is_over)?);
        if meanwhile == Meanwhile::Waiting {
            heir.take(ROUNDS_HEIR, "completed")?;
        }
        if !of_heir.iter().any(is_over) {
            of_heir.extend(read_until(heir, is_over)?);
        }
        let history = history(caller, &task)?;
        let task = caller.get(&format!("/api/v1/tasks/{task}"))?.body;
        Ok(Case {
            meanwhile,
            woken_at,
            zombie: of_zombie,
            heir: of_heir,
            history_before,
            history,
            task,
        })
    }
}

fn is_over(told: &Told) -> bool {
    matches!(told, Told::Done | Told::Nothing)
}

/// What a worker tells, up to a line.
fn read_until(worker: &Hand, last: impl Fn(&Told) -> bool) -> Result<Vec<Told>, Failure> {
    let mut lines = Vec::new();
    loop {
        let told = worker.next()?;
        let end = last(&told) || is_over(&told);
        lines.push(told);
        if end {
            return Ok(lines);
        }
    }
}

fn submit(caller: &mut Caller, queue: &str) -> Result<String, Failure> {
    let answer = caller.post("/api/v1/tasks", &json!({"type": "zombie", "queue": queue}))?;
    let id = answer.body.get("id").and_then(Value::as_str);
    Ok(id.ok_or_else(|| format!("a submission got {}: {}", answer.status, answer.body))?.to_owned())
}

fn history(caller: &mut Caller, task: &str) -> Result<Value, Failure> {
    Ok(caller.get(&format!("/api/v1/tasks/{task}/history"))?.body)
}

fn wait_until_pending(caller: &mut Caller, task: &str) -> Result<(), Failure> {
    let began = Instant::now();
    while began.elapsed() < RECLAIM_WITHIN {
        let answer = caller.get(&format!("/api/v1/tasks/{task}"))?;
        if answer.body.get("state").and_then(Value::as_str) == Some("pending") {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(format!("task {task} was not reclaimed within {RECLAIM_WITHIN:?}").into())
}

fn report(seen: &Seen, counts: Counts, seed: u64, took: Duration) -> Value {
    let calls: Vec<Value> = seen
        .calls
        .iter()
        .map(|((kind, status, word), count)| {
            json!({"call": kind.as_str(), "status": status, "answer": word, "count": count})
        })
        .collect();
    json!({
        "seed": seed,
        "zombies": counts.judged,
        "void": counts.void,
        "woken": {"waiting": counts.waiting, "held": counts.held, "ended": counts.ended},
        "stale_calls": calls,
        "sink": {"stale_refused": seen.writes_refused, "stale_taken": seen.writes_taken},
        "violations": seen.violations,
        "seconds": took.as_secs_f64(),
    })
}

/// Says what came of it.
fn conclude(seen: &Seen, counts: Counts, took: Duration, again: &str) -> bool {
    for violation in seen.violations.iter().take(SHOWN_MAX) {
        eprintln!("zombie: {violation}");
    }
    let Counts { judged, void, waiting, held, ended } = counts;
    let stale: u64 = seen.calls.values().sum();
    let gone: u64 =
        seen.calls.iter().filter(|((_, status, _), _)| *status == 410).map(|(_, n)| n).sum();
    println!(
        "zombie: {judged} zombies ({held} found their task held, {ended} completed, {waiting} \
         waiting; {void} void) in {:.1} s: {stale} stale calls, {gone} of them told that the worker \
         is gone; the sink refused {} stale writes and took {}",
        took.as_secs_f64(),
        seen.writes_refused,
        seen.writes_taken
    );
    let kept = seen.violations.is_empty();
    match kept {
        true => println!("zombie: every stale call was refused, nothing changed"),
        false => println!("zombie: FAILED; again: {again}"),
    }
    kept
}
