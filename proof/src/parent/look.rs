//! A look at the store between two lives: its own check, a drain, and the checker.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tasklane_core::SeededRandom;
use tasklane_store::conformance::block_on;
use tasklane_store::{Store, maintain};

use super::line::{Caller, Direct, Gone, guard};
use super::load::Known;
use crate::Failure;
use crate::checker::{self, Counts, Verdict, Violation};
use crate::content::{self, Stored};
use crate::history::{Answer, Ending, History, Hold, Operation};
use crate::place::Place;

/// Workers of a drain: enough for a commit to carry many settles.
const DRAINERS: usize = 48;
/// Of a database: as many as it serves within the time of a lease.
const DRAINERS_OF_DATABASE: usize = 10;
/// Tasks that one of them claims at once.
const CLAIM_TASKS: usize = 16;
/// What has not ended after this long is stuck, and so much longer for each task there is.
const DRAIN_MAX: Duration = Duration::from_secs(60);
const DRAIN_EACH_MAX: Duration = Duration::from_millis(1);
const DRAIN_PAUSE: Duration = Duration::from_millis(2);
/// Tasks of one submission of a fill.
const FILL_TASKS: u64 = 1_000;

/// What a look found.
pub(super) struct Looked {
    pub(super) verdict: Verdict,
    /// What the history amounted to before the drain.
    pub(super) before: Counts,
    /// Every task, as it is in the end.
    pub(super) content: Vec<Stored>,
}

/// Opens the store, checks it, works off all that is left and judges what there is then.
pub(super) fn look(
    place: &Place,
    history: &Mutex<History>,
    history_path: &Path,
) -> Result<Looked, Failure> {
    let store = place.open()?;
    let before = checker::count(&History::read(history_path)?);
    let mut findings = findings(&store, "after the kill")?;
    drain(place, &store, history)?;
    findings.extend(self::findings(&store, "after the drain")?);
    guard(history).sync()?;
    let content = content::read(&store)?;
    let mut verdict = checker::check(&History::read(history_path)?, &content);
    verdict.violations.extend(findings);
    Ok(Looked { verdict, before, content })
}

/// Submits tasks before the first life, so that restarts meet a full store.
pub(super) fn fill(
    place: &Place,
    history: &Mutex<History>,
    known: &Known,
    tasks: u64,
    random: &mut SeededRandom,
) -> Result<(), Failure> {
    let store = place.open()?;
    let direct = Direct { place, history, store: &store };
    let mut left = tasks;
    while left > 0 {
        let count = left.min(FILL_TASKS);
        let plans = (0..count).map(|_| known.numbers.plan(random)).collect();
        direct.call(0, &Operation::Submit(plans)).map_err(|Gone| "the history failed")?;
        left -= count;
    }
    Ok(())
}

fn findings(store: &Arc<dyn Store>, when: &str) -> Result<Vec<Violation>, Failure> {
    let findings = block_on(store.check())?;
    let violation = |finding: &tasklane_store::Finding| {
        Violation::trouble(format!("check {when}: {}: {}", finding.place, finding.problem))
    };
    Ok(findings.iter().map(violation).collect())
}

/// Completes tasks until none is live, or until time is up; the checker names what is left.
fn drain(place: &Place, store: &Arc<dyn Store>, history: &Mutex<History>) -> Result<(), Failure> {
    let (direct, drained) = (&Direct { place, history, store }, &AtomicBool::new(false));
    let (drainers, drain_max) = match place {
        Place::Folder(_) => (DRAINERS, DRAIN_MAX),
        Place::Postgres(_) | Place::Redis(_) => (DRAINERS_OF_DATABASE, DRAIN_MAX * 20),
    };
    let live = u32::try_from(content::live(store)?).unwrap_or(u32::MAX);
    let drain_max = drain_max + DRAIN_EACH_MAX * live;
    std::thread::scope(|scope| {
        let drainers: Vec<_> = (0..drainers)
            .map(|connection| scope.spawn(move || drain_some(direct, connection, drained)))
            .collect();
        let waited = wait_until_drained(store, drain_max);
        drained.store(true, Ordering::Relaxed);
        for drainer in drainers {
            let drained = drainer.join().map_err(|_| "a worker of the drain panicked")?;
            drained.map_err(|Gone| "the history failed")?;
        }
        waited
    })
}

fn wait_until_drained(store: &Arc<dyn Store>, drain_max: Duration) -> Result<(), Failure> {
    let started = Instant::now();
    while started.elapsed() < drain_max {
        block_on(maintain(&**store))?;
        if content::live(store)? == 0 {
            return Ok(());
        }
        std::thread::sleep(DRAIN_PAUSE);
    }
    Ok(())
}

fn drain_some(direct: &Direct<'_>, connection: usize, drained: &AtomicBool) -> Result<(), Gone> {
    let Answer::Registered(worker) = direct.call(connection, &Operation::Register)? else {
        return Ok(());
    };
    while !drained.load(Ordering::Relaxed) {
        let claim = Operation::Claim { worker, count: CLAIM_TASKS, auto_start: true };
        let Answer::Claimed(grants) = direct.call(connection, &claim)? else { return Ok(()) };
        if grants.is_empty() {
            std::thread::sleep(DRAIN_PAUSE);
        }
        for grant in grants {
            let hold = Hold { task: grant.task, token: grant.token };
            direct.call(connection, &Operation::Settle(hold, Ending::Completed))?;
        }
    }
    Ok(())
}
