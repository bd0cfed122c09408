//! Churn beside an open snapshot: tasks come and go at a steady rate in two databases of one server,
//! and in one of them somebody looks at a moment that passes ever further. Rows that are gone cannot be
//! removed there. Claims and settles must not take much longer for it.
//!
//! `proof churn [SECONDS] [RATE]`: so long, and so many tasks a second in each.
//!
//! Ends with 0 if they did not, with 1 if they did, and with 2 if the test itself could not run.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command as Program, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tasklane_core::{
    Command, Draft, Intent, NewTask, Outcome, Policies, Selection, TaskType, WorkerId, WorkerSpec,
};
use tasklane_postgres::PostgresStore;
use tasklane_postgres::test_server::{Care, TestServer};
use tasklane_proof::report::percentile;
use tasklane_proof::{Failure, exit};
use tasklane_store::{ClaimRequest, Claimed, Store, Submission};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const WORKERS: usize = 5;
/// Tasks that a worker takes at once.
const HANDFUL: usize = 10;
/// How often tasks are submitted, and how long a worker waits that gets nothing.
const TICK: Duration = Duration::from_millis(10);
/// Parts of the time that are judged, at its end; the middle one of them counts.
const WINDOWS: u32 = 3;
/// How much longer a call may take.
const TIMES_MAX: f64 = 2.0;

/// How long calls took in a window.
#[derive(Default)]
struct Times {
    claims: Vec<Duration>,
    settles: Vec<Duration>,
}

/// Tasks that come and go in one database.
struct Site {
    store: PostgresStore,
    times: Mutex<Times>,
}

pub(crate) fn prove(arguments: impl Iterator<Item = String>) -> ExitCode {
    exit::code("churn", test(arguments))
}

fn test(mut arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let mut number = |otherwise: u32| arguments.next().map_or(Ok(otherwise), |text| text.parse());
    let (seconds, rate) = (number(60)?.max(6), number(500)?.max(100));
    let runtime = Runtime::new()?;
    let server = TestServer::start(Care::Durable)?;
    let addresses = [server.new_database()?, server.new_database()?];
    let mut sites = Vec::new();
    for address in &addresses {
        let store = runtime.block_on(PostgresStore::open(address, &Default::default()))?;
        sites.push(Arc::new(Site { store, times: Mutex::default() }));
    }
    // None of them ends by itself, unless a call fails.
    let mut callers: Vec<JoinHandle<()>> = Vec::new();
    for site in &sites {
        callers.push(runtime.spawn(produce(Arc::clone(site), rate, draft()?)));
        callers.extend((0..WORKERS).map(|_| runtime.spawn(work(Arc::clone(site)))));
    }
    println!("churn: {rate} tasks a second in each of two databases, for {seconds} s");
    std::thread::sleep(Duration::from_secs(2));
    let [_, watched] = &addresses;
    let mut snapshot = Snapshot::hold(watched)?;
    let window = Duration::from_secs(u64::from(seconds)) / (2 * WINDOWS);
    std::thread::sleep(window * WINDOWS);
    let ratios = compare(&sites, window);
    let held = snapshot.is_held();
    drop(snapshot);
    let failed = callers.iter().filter(|caller| caller.is_finished()).count();
    callers.iter().for_each(JoinHandle::abort);
    runtime.shutdown_timeout(Duration::from_secs(5));
    drop(server);
    if !held {
        return Err("the snapshot was not held to the end".into());
    }
    Ok(conclude(ratios, failed))
}

/// How many times as long claims and settles took beside the snapshot, in each window.
fn compare(sites: &[Arc<Site>], window: Duration) -> [Vec<f64>; 2] {
    let mut ratios = [Vec::new(), Vec::new()];
    for _ in 0..WINDOWS {
        sites.iter().for_each(|site| drop(site.take()));
        std::thread::sleep(window);
        let [quiet, beside] =
            [0, 1].map(|at: usize| sites.get(at).map_or_else(Times::default, |site| site.take()));
        let pairs =
            [("claim", quiet.claims, beside.claims), ("settle", quiet.settles, beside.settles)];
        for ((name, quiet, beside), ratios) in pairs.into_iter().zip(&mut ratios) {
            let (quiet, beside) = (Spread::of(&quiet), Spread::of(&beside));
            println!("  {name}: {quiet}; beside the snapshot {beside}");
            ratios.push(beside.p99 / quiet.p99);
        }
    }
    ratios
}

