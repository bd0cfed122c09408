//! The idempotency test: many clients submit the same task at the same time, while its server is
//! killed and started again (S2, S13).
//!
//! - `client` repeats a call until it is answered
//! - `look` what the store holds in the end
//! - here: the clients, the keys one after the other, and who kills

mod client;
mod look;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_core::{Random as _, SeededRandom};

use crate::Failure;
use crate::http::caller::Caller;
use crate::http::home::Home;
use crate::http::server::Server;
use crate::options::Options;
use crate::terminal::Progress;
use client::{Client, Servers, Submitted};

const QUEUE: &str = "idempotency";
/// A kill comes so long after a key has begun, at most: while its calls are under way.
const KILL_WITHIN_MICROS: u64 = 4_000;
/// Servers, where they can share a store.
const SERVERS: u64 = 2;
const LOOK_EVERY: Duration = Duration::from_micros(200);
const SHOWN_MAX: usize = 20;
const OPTIONS: [&str; 6] = ["--keys", "--duplicates", "--kills", "--seed", "--store", "--report"];

/// What the calls for one key were answered.
#[derive(Debug, Default, Clone)]
struct Answers {
    id: Option<String>,
    /// Answers that say that their call made the task.
    new: u64,
    calls: u64,
}

struct Test {
    keys: u64,
    duplicates: u64,
    kills: u64,
    servers: Servers,
    /// Keys whose calls were let go.
    begun: AtomicU64,
    killed: AtomicU64,
    completed: AtomicU64,
    /// All keys are through.
    through: AtomicBool,
    answers: Vec<Mutex<Answers>>,
    violations: Mutex<Vec<String>>,
}

/// Calls that had to be made again.
#[derive(Debug, Default, Clone, Copy)]
struct Repeated {
    unanswered: u64,
    refused: u64,
}

/// `PROGRAM [--keys N] [--duplicates N] [--kills N] [--seed S] [--store …] [--report FILE]`:
/// whether every promise was kept.
pub fn run(arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let (program, options) = Options::with_program(arguments, &OPTIONS)?;
    let (keys, duplicates) = (options.number("--keys", 200)?, options.number("--duplicates", 20)?);
    let (kills, seed) = (options.number("--kills", 10)?, options.seed()?);
    println!("idempotency: {keys} keys × {duplicates} calls at once, {kills} kills, seed {seed}");
    let home = Home::new(options.engine()?)?;
    let mut servers = start(&program, &home)?;
    let test = Test {
        keys,
        duplicates: duplicates.max(1),
        kills,
        servers: Servers {
            addresses: servers.iter().map(|server| RwLock::new(server.address())).collect(),
            over: AtomicBool::new(false),
        },
        begun: AtomicU64::new(0),
        killed: AtomicU64::new(0),
        completed: AtomicU64::new(0),
        through: AtomicBool::new(false),
        answers: (0..keys).map(|_| Mutex::default()).collect(),
        violations: Mutex::default(),
    };
    let started = Instant::now();
    let repeated = test.run(&mut servers, seed)?;
    if let Err(failure) = test.judge() {
        test.accuse(format!("the store cannot be looked at: {failure}"));
    }
    let report = test.report(seed, repeated, started.elapsed());
    if let Some(file) = options.path("--report") {
        std::fs::write(file, format!("{report:#}\n"))?;
    }
    let kept = test.conclude(repeated, started.elapsed(), &options.again("crash", seed));
    if kept && kills > 0 && repeated.unanswered == 0 {
        return Err("no kill came between a call and its answer: nothing was shown".into());
    }
    Ok(kept)
}

fn start(program: &Path, home: &Home) -> Result<Vec<Server>, Failure> {
    let count = if home.is_shared() { SERVERS } else { 1 };
    let one = |number: u64| {
        let folder = match home.is_shared() {
            true => home.folder().join(format!("server-{number}")),
            false => home.folder().to_owned(),
        };
        std::fs::create_dir_all(&folder)?;
        Server::start(program, &folder, home.store(), &[])
    };
    (0..count).map(one).collect()
}

impl Test {
    fn run(&self, servers: &mut [Server], seed: u64) -> Result<Repeated, Failure> {
        let mut random = SeededRandom::new(seed);
        let mut next = || SeededRandom::new(random.next_u64());
        let (of_killer, of_worker) = (next(), next());
        let barrier = &Barrier::new(self.duplicates as usize);
        std::thread::scope(|scope| {
            let killer = scope.spawn(|| self.kill(servers, of_killer));
            let worker = scope.spawn(|| self.work(of_worker));
            let clients: Vec<_> = (0..self.duplicates)
                .map(|_| {
                    let random = next();
                    scope.spawn(move || self.duplicate(barrier, random))
                })
                .collect();
            let mut progress = Progress::new("idempotency", "keys", self.keys);
            while clients.iter().any(|client| !client.is_finished()) {
                std::thread::sleep(Duration::from_millis(20));
                let killed = self.killed.load(Ordering::Relaxed);
                progress.show(self.begun.load(Ordering::Relaxed), &format!(", {killed} kills"));
            }
            progress.end();
            self.through.store(true, Ordering::Relaxed);
            let mut all = Repeated::default();
            for client in clients {
                let repeated = client.join().map_err(|_| "a client panicked")?;
                all.unanswered += repeated.unanswered;
                all.refused += repeated.refused;
            }
            worker.join().map_err(|_| "the worker panicked")?;
            killer.join().map_err(|_| "the thread that kills panicked")??;
            Ok(all)
        })
    }

