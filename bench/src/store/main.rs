//! A store alone: durable submits, claims and settles per second.
//!
//! `cargo run --release -p tasklane-bench --bin store -- [--store ADDRESS] [--queued N] [--batches N,N…] [--lanes N]
//! [--payload BYTES] [--count N] [--in-flight N] [--retain] [--backup] [--only-drain]
//! [--folder PATH]`. One caller keeps
//! `--in-flight` calls queued, as a server's micro-batching does; single tasks, 64. Each phase
//! moves `--count` tasks in rounds no larger than the backlog, so that the backlog stays what it
//! is called. `--retain` removes ended tasks meanwhile, `--backup` copies the store meanwhile.
//! `--only-drain` leaves the other phases out, for a profile of what a busy server does.
//! `--folder` is where the embedded store is made and stays; without it, it goes with the run.
//! `--store` is `postgres://…` or `redis://…`, an empty one of the run's own; without it, it is the
//! embedded one. `bench/run` runs the whole matrix.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a benchmark that fails should stop"
)]

mod meter;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use meter::{Meter, Took, report, rss_mb};
use tasklane_core::{
    Command, DepthLimits, Draft, Intent, NewTask, Outcome, Policies, Priority, QueueName,
    QueueSettings, Retention, Selection, State, StateName, TaskType, WorkerId, WorkerSpec,
};
use tasklane_postgres::PostgresStore;
use tasklane_redis::RedisStore;
use tasklane_sqlite::{Options, SqliteStore};
use tasklane_store::conformance::block_on;
use tasklane_store::{ClaimRequest, Claimed, ExecutedAndClaimed, Prune, Store, Submission};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Clone)]
struct Settings {
    store: Option<String>,
    folder: Option<PathBuf>,
    queued: usize,
    batches: Vec<usize>,
    lanes: usize,
    payload: usize,
    count: usize,
    in_flight: usize,
    retain: bool,
    backup: bool,
    only_drain: bool,
}

fn main() {
    let settings = match parse(std::env::args().skip(1)) {
        Ok(settings) => settings,
        Err(problem) => {
            eprintln!("{problem}");
            std::process::exit(2);
        }
    };
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = settings.folder.as_deref().unwrap_or(temporary.path());
    let store = open(&settings, folder);
    println!("{settings:?}");
    let drafts = Drafts::new(&settings);
    let started = Instant::now();
    drive(settings.queued, 1_000, 4, |n| submit(&store, &drafts, n, 1_000));
    println!("filled {} in {:.1} s", settings.queued, started.elapsed().as_secs_f64());
    let backup = settings.backup.then(|| back_up(&store, folder));
    for batch in &settings.batches {
        measure(&store, &drafts, &settings, *batch);
    }
    if let Some(backup) = backup {
        backup.join().expect("a backup");
    }
    println!("rss {} MB", rss_mb());
    drop(store);
    let started = Instant::now();
    let store = open(&settings, folder);
    let waiting = block_on(store.stats()).expect("stats").total(StateName::Pending);
    println!("reopened with {waiting} pending in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
}

/// Every phase with batches of one size.
fn measure(store: &Arc<dyn Store>, drafts: &Drafts, settings: &Settings, batch: usize) {
    let in_flight = if batch == 1 { 64 } else { settings.in_flight };
    let count = if batch == 1 { settings.count / 4 } else { settings.count };
    let round = count.min(settings.queued) / batch * batch;
    let workers: Vec<_> = (0..in_flight).map(|_| register(store)).collect();
    let mut phases: [Took; 4] = Default::default();
    for _ in 0..count.div_ceil(round) {
        let [submits, claims, settles, drains] = &mut phases;
        if settings.only_drain {
            drains.add(drain(store, &workers, round, batch, settings.retain));
            drive(round, 1_000, 4, |n| submit(store, drafts, n, 1_000));
            continue;
        }
        submits.add(drive(round, batch, in_flight, |n| submit(store, drafts, n, batch)));
        let mut claimed = Vec::with_capacity(round);
        claims.add(drive_claims(store, round, batch, in_flight, &mut claimed));
        settles.add(drive_settles(store, &claimed, batch, in_flight));
        drop(claimed);
        drains.add(drain(store, &workers, round, batch, settings.retain));
        drive(round, 1_000, 4, |n| submit(store, drafts, n, 1_000));
    }
    for (name, took) in ["submit", "claim", "settle", "drain"]
        .into_iter()
        .zip(phases)
        .filter(|(_, took)| took.count > 0)
    {
        report(name, batch, took);
    }
}

/// Copies the store while the figures are taken.
fn back_up(store: &Arc<dyn Store>, folder: &Path) -> std::thread::JoinHandle<()> {
    let (store, to) = (store.clone(), folder.join("copy.db"));
    std::thread::spawn(move || {
        let started = Instant::now();
        block_on(store.backup(&to)).expect("a copy");
        let megabytes = std::fs::metadata(&to).map_or(0, |data| data.len() >> 20);
        println!(" backup: {megabytes} MB in {:.1} s, meanwhile:", started.elapsed().as_secs_f64());
    })
}

fn open(settings: &Settings, folder: &Path) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = match settings.store.as_deref() {
        None => Arc::new(SqliteStore::open(folder, &Options::default()).expect("a store")),
        Some(address) if address.starts_with("postgres") => {
            Arc::new(runtime().block_on(PostgresStore::open(address, &Default::default())).unwrap())
        }
        Some(address) => {
            Arc::new(runtime().block_on(RedisStore::open(address, &Default::default())).unwrap())
        }
    };
    let settings = QueueSettings {
        depth: DepthLimits::flat(100_000_000),
        retention: Some(Retention {
            completed: Some(Duration::from_secs(1)),
            ..Retention::default()
        }),
        ..QueueSettings::default()
    };
    block_on(store.configure(QueueName::default_queue(), settings)).expect("settings");
    store
}

