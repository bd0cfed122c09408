//! Workers that report a batch and claim the next in one call.

use super::{Outcome, fill};
use crate::bench::engine::{Pool, Wish, Worker};
use crate::bench::figure::{Meter, Progress, Whole};
use crate::bench::plan::Plan;
use crate::bench::stop;

/// Polls in a row that may bring nothing before the queue counts as empty.
const EMPTY_MAX: usize = 1_000;

pub(crate) fn run(plan: &Plan) -> anyhow::Result<Outcome> {
    let submitted = if plan.filled { 0 } else { fill(plan, plan.tasks)? };
    let mut pool = Pool::new(&plan.route)?;
    let mut workers = Worker::register_all(&mut pool, plan, plan.batch)?;
    let mut meter = Meter::start(plan, format!("drain by {}", plan.batch))
        .with_progress(Progress::start("drain", Whole::Tasks(plan.tasks)));
    // Tasks nobody has asked for yet; calls under way; tasks asked for and reported by each.
    let (mut left, mut under_way, mut empty, mut completed) = (plan.tasks, 0, 0, 0);
    let mut turns = vec![(0, 0); workers.len()];
    for (worker, turn) in workers.iter_mut().zip(&mut turns) {
        under_way += begin(&mut pool, worker, turn, 0, &mut left, plan.batch)?;
    }
    while under_way > 0 {
        let index = pool.next_answered()?;
        under_way -= 1;
        // Workers opened their connections in order.
        let (Some(worker), Some(turn)) = (workers.get_mut(index), turns.get_mut(index)) else {
            continue;
        };
        let answer = pool.answer(index)?;
        if answer.status != 200 {
            meter.note_failed(answer)?;
            worker.again(&mut pool)?;
            under_way += 1;
            continue;
        }
        let (asked, reported) = *turn;
        meter.note(answer.sent_at, reported);
        let refused = worker.refused(&pool)?;
        meter.note_wrong("report refused", refused);
        completed += reported.saturating_sub(refused) as u64;
        let held = worker.take(&pool)?;
        left += asked - held;
        empty = if held == 0 && asked > 0 { empty + 1 } else { 0 };
        if empty > EMPTY_MAX {
            meter.note_wrong("task that was not there", left);
            (left, empty) = (0, 0);
        }
        if stop::is_asked() {
            left = 0;
        }
        under_way += begin(&mut pool, worker, turn, held, &mut left, plan.batch)?;
    }
    for worker in &workers {
        worker.leave(&mut pool)?;
    }
    Ok(Outcome { meters: vec![meter], submitted, completed })
}

/// Sends a worker's next call, if it has anything to say; gives how many calls that is.
fn begin(
    pool: &mut Pool,
    worker: &mut Worker,
    turn: &mut (usize, usize),
    held: usize,
    left: &mut usize,
    batch: usize,
) -> anyhow::Result<usize> {
    let tasks = batch.min(*left);
    if tasks == 0 && held == 0 {
        return Ok(0);
    }
    *left -= tasks;
    *turn = (tasks, held);
    worker.turn(pool, (tasks > 0).then_some(Wish { tasks, wait_ms: 0 }))?;
    Ok(1)
}
