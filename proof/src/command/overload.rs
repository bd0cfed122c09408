//! The overload test: ten times as much as a server can take, beside workers that go on (S20).
//!
//! `proof overload BINARY [SECONDS [ROUNDS]]`
//!
//! Ends with 0 if all that was promised held, with 1 if something did not, and with 2 if the test
//! itself could not run. All of it runs on one machine, so its parts are put in an order: the flood
//! is served last, the workers first, as if each had a machine of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tasklane_proof::http::flood::{self, Pressure, Tally};
use tasklane_proof::http::site::Site;
use tasklane_proof::http::worker::{self, Latencies};
use tasklane_proof::report::percentile;
use tasklane_proof::{Failure, exit};

/// What is offered, in terms of what can be taken.
const TIMES: u64 = 10;
/// Of what was taken at best, in percent.
const GOODPUT_MIN: u64 = 90;
/// Of heartbeats and results; or so many times what a server at its best takes in the same minutes,
/// where that is more.
const P99_MAX: Duration = Duration::from_millis(50);
const P99_TIMES_MAX: u32 = 3;
/// What the server may hold in memory beyond what it holds at its best, for each connection more: what
/// is read ahead of it, a body, an answer, and what the allocator keeps of them. What waits inside is
/// bounded by itself, whoever sends it.
const MEMORY_MORE_MAX: u64 = 256 * 1_024;
/// Where the rounds find fault, so many times as many decide, all of them together: the machine has
/// moods (docs/adr/0014-judging.md). Nothing is looked at in between, so that none of many looks passes by
/// luck.
const SECOND_THOUGHTS: u64 = 3;
/// Workers beside the flood.
const WORKERS: usize = 4;

/// A way to press.
struct Way {
    name: &'static str,
    /// Tasks of one call.
    tasks: u64,
    /// Connections with which a server is at its best.
    at_best: u64,
    /// Connections of the flood.
    at_worst: u64,
    /// The machine can make ten times as many calls as the server takes, so some are refused.
    /// Single calls cost a client what they cost the server: they wait on their connections.
    is_offered_in_full: bool,
}

const WAYS: [Way; 2] = [
    Way { name: "batches", tasks: 1_000, at_best: 16, at_worst: 1_000, is_offered_in_full: true },
    Way {
        name: "single tasks",
        tasks: 1,
        at_best: 100,
        at_worst: 1_000,
        is_offered_in_full: false,
    },
];

pub(crate) fn prove(arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut arguments = arguments.peekable();
    let outcome = if arguments.next_if(|first| first == "flood").is_some() {
        flood::serve(arguments).map(|()| true)
    } else {
        test(arguments)
    };
    exit::code("overload", outcome)
}

fn test(mut arguments: impl Iterator<Item = String>) -> Result<bool, Failure> {
    let binary = PathBuf::from(arguments.next().ok_or("proof overload BINARY [SECONDS [ROUNDS]]")?);
    let seconds = arguments.next().map_or(Ok(2), |text| text.parse::<u64>())?.max(1);
    let rounds = arguments.next().map_or(Ok(3), |text| text.parse())?;
    go_first();
    let mut holds = true;
    for way in &WAYS {
        holds &= way.test(&binary, seconds, rounds)?;
    }
    let end = if holds { "the server carries what it can and refuses the rest" } else { "FAILED" };
    println!("overload: {end}");
    Ok(holds)
}

/// Has the system serve this process, which is the workers, before others, where it lets us.
fn go_first() {
    let own = std::process::id().to_string();
    let renice =
        Command::new("renice").args(["-n", "-5", "-p", &own]).stdout(Stdio::null()).status();
    if !renice.is_ok_and(|status| status.success()) {
        println!("overload: the workers cannot go first: what they measure has waits of their own");
    }
}

impl Way {
    /// Whether all that is promised holds.
    fn test(&self, binary: &Path, seconds: u64, rounds: u64) -> Result<bool, Failure> {
        let Self { name, tasks, at_best, at_worst, is_offered_in_full } = *self;
        let (mut best, mut worst, mut shares) = (Measured::default(), Measured::default(), vec![]);
        // In turns, so that both see the same machine; what else it does makes some of them differ.
        for round in 1..=rounds * SECOND_THOUGHTS {
            let pressure = Pressure { tasks, connections: at_best, per_second: 0, seconds };
            let calm = measure(binary, pressure)?;
            let per_second = TIMES * calm.tally.taken / seconds;
            let pressure = Pressure { tasks, connections: at_worst, per_second, seconds };
            let pressed = measure(binary, pressure)?;
            shares.push(pressed.share_of(&calm));
            best.add(calm);
            worst.add(pressed);
            let is_well = worst.share_of(&best) >= GOODPUT_MIN && worst.is_soon(&best);
            if round == rounds && is_well && self.presses(&worst.tally, &best.tally) {
                break;
            }
        }
        best.show(name, "at its best", tasks);
        worst.show(name, "overloaded", tasks);
        let goodput = worst.share_of(&best);
        let [(heartbeat, heartbeat_max), (settle, settle_max)] = worst.p99_and_most(&best);
        let Tally { offered, answered, refused, wrong, .. } = worst.tally;
        let times = |calls: u64| calls as f64 / best.tally.taken.max(1) as f64;
        let more = worst.memory.saturating_sub(best.memory) >> 20;
        let more_max = (MEMORY_MORE_MAX * (at_worst - at_best)) >> 20;
        let checks = [
            (
                best.is_telling() && worst.is_telling(),
                "tasks were taken, and workers were heard".to_owned(),
            ),
            (
                goodput >= GOODPUT_MIN,
                format!("goodput {goodput} % of the best, at least {GOODPUT_MIN} ({shares:?})"),
            ),
            (
                self.presses(&worst.tally, &best.tally),
                format!(
                    "{:.1} times as much due, {:.1} times answered",
                    times(offered),
                    times(answered)
                ),
            ),
            (refused > 0 || !is_offered_in_full, format!("{refused} calls refused, to come again")),
            (wrong == 0, format!("{wrong} calls neither taken nor refused as they should")),
            (
                heartbeat <= heartbeat_max,
                format!("heartbeat p99 {heartbeat:.1?}, at most {heartbeat_max:.1?}"),
            ),
            (settle <= settle_max, format!("settle p99 {settle:.1?}, at most {settle_max:.1?}")),
            (more <= more_max, format!("{more} MiB of memory more, at most {more_max}")),
        ];
        for (holds, text) in &checks {
            println!("overload: {name}: {} {text}", if *holds { "ok  " } else { "FAIL" });
        }
        Ok(checks.iter().all(|(holds, _)| *holds))
    }

