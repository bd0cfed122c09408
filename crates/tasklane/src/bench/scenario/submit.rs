//! Submitting as fast as the connections allow.

use std::time::{Duration, Instant};

use super::Outcome;
use crate::bench::engine::{Pool, Submissions};
use crate::bench::figure::{Meter, Progress, Whole};
use crate::bench::plan::Plan;
use crate::bench::stop;

/// Tasks of one call and connections of a fill.
const FILL_BATCH: usize = 1_000;
const FILL_CONNECTIONS: usize = 4;

pub(crate) fn run(plan: &Plan) -> anyhow::Result<Outcome> {
    let time = plan.time + plan.warm_up;
    let whole = match plan.tasks {
        usize::MAX => Whole::Time(time),
        tasks => Whole::Tasks(tasks),
    };
    // Who names a number of tasks wants them all.
    let time = if plan.tasks == usize::MAX { time } else { Duration::MAX };
    drive(plan, plan.batch, plan.connections, plan.tasks, time, whole)
}

/// Makes `count` more tasks wait; gives how many were taken.
pub(crate) fn fill(plan: &Plan, count: usize) -> anyhow::Result<u64> {
    let (whole, rest) = (count - count % FILL_BATCH, count % FILL_BATCH);
    let mut submitted = 0;
    for (batch, connections, tasks) in [(FILL_BATCH, FILL_CONNECTIONS, whole), (rest, 1, rest)] {
        if tasks > 0 {
            let progress = Whole::Tasks(tasks);
            let outcome = drive(plan, batch, connections, tasks, Duration::MAX, progress)?;
            submitted += outcome.submitted;
        }
    }
    Ok(submitted)
}

/// Submits until `tasks` were sent or the time is over.
fn drive(
    plan: &Plan,
    batch: usize,
    connections: usize,
    tasks: usize,
    time: Duration,
    whole: Whole,
) -> anyhow::Result<Outcome> {
    let mut submissions = Submissions::new(plan, batch);
    let mut pool = Pool::new(&plan.route)?;
    let connections = pool.open_all(connections)?;
    let mut meter = Meter::start(plan, format!("submit by {batch}"))
        .with_progress(Progress::start("submit", whole));
    let started = Instant::now();
    let (mut left, mut under_way, mut submitted) = (tasks, 0, 0);
    let mut begin = |pool: &mut Pool, index| -> anyhow::Result<usize> {
        let sends = left >= batch && started.elapsed() < time && !stop::is_asked();
        if sends {
            left -= batch;
            pool.send(index, submissions.next())?;
        }
        Ok(usize::from(sends))
    };
    for index in connections {
        under_way += begin(&mut pool, index)?;
    }
    while under_way > 0 {
        let index = pool.next_answered()?;
        under_way -= 1;
        let answer = pool.answer(index)?;
        if answer.status == 201 {
            meter.note(answer.sent_at, batch);
            submitted += batch as u64;
        } else {
            meter.note_failed(answer)?;
        }
        under_way += begin(&mut pool, index)?;
    }
    Ok(Outcome { meters: vec![meter], submitted, completed: 0 })
}
