//! Submitting and draining at once, each task drained that was submitted: the backlog stays.

use std::time::Instant;

use super::Outcome;
use crate::bench::engine::{Pool, Submissions, Wish, Worker};
use crate::bench::figure::{Meter, Progress, Whole};
use crate::bench::plan::Plan;
use crate::bench::stop;

/// Tasks of a worker's call under an overload.
const OVERLOAD_DRAIN_BATCH: usize = 10;

/// Tasks of a submission, and of a worker's call.
#[derive(Clone, Copy)]
struct Batches {
    submit: usize,
    drain: usize,
}

/// As much as goes through.
pub(crate) fn end_to_end(plan: &Plan) -> anyhow::Result<Outcome> {
    run(plan, Batches { submit: 1, drain: plan.batch }, "end-to-end")
}

/// Callers with large batches that do not wait when they are refused, beside workers: the server
/// should refuse what it cannot take, and serve workers first (S20).
pub(crate) fn overload(plan: &Plan) -> anyhow::Result<Outcome> {
    run(plan, Batches { submit: plan.batch, drain: OVERLOAD_DRAIN_BATCH }, "overload")
}

struct Load {
    pool: Pool,
    workers: Vec<Worker>,
    /// Tasks that each worker asked for and reported in its call.
    turns: Vec<(usize, usize)>,
    /// Workers with nothing to do.
    idle: Vec<usize>,
    /// Submitted and not asked for yet.
    left: usize,
    under_way: usize,
    submits: Meter,
    drains: Meter,
    submitted: u64,
    completed: u64,
}

fn run(plan: &Plan, batches: Batches, name: &str) -> anyhow::Result<Outcome> {
    let mut pool = Pool::new(&plan.route)?;
    let workers = Worker::register_all(&mut pool, plan, batches.drain)?;
    let connections = pool.open_all(plan.connections)?;
    let mut submissions = Submissions::new(plan, batches.submit);
    let time = plan.time + plan.warm_up;
    let until = Instant::now() + time;
    let mut load = Load {
        turns: vec![(0, 0); workers.len()],
        idle: (0..workers.len()).collect(),
        left: 0,
        under_way: connections.len(),
        submits: Meter::start(plan, format!("{name} submit by {}", batches.submit))
            .with_progress(Progress::start(name, Whole::Time(time))),
        drains: Meter::start(plan, format!("{name} drain by {}", batches.drain)),
        submitted: 0,
        completed: 0,
        pool,
        workers,
    };
    for index in connections {
        load.pool.send(index, submissions.next())?;
    }
    while load.under_way > 0 {
        let index = load.pool.next_answered()?;
        load.under_way -= 1;
        let going = Instant::now() < until && !stop::is_asked();
        if index < load.workers.len() {
            load.take_report(index, if going { batches.drain } else { 0 })?;
        } else {
            load.take_submission(index, batches.submit)?;
            if going {
                load.pool.send(index, submissions.next())?;
                load.under_way += 1;
            }
        }
        if going {
            load.wake(batches.drain)?;
        }
    }
    for worker in &load.workers {
        worker.leave(&mut load.pool)?;
    }
    let Load { submits, drains, submitted, completed, .. } = load;
    Ok(Outcome { meters: vec![submits, drains], submitted, completed })
}

impl Load {
    fn take_submission(&mut self, index: usize, batch: usize) -> anyhow::Result<()> {
        let answer = self.pool.answer(index)?;
        if answer.status != 201 {
            return self.submits.note_failed(answer);
        }
        self.submits.note(answer.sent_at, batch);
        self.submitted += batch as u64;
        self.left += batch;
        Ok(())
    }

    /// Takes a worker's answer, and has it report what came and ask for up to `batch` more.
    fn take_report(&mut self, index: usize, batch: usize) -> anyhow::Result<()> {
        let (Some(worker), Some(turn)) = (self.workers.get_mut(index), self.turns.get_mut(index))
        else {
            return Ok(());
        };
        let answer = self.pool.answer(index)?;
        if answer.status != 200 {
            self.drains.note_failed(answer)?;
            self.under_way += 1;
            return worker.again(&mut self.pool);
        }
        let (asked, reported) = *turn;
        self.drains.note(answer.sent_at, reported);
        let refused = worker.refused(&self.pool)?;
        self.drains.note_wrong("report refused", refused);
        self.completed += reported.saturating_sub(refused) as u64;
        let held = worker.take(&self.pool)?;
        self.left += asked - held;
        if held == 0 {
            self.idle.push(index);
            return Ok(());
        }
        let tasks = batch.min(self.left);
        self.left -= tasks;
        *turn = (tasks, held);
        self.under_way += 1;
        worker.turn(&mut self.pool, (tasks > 0).then_some(Wish { tasks, wait_ms: 0 }))
    }

    /// A worker is woken for a whole batch: fewer, fuller calls, as long polls make them.
    fn wake(&mut self, batch: usize) -> anyhow::Result<()> {
        while self.left >= batch
            && let Some(index) = self.idle.pop()
        {
            let (Some(worker), Some(turn)) =
                (self.workers.get_mut(index), self.turns.get_mut(index))
            else {
                continue;
            };
            self.left -= batch;
            *turn = (batch, 0);
            self.under_way += 1;
            worker.turn(&mut self.pool, Some(Wish { tasks: batch, wait_ms: 0 }))?;
        }
        Ok(())
    }
}
