//! The soak test: tasks come and go for a long time, and nothing grows.
//!
//! - `load` what all clients share, and producers; `worker`, `operator` and `follower` the others
//! - `sample` what the system says of the server, once a second
//! - `judge` whether anything grows; `chart` the same as a picture
//! - here: the run as a whole

mod chart;
mod follower;
mod judge;
mod load;
mod operator;
mod sample;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tasklane_core::{Random as _, SeededRandom};

use crate::Failure;
use crate::http::caller::Caller;
use crate::http::home::Home;
use crate::http::server::Server;
use crate::options::Options;
use crate::terminal::Progress;
use judge::{Live, Verdict};
use load::{Counts, Load};
use sample::Sample;

const PRODUCERS: u64 = 2;
const WORKERS: u64 = 4;
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the follower may take to hear of what was done.
const TOLD_WITHIN: Duration = Duration::from_secs(60);
/// What is kept is kept for so long: short, so that what goes is as much as what comes.
const RETENTION_SECONDS: u32 = 3;
const OPTIONS: [&str; 6] =
    ["--lifecycles", "--seconds", "--seed", "--store", "--report", "--chart"];

/// What to do, and until when.
struct Plan {
    lifecycles: u64,
    seconds: u64,
    seed: u64,
}

/// `PROGRAM [--lifecycles N] [--seconds N] [--seed S] [--store …] [--report FILE] [--chart FILE]`,
/// until so many lifecycles or seconds, whichever is first: whether nothing grew.
pub fn run(arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let (program, options) = Options::with_program(arguments, &OPTIONS)?;
    let plan = Plan {
        lifecycles: options.number("--lifecycles", u64::MAX)?,
        seconds: options
            .number("--seconds", if options.has("--lifecycles") { u64::MAX } else { 25 })?,
        seed: options.seed()?,
    };
    println!("soak: {}, seed {}", plan.aim(), plan.seed);
    let home = Home::new(options.engine()?)?;
    let kept_for = RETENTION_SECONDS.to_string();
    let settings = settings(&kept_for);
    let mut server = Server::start(&program, home.folder(), home.store(), &settings)?;
    let store = (!home.is_shared()).then(|| home.folder().join("store"));
    let load = Load::new(server.address());
    let samples = plan.run(&load, server.process(), store.as_deref())?;
    server.kill()?;
    let live = store.as_deref().map(|store| live(store, home.folder())).transpose()?;
    let mut verdict = judge::judge(&samples, live).ok_or("too short to say anything")?;
    verdict.checks.push(judge_ends(&load.counts));
    verdict.checks.push(judge_told(&load.counts));
    let ended = load.ended();
    let end = conclude(&load, &verdict, &samples);
    if let Some(file) = options.path("--report") {
        std::fs::write(file, format!("{:#}\n", report(&plan, &load, &verdict, &samples)))?;
    }
    if let Some(file) = options.path("--chart") {
        let title = format!("Soak: {ended} lifecycles");
        std::fs::write(file, chart::draw(&samples, verdict.warm_after, &title, &end))?;
    }
    Ok(verdict.holds())
}

/// What a server is told, apart from where its store is.
fn settings(kept_for: &str) -> Vec<(&'static str, &str)> {
    let mut settings: Vec<_> = [
        "TASKLANE_RETENTION_COMPLETED_SECONDS",
        "TASKLANE_RETENTION_CANCELLED_SECONDS",
        "TASKLANE_RETENTION_FAILED_SECONDS",
        "TASKLANE_RETENTION_DEAD_LETTER_SECONDS",
        "TASKLANE_RETENTION_EVENTS_SECONDS",
        "TASKLANE_RETENTION_IDEMPOTENCY_SECONDS",
        "TASKLANE_RETENTION_WORKERS_SECONDS",
    ]
    .map(|name| (name, kept_for))
    .into();
    // Workers that meet tasks which fail are not at fault.
    settings.push(("TASKLANE_BREAKER_FAILURES", "1000000"));
    settings
}