    /// Whether as much was due, and answered, as it takes to overload. The flood is served last: where
    /// it got no turn, little was.
    fn presses(&self, worst: &Tally, best: &Tally) -> bool {
        worst.offered >= best.taken * (TIMES - 1)
            && (!self.is_offered_in_full || worst.answered >= best.taken * TIMES / 2)
    }
}

/// What was seen of servers under one pressure.
#[derive(Default)]
struct Measured {
    tally: Tally,
    latencies: Latencies,
    /// Most that one of them held.
    memory: u64,
    /// How long processors have worked for them.
    worked: Duration,
}

impl Measured {
    fn add(&mut self, other: Self) {
        self.tally = self.tally.and(other.tally);
        self.latencies.heartbeat.extend(other.latencies.heartbeat);
        self.latencies.settle.extend(other.latencies.settle);
        self.memory = self.memory.max(other.memory);
        self.worked += other.worked;
    }

    /// What was taken of what others took in the same time, in percent. Of all rounds together: a machine
    /// that is slow for a second makes a single one worth little.
    fn share_of(&self, others: &Self) -> u64 {
        100 * self.tally.taken / others.tally.taken.max(1)
    }

    /// Whether there was anything to measure: of no calls at all none takes long.
    fn is_telling(&self) -> bool {
        let Latencies { heartbeat, settle } = &self.latencies;
        self.tally.taken > 0 && !heartbeat.is_empty() && !settle.is_empty()
    }

    /// Of heartbeats and of results.
    fn p99(&self) -> (Duration, Duration) {
        let Latencies { heartbeat, settle } = &self.latencies;
        (percentile(heartbeat, 0.99), percentile(settle, 0.99))
    }

    /// The same with what they may be, beside servers at their best.
    fn p99_and_most(&self, best: &Self) -> [(Duration, Duration); 2] {
        let most = |calm: Duration| P99_MAX.max(calm * P99_TIMES_MAX);
        let ((heartbeat, settle), calm) = (self.p99(), best.p99());
        [(heartbeat, most(calm.0)), (settle, most(calm.1))]
    }

    fn is_soon(&self, best: &Self) -> bool {
        self.p99_and_most(best).iter().all(|(took, most)| took <= most)
    }

    fn show(&self, name: &str, what: &str, tasks: u64) {
        let (heartbeat, settle) = self.p99();
        let Tally { offered, answered, taken, refused, .. } = self.tally;
        println!(
            "overload: {name} {what}: {offered} calls due, {answered} answered, {taken} taken, \
             {refused} refused; p99 of {} heartbeats {heartbeat:.1?}, of {} results {settle:.1?}; \
             {} MiB; {:.2?} of a processor for a task taken",
            self.latencies.heartbeat.len(),
            self.latencies.settle.len(),
            self.memory >> 20,
            self.worked.div_f64((taken * tasks).max(1) as f64),
        );
    }
}

/// One server under one pressure.
fn measure(binary: &Path, pressure: Pressure) -> Result<Measured, Failure> {
    let depth = "1000000000";
    let site = Site::start(
        binary,
        &[
            ("TASKLANE_QUEUE_DEFAULTS_DEPTH_LIMITS_NORMAL", depth),
            ("TASKLANE_QUEUE_DEFAULTS_DEPTH_LIMITS_HIGH", depth),
            ("TASKLANE_QUEUE_DEFAULTS_DEPTH_LIMITS_ALL", depth),
        ],
    )?;
    let own = std::env::current_exe()?;
    let (over, memory) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|_| scope.spawn(|| worker::run(site.address, &over))).collect();
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                memory.fetch_max(site.memory_bytes(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let tally = flood::run(&own, site.address, pressure);
        over.store(true, Ordering::Relaxed);
        let mut latencies = Latencies::default();
        for worker in workers {
            let own = worker.join().map_err(|_| "a worker stopped")??;
            latencies.heartbeat.extend(own.heartbeat);
            latencies.settle.extend(own.settle);
        }
        let memory = memory.load(Ordering::Relaxed);
        Ok(Measured { tally: tally?, latencies, memory, worked: site.worked() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_calls_may_take_is_more_where_the_machine_is_slow_at_its_best() {
        let measured = |ms| {
            let times = vec![Duration::from_millis(ms); 100];
            let latencies = Latencies { heartbeat: times.clone(), settle: times };
            Measured { latencies, ..Measured::default() }
        };
        for (best, worst, is_soon) in
            [(5, 50, true), (5, 51, false), (30, 90, true), (30, 91, false)]
        {
            assert_eq!(measured(worst).is_soon(&measured(best)), is_soon, "{best}, {worst}");
        }
    }
}