/// Says what came of it.
fn conclude(ratios: [Vec<f64>; 2], failed: usize) -> bool {
    let [claims, settles] = ratios.map(middle);
    let figures =
        format!("p99 of claims × {claims:.2}, of settles × {settles:.2} (at most {TIMES_MAX})");
    let well = failed == 0 && claims <= TIMES_MAX && settles <= TIMES_MAX;
    match well {
        true => println!("churn: {figures}: passed"),
        false => println!("churn: FAILED: {figures}; {failed} of those who call have stopped"),
    }
    well
}

/// A transaction that looks at a moment and does not end before this does.
struct Snapshot {
    client: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Tasks that it saw at first.
    tasks: String,
}

impl Snapshot {
    fn hold(address: &str) -> Result<Self, Failure> {
        let mut client = Program::new("psql");
        client.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]).arg(address);
        let client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut client = client.map_err(|error| format!("psql: {error}"))?;
        let (Some(input), Some(output)) = (client.stdin.take(), client.stdout.take()) else {
            return Err("psql has no pipes".into());
        };
        let output = BufReader::new(output);
        let mut snapshot = Self { client, input, output, tasks: String::new() };
        snapshot.input.write_all(b"BEGIN ISOLATION LEVEL REPEATABLE READ;\n")?;
        snapshot.tasks = snapshot.count().ok_or("psql does not count tasks")?;
        Ok(snapshot)
    }

    /// Whether it still looks at the moment at which it began.
    fn is_held(&mut self) -> bool {
        self.count().is_some_and(|tasks| tasks == self.tasks)
    }

    fn count(&mut self) -> Option<String> {
        self.input.write_all(b"SELECT count(*) FROM tasklane.task;\n").ok()?;
        let mut line = String::new();
        self.output.read_line(&mut line).ok()?;
        Some(line).filter(|line| line.trim().parse::<u64>().is_ok())
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

impl Site {
    fn take(&self) -> Times {
        std::mem::take(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, note: impl FnOnce(&mut Times)) {
        note(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn draft() -> Result<Draft, Failure> {
    Ok(NewTask::new(TaskType::new("churn")?, "1").resolve(&Policies::default())?)
}

async fn produce(site: Arc<Site>, rate: u32, draft: Draft) {
    let count = (rate as usize * TICK.as_millis() as usize / 1_000).max(1);
    let mut tick = tokio::time::interval(TICK);
    loop {
        tick.tick().await;
        let submission = Submission { tasks: vec![draft.clone(); count] };
        if site.store.submit(vec![submission]).await.is_err() {
            return eprintln!("churn: a submission failed");
        }
    }
}

async fn work(site: Arc<Site>) {
    let Some(worker) = register(&site.store).await else {
        return eprintln!("churn: a worker was not registered");
    };
    loop {
        let request = ClaimRequest { worker, count: HANDFUL, auto_start: true, narrowed: None };
        let begun = Instant::now();
        let Ok(claimed) = site.store.claim(vec![request]).await else {
            return eprintln!("churn: a claim failed");
        };
        let took = begun.elapsed();
        let Ok(claimed) = claimed.into_iter().collect::<Result<Vec<_>, _>>() else {
            return eprintln!("churn: a claim was refused");
        };
        let claimed = claimed.concat();
        if claimed.is_empty() {
            tokio::time::sleep(TICK).await;
            continue;
        }
        site.note(|times| times.claims.push(took));
        let begun = Instant::now();
        let settles = claimed.iter().filter_map(complete).collect();
        let Ok(settled) = site.store.execute(settles).await else {
            return eprintln!("churn: a settle failed");
        };
        if settled.len() != claimed.len() || settled.iter().any(Result::is_err) {
            return eprintln!("churn: a settle was refused");
        }
        site.note(|times| times.settles.push(begun.elapsed()));
    }
}

async fn register(store: &PostgresStore) -> Option<WorkerId> {
    let spec = WorkerSpec::new(Selection::default(), 100).ok()?;
    store.register(spec).await.ok()
}

fn complete(claimed: &Claimed) -> Option<Command> {
    let token = claimed.task.state.lease()?.token;
    let outcome = Outcome::Completed("true".into());
    Some(Command { task: claimed.task.id, intent: Intent::Settle(token, outcome) })
}

/// In milliseconds.
struct Spread {
    count: usize,
    p50: f64,
    p99: f64,
}

impl Spread {
    fn of(times: &[Duration]) -> Self {
        // Of nothing there is no time, and none that would be good.
        let at = |share| match times.is_empty() {
            true => f64::NAN,
            false => percentile(times, share).as_secs_f64() * 1e3,
        };
        Self { count: times.len(), p50: at(0.5), p99: at(0.99) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { count, p50, p99 } = self;
        write!(f, "{count} calls, p50 {p50:.1} ms, p99 {p99:.1} ms")
    }
}

fn middle(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_unstable_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}