fn live(store: &Path, folder: &Path) -> Result<Live, Failure> {
    let copy: PathBuf = folder.join("compact.db");
    let (bytes, tasks) = sample::compact(store, &copy)?;
    Ok(Live { bytes, tasks })
}

impl Plan {
    fn aim(&self) -> String {
        match (self.lifecycles, self.seconds) {
            (u64::MAX, seconds) => format!("{seconds} s"),
            (lifecycles, u64::MAX) => format!("{lifecycles} lifecycles"),
            (lifecycles, seconds) => format!("{lifecycles} lifecycles or {seconds} s"),
        }
    }

    fn is_done(&self, load: &Load, began: Instant) -> bool {
        load.ended() >= self.lifecycles || began.elapsed().as_secs() >= self.seconds
    }

    /// Puts the load on and looks once a second, until it is enough or a client fails.
    fn run(&self, load: &Load, process: u32, store: Option<&Path>) -> Result<Vec<Sample>, Failure> {
        let mut random = SeededRandom::new(self.seed);
        let followed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let follower = scope.spawn(|| load.follow(&followed));
            let mut clients = vec![scope.spawn(|| load.operate())];
            for _ in 0..PRODUCERS {
                let random = SeededRandom::new(random.next_u64());
                clients.push(scope.spawn(move || load.produce(random)));
            }
            clients.extend((0..WORKERS).map(|_| scope.spawn(|| load.work())));
            let mut progress = self.progress();
            let (mut samples, began) = (Vec::new(), Instant::now());
            let mut sampled = Ok(());
            while sampled.is_ok() && !self.is_done(load, began) {
                let next = began + LOOK_EVERY * (samples.len() as u32 + 1);
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                sampled = self.look(load, process, store, began).map(|sample| {
                    self.show(&mut progress, &sample);
                    samples.push(sample);
                });
                if clients.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                    break;
                }
            }
            progress.end();
            load.over.store(true, Ordering::Relaxed);
            let mut ends: Vec<Result<(), Failure>> = vec![sampled];
            for client in clients {
                // The follower has to be told that it may go, whatever became of the others.
                ends.push(client.join().unwrap_or_else(|_| Err("a client panicked".into())));
            }
            wait_until_told(&load.counts);
            followed.store(true, Ordering::Relaxed);
            // One more event, so that the follower sees that it may go.
            let _ = Caller::new(load.address).and_then(|mut caller| nudge(&mut caller));
            ends.push(follower.join().map_err(|_| "the follower panicked")?);
            ends.into_iter().collect::<Result<(), _>>()?;
            Ok(samples)
        })
    }

    /// On a connection of its own, so that connections come and go too.
    fn look(
        &self,
        load: &Load,
        process: u32,
        store: Option<&Path>,
        began: Instant,
    ) -> Result<Sample, Failure> {
        let mut sample = Sample::take(process, store)?;
        (sample.at, sample.ended) = (began.elapsed(), load.ended());
        sample.tasks = sample::tasks(&mut Caller::new(load.address)?)?;
        Ok(sample)
    }

    fn progress(&self) -> Progress {
        match self.lifecycles {
            u64::MAX => Progress::new("soak", "s", self.seconds),
            lifecycles => Progress::new("soak", "lifecycles", lifecycles),
        }
    }

    fn show(&self, progress: &mut Progress, sample: &Sample) {
        let memory = judge::mebibytes(sample.memory_bytes);
        match self.lifecycles {
            u64::MAX => {
                let more = format!(", {} lifecycles, {memory:.0} MiB", sample.ended);
                progress.show(sample.at.as_secs(), &more);
            }
            _ => progress.show(sample.ended, &format!(", {memory:.0} MiB")),
        }
    }
}