/// What stores on other servers live on.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

/// Ready-made drafts, so that the load costs little.
struct Drafts(Vec<Draft>);

impl Drafts {
    fn new(settings: &Settings) -> Self {
        let payload = Bytes::from(vec![b'x'; settings.payload]);
        let make = |n: usize| {
            let task_type = TaskType::new(format!("type-{}", n % settings.lanes)).unwrap();
            let priority = Priority::from_number((n / settings.lanes % 4) as u64).unwrap();
            let task =
                NewTask { priority: Some(priority), ..NewTask::new(task_type, payload.clone()) };
            task.resolve(&Policies::default()).unwrap()
        };
        Self((0..settings.lanes.max(1_000) * 4).map(make).collect())
    }

    fn take(&self, from: usize, count: usize) -> Vec<Draft> {
        (from..from + count).map(|n| self.0[n % self.0.len()].clone()).collect()
    }
}

type Pending<'a> = std::pin::Pin<Box<dyn Future<Output = ()> + 'a>>;
use std::future::Future;

fn submit<'a>(
    store: &'a Arc<dyn Store>,
    drafts: &Drafts,
    from: usize,
    batch: usize,
) -> Pending<'a> {
    let call = store.submit(vec![Submission { tasks: drafts.take(from, batch) }]);
    Box::pin(async move {
        call.await.expect("an answer").pop().expect("a verdict").expect("admitted");
    })
}