    /// One of the clients that submit the same: key after key, each at the same time as the others.
    fn duplicate(&self, barrier: &Barrier, random: SeededRandom) -> Repeated {
        let mut client = Client::new(&self.servers, random);
        for (key, answers) in (0..).zip(&self.answers) {
            if barrier.wait().is_leader() {
                self.begun.fetch_add(1, Ordering::Relaxed);
            }
            match client.submit(key, key) {
                Submitted::Task { id, is_new } => {
                    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                    answers.calls += 1;
                    answers.new += u64::from(is_new);
                    let first = answers.id.get_or_insert_with(|| id.clone());
                    if *first != id {
                        self.accuse(format!("key {key} is task {first} and task {id}"));
                    }
                }
                Submitted::Wrong(what) => self.accuse(what),
            }
        }
        Repeated { unanswered: client.unanswered, refused: client.refused }
    }

    /// Kills a server, evenly over the keys and while calls are under way, and starts it again.
    fn kill(&self, servers: &mut [Server], mut random: SeededRandom) -> Result<(), Failure> {
        let mut after = 0;
        for kill in 0..self.kills {
            let at = (kill * self.keys / self.kills.max(1)).max(after);
            while self.begun.load(Ordering::Relaxed) <= at {
                if self.through.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(LOOK_EVERY);
            }
            std::thread::sleep(Duration::from_micros(random.below(KILL_WITHIN_MICROS)));
            let which = random.below(servers.len() as u64) as usize;
            let Some(server) = servers.get_mut(which) else { continue };
            server.kill()?;
            if let Err(failure) = server.begin() {
                self.accuse(failure.to_string());
                self.servers.over.store(true, Ordering::Relaxed);
                return Ok(());
            }
            self.servers.moved(which, server.address());
            self.killed.fetch_add(1, Ordering::Relaxed);
            after = self.begun.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Completes tasks all the while, so that keys are repeated whose task is waiting, running or
    /// over.
    fn work(&self, mut random: SeededRandom) {
        while !self.through.load(Ordering::Relaxed) {
            let worked = Caller::new(self.servers.any(&mut random))
                .and_then(|mut caller| self.work_with(&mut caller));
            if worked.is_err() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn work_with(&self, caller: &mut Caller) -> Result<(), Failure> {
        let spec = json!({"queues": [QUEUE], "capacity": 10});
        let id = caller.register(&spec)?;
        let path = format!("/internal/workers/{id}/result");
        let mut results = Vec::new();
        while !self.through.load(Ordering::Relaxed) {
            let poll = json!({"available_capacity": 3, "wait_ms": 100});
            let answer = caller.post(&path, &json!({"results": results, "poll": poll}))?;
            let verdicts = answer.body.get("results").and_then(Value::as_array);
            let states = verdicts.into_iter().flatten().filter_map(|verdict| verdict.get("state"));
            let completed = states.filter(|state| *state == "completed").count();
            self.completed.fetch_add(completed as u64, Ordering::Relaxed);
            let tasks = answer.body.get("tasks").and_then(Value::as_array).ok_or("no tasks")?;
            let result = |task: &Value| {
                json!({"task_id": task.get("id"), "lease_token": task.get("lease_token"),
                    "status": "completed"})
            };
            results = tasks.iter().map(result).collect();
        }
        Ok(())
    }

    fn accuse(&self, what: String) {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn report(&self, seed: u64, repeated: Repeated, took: Duration) -> Value {
        let violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        json!({
            "seed": seed,
            "keys": self.keys,
            "duplicates": self.duplicates,
            "kills": self.killed.load(Ordering::Relaxed),
            "calls_unanswered": repeated.unanswered,
            "calls_refused_for_a_while": repeated.refused,
            "tasks_completed_meanwhile": self.completed.load(Ordering::Relaxed),
            "violations": *violations,
            "seconds": took.as_secs_f64(),
        })
    }

    /// Says what came of it.
    fn conclude(&self, repeated: Repeated, took: Duration, again: &str) -> bool {
        let violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        for violation in violations.iter().take(SHOWN_MAX) {
            eprintln!("idempotency: {violation}");
        }
        println!(
            "idempotency: {} keys × {} calls, {} kills in {:.1} s: {} calls were left without an \
             answer, {} refused for a while, all made again; {} tasks were completed meanwhile",
            self.keys,
            self.duplicates,
            self.killed.load(Ordering::Relaxed),
            took.as_secs_f64(),
            repeated.unanswered,
            repeated.refused,
            self.completed.load(Ordering::Relaxed),
        );
        let kept = violations.is_empty();
        match kept {
            true => println!("idempotency: exactly one task for each key"),
            false => println!("idempotency: FAILED; again: {again}"),
        }
        kept
    }
}