fn wait_until_told(counts: &Counts) {
    let began = Instant::now();
    while began.elapsed() < TOLD_WITHIN && !judge_told(counts).0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One task that is completed.
fn nudge(caller: &mut Caller) -> Result<(), Failure> {
    caller.post("/api/v1/tasks", &json!({"type": "plain", "queue": "nudge"}))?;
    let id = caller.register(&json!({"capacity": 1, "queues": ["nudge"]}))?;
    let path = format!("/internal/workers/{id}");
    let poll = json!({"available_capacity": 1, "wait_ms": 1_000});
    let claimed = caller.post(&format!("{path}/poll"), &poll)?.body;
    let task = claimed.pointer("/tasks/0").ok_or("no task")?;
    let result = json!({"task_id": task.get("id"), "lease_token": task.get("lease_token"),
        "status": "completed"});
    caller.post(&format!("{path}/result"), &result)?;
    Ok(())
}

/// Tasks came to all kinds of ends: a store in which nothing happens does not grow either.
fn judge_ends(counts: &Counts) -> (bool, String) {
    let Counts { completed, retried, dead, cancelled, workers, .. } = counts;
    let ends = [completed, retried, dead, cancelled, workers];
    let [completed, retried, dead, cancelled, workers] =
        ends.map(|count| count.load(Ordering::Relaxed));
    let holds = [completed, retried, dead, cancelled, workers].iter().all(|count| *count > 0);
    let text = format!(
        "ends of all kinds: {completed} completed, {retried} tried again, {dead} dead, {cancelled} \
         cancelled, by {workers} workers"
    );
    (holds, text)
}

/// The follower heard of every completion, or was told that it did not; and of no others.
fn judge_told(counts: &Counts) -> (bool, String) {
    let Counts { told, completed, gaps, .. } = counts;
    let [told, completed, gaps] =
        [told, completed, gaps].map(|count| count.load(Ordering::Relaxed));
    let text =
        format!("the follower heard of {told} completions of {completed}, and of {gaps} gaps");
    (told == completed || (told < completed && gaps > 0), text)
}

/// Says what came of it; the figures in a line.
fn conclude(load: &Load, verdict: &Verdict, samples: &[Sample]) -> String {
    for (holds, text) in &verdict.checks {
        println!("soak: {} {text}", if *holds { "ok  " } else { "FAIL" });
    }
    let seconds = samples.last().map_or(0.0, |sample| sample.at.as_secs_f64());
    let Counts { retried, dead, cancelled, workers, .. } = &load.counts;
    let [retried, dead, cancelled, workers] =
        [retried, dead, cancelled, workers].map(|count| count.load(Ordering::Relaxed));
    println!(
        "soak: {} lifecycles in {seconds:.0} s: {retried} retries, {dead} dead letters, {cancelled} \
         cancelled; {workers} workers came and went",
        load.ended()
    );
    let end = if verdict.holds() { "nothing grows" } else { "FAILED" };
    println!("soak: {end}");
    let [before, after] = verdict.memory_bytes.map(judge::mebibytes);
    let disk = verdict.disk.map_or(String::new(), |(disk, live)| {
        format!("; database {:.2} × live data", disk as f64 / live.max(1) as f64)
    });
    format!("{end}: memory {before:.0} MiB, then {after:.0}{disk}; {seconds:.0} s, grey is warm-up")
}

fn report(plan: &Plan, load: &Load, verdict: &Verdict, samples: &[Sample]) -> Value {
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    let counts = &load.counts;
    let checks: Vec<Value> = verdict
        .checks
        .iter()
        .map(|(holds, text)| json!({"holds": holds, "figures": text}))
        .collect();
    json!({
        "seed": plan.seed,
        "lifecycles": load.ended(),
        "completed": count(&counts.completed),
        "retried": count(&counts.retried),
        "dead_letters": count(&counts.dead),
        "discarded": count(&counts.discarded),
        "cancelled": count(&counts.cancelled),
        "workers": count(&counts.workers),
        "completions_told": count(&counts.told),
        "memory_bytes": verdict.memory_bytes,
        "lifecycles_per_second": verdict.speed,
        "database_bytes": verdict.disk.map(|(disk, _)| disk),
        "live_bytes": verdict.disk.map(|(_, live)| live),
        "checks": checks,
        "holds": verdict.holds(),
        "samples": samples.iter().map(|sample| sample.to_json()).collect::<Vec<_>>(),
    })
}