/// Keeps `in_flight` calls queued until `count` tasks are through; gives each call's time.
fn drive<'a>(
    count: usize,
    batch: usize,
    in_flight: usize,
    mut call: impl FnMut(usize) -> Pending<'a>,
) -> Took {
    let meter = Meter::start();
    let mut queue: VecDeque<(Instant, Pending<'a>)> = VecDeque::new();
    let mut times = Vec::new();
    let mut sent = 0;
    while sent < count || !queue.is_empty() {
        while sent < count && queue.len() < in_flight {
            queue.push_back((Instant::now(), call(sent)));
            sent += batch;
        }
        if let Some((since, pending)) = queue.pop_front() {
            block_on(pending);
            times.push(since.elapsed());
        }
    }
    meter.stop(count, times)
}

fn drive_claims(
    store: &Arc<dyn Store>,
    count: usize,
    batch: usize,
    in_flight: usize,
    claimed: &mut Vec<Claimed>,
) -> Took {
    let found = std::cell::RefCell::new(claimed);
    // A worker may hold so many leases and no more: take as many workers as it needs.
    let capacity = tasklane_core::limits::WORKER_CAPACITY_MAX as usize / batch * batch;
    let workers: Vec<_> = (0..count.div_ceil(capacity)).map(|_| register(store)).collect();
    drive(count, batch, in_flight, |from| {
        let worker = workers[from / capacity];
        let request = ClaimRequest { worker, count: batch, auto_start: true, narrowed: None };
        let call = store.claim(vec![request]);
        let found = &found;
        Box::pin(async move {
            let tasks = call.await.expect("an answer").pop().unwrap().unwrap();
            found.borrow_mut().extend(tasks);
        })
    })
}

fn drive_settles(
    store: &Arc<dyn Store>,
    claimed: &[Claimed],
    batch: usize,
    in_flight: usize,
) -> Took {
    drive(claimed.len(), batch, in_flight, |from| {
        let commands =
            claimed[from..(from + batch).min(claimed.len())].iter().map(complete).collect();
        let call = store.execute(commands);
        Box::pin(async move {
            assert!(call.await.expect("an answer").iter().all(Result::is_ok));
        })
    })
}

/// Each worker settles a batch and claims the next, as `result` with `poll` does.
fn drain(
    store: &Arc<dyn Store>,
    workers: &[WorkerId],
    count: usize,
    batch: usize,
    retain: bool,
) -> Took {
    let step = |worker: WorkerId, held: Vec<Claimed>| {
        let settles = held.iter().map(complete).collect();
        let request = ClaimRequest { worker, count: batch, auto_start: true, narrowed: None };
        (Instant::now(), worker, store.execute_and_claim(settles, vec![request]))
    };
    let meter = Meter::start();
    let mut times = Vec::new();
    let mut pruned = Instant::now();
    let mut done = 0;
    let mut queue: VecDeque<_> = workers.iter().map(|worker| step(*worker, Vec::new())).collect();
    let answered = |call| {
        let (settled, mut claimed) = block_on::<Result<ExecutedAndClaimed, _>>(call).unwrap();
        assert!(settled.iter().all(Result::is_ok));
        claimed.pop().unwrap().unwrap()
    };
    while let Some((since, worker, call)) = queue.pop_front() {
        let held = answered(call);
        times.push(since.elapsed());
        done += held.len();
        if !held.is_empty() {
            queue.push_back(step(worker, held));
        }
        if retain && pruned.elapsed() >= Duration::from_millis(10) {
            block_on(store.prune(Prune::default())).unwrap();
            pruned = Instant::now();
        }
        if done >= count {
            break;
        }
    }
    let took = meter.stop(done, times);
    for (_, _, call) in queue {
        let held = answered(call);
        block_on(store.execute(held.iter().map(complete).collect())).unwrap();
    }
    took
}

fn complete(claimed: &Claimed) -> Command {
    let State::Running(lease) = claimed.task.state else { unreachable!("claimed with auto-start") };
    let outcome = Outcome::Completed(Bytes::from_static(b"{\"ok\":true,\"took_ms\":12}"));
    Command { task: claimed.task.id, intent: Intent::Settle(lease.token, outcome) }
}

fn register(store: &Arc<dyn Store>) -> WorkerId {
    let spec = WorkerSpec::new(Selection::default(), tasklane_core::limits::WORKER_CAPACITY_MAX);
    block_on(store.register(spec.unwrap())).unwrap()
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Settings, String> {
    let mut settings = Settings {
        store: None,
        folder: None,
        queued: 100_000,
        batches: vec![100],
        lanes: 8,
        payload: 120,
        count: 200_000,
        in_flight: 4,
        retain: false,
        backup: false,
        only_drain: false,
    };
    let mut arguments = arguments.peekable();
    while let Some(flag) = arguments.next() {
        if flag == "--store" {
            settings.store = Some(arguments.next().ok_or("--store wants an address")?);
            continue;
        }
        if flag == "--folder" {
            settings.folder = Some(arguments.next().ok_or("--folder wants a path")?.into());
            continue;
        }
        if flag == "--batches" {
            let list = arguments.next().unwrap_or_default();
            let sizes: Option<Vec<usize>> =
                list.split(',').map(|n| n.parse().ok().filter(|n| *n > 0)).collect();
            settings.batches = sizes.ok_or("--batches wants numbers above 0, with commas")?;
            continue;
        }
        let mut number = || {
            let number = arguments.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
            number.ok_or(format!("{flag} wants a number above 0"))
        };
        match flag.as_str() {
            "--queued" => settings.queued = number()?,
            "--lanes" => settings.lanes = number()?,
            "--payload" => settings.payload = number()?,
            "--count" => settings.count = number()?,
            "--in-flight" => settings.in_flight = number()?,
            "--retain" => settings.retain = true,
            "--backup" => settings.backup = true,
            "--only-drain" => settings.only_drain = true,
            other => return Err(format!("unknown flag {other}")),
        }
    }
    Ok(settings)
}
