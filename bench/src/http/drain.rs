//! Workers that report a batch and claim the next in one call.

use std::time::Duration;

use crate::meter::Meter;
use crate::pool::Pool;
use crate::settings::Settings;
use crate::submit;
use crate::worker::{Wish, Worker};

/// Polls in a row that may bring nothing before the queue counts as empty.
const EMPTY_MAX: usize = 1_000;

pub(crate) fn run(settings: &Settings) {
    if !settings.filled {
        submit::fill(settings, settings.tasks);
    }
    let mut pool = Pool::new();
    let register = |_| Worker::register(&mut pool, settings, "bench", settings.batch);
    let mut workers: Vec<Worker> = (0..settings.workers).map(register).collect();
    let mut meter = Meter::start(settings);
    // Tasks nobody has asked for yet; calls under way; tasks asked for and reported by each.
    let (mut left, mut under_way, mut empty) = (settings.tasks, 0, 0);
    let mut turns = vec![(0, 0); workers.len()];
    for (worker, turn) in workers.iter_mut().zip(&mut turns) {
        under_way += begin(&mut pool, worker, turn, 0, &mut left, settings.batch);
    }
    while under_way > 0 {
        let index = pool.next_ready(Duration::from_secs(30)).expect("an answer");
        under_way -= 1;
        // Workers opened their connections in order.
        let (worker, turn) = (&mut workers[index], &mut turns[index]);
        let answer = pool.answer(index);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(answer.body));
        let (asked, reported) = *turn;
        meter.note(answer.sent_at, reported);
        meter.note_refused(worker.refused(&pool));
        let held = worker.take(&pool);
        left += asked - held;
        empty = if held == 0 && asked > 0 { empty + 1 } else { 0 };
        if empty > EMPTY_MAX {
            println!("drain: the queue ran empty with {left} tasks to go");
            left = 0;
        }
        under_way += begin(&mut pool, worker, turn, held, &mut left, settings.batch);
    }
    meter.report(&format!("drain by {}", settings.batch));
    for worker in &workers {
        worker.leave(&mut pool);
    }
}

/// Sends a worker's next call, if it has anything to say; gives how many calls that is.
fn begin(
    pool: &mut Pool,
    worker: &mut Worker,
    turn: &mut (usize, usize),
    held: usize,
    left: &mut usize,
    batch: usize,
) -> usize {
    let tasks = batch.min(*left);
    if tasks == 0 && held == 0 {
        return 0;
    }
    *left -= tasks;
    *turn = (tasks, held);
    worker.turn(pool, (tasks > 0).then_some(Wish { tasks, wait_ms: 0 }));
    1
}
