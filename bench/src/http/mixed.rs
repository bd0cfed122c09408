//! Submitting and draining at once, each task drained that was submitted: the backlog stays.

use std::time::{Duration, Instant};

use crate::meter::Meter;
use crate::pool::Pool;
use crate::request;
use crate::settings::Settings;
use crate::submit;
use crate::worker::{Wish, Worker};

pub(crate) fn run(settings: &Settings) {
    let mut pool = Pool::new();
    let register = |_| Worker::register(&mut pool, settings, "bench", settings.batch);
    let mut workers: Vec<Worker> = (0..settings.workers).map(register).collect();
    let connections: Vec<usize> =
        (0..settings.connections).map(|_| pool.open(settings.address)).collect();
    let request = request::submission(settings, 1);
    let (mut submits, mut drains) = (Meter::start(settings), Meter::start(settings));
    let until = Instant::now() + settings.time + settings.warm_up;
    for index in &connections {
        pool.send(*index, &request);
    }
    let mut under_way = connections.len();
    // Submitted and not asked for yet; workers with nothing to do; tasks each asked for, reported.
    let mut left = 0;
    let mut idle: Vec<usize> = (0..workers.len()).collect();
    let mut turns = vec![(0, 0); workers.len()];
    while under_way > 0 {
        let index = pool.next_ready(Duration::from_secs(30)).expect("an answer");
        under_way -= 1;
        let answer = pool.answer(index);
        let going = Instant::now() < until;
        if let Some(worker) = workers.get_mut(index) {
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(answer.body));
            let (asked, reported) = turns[index];
            drains.note(answer.sent_at, reported);
            drains.note_refused(worker.refused(&pool));
            let held = worker.take(&pool);
            left += asked - held;
            if held == 0 {
                idle.push(index);
            } else {
                let tasks = if going { settings.batch.min(left) } else { 0 };
                left -= tasks;
                turns[index] = (tasks, held);
                worker.turn(&mut pool, (tasks > 0).then_some(Wish { tasks, wait_ms: 0 }));
                under_way += 1;
            }
        } else {
            if answer.status == 201 {
                submits.note(answer.sent_at, 1);
                left += 1;
            } else {
                submit::refused(answer.status, answer.body);
                submits.note_refused(1);
            }
            if going {
                pool.send(index, &request);
                under_way += 1;
            }
        }
        // A worker is woken for a whole batch: fewer, fuller calls, as long polls make them.
        while going && left >= settings.batch {
            let Some(index) = idle.pop() else { break };
            left -= settings.batch;
            turns[index] = (settings.batch, 0);
            workers[index].turn(&mut pool, Some(Wish { tasks: settings.batch, wait_ms: 0 }));
            under_way += 1;
        }
    }
    submits.report("mixed submit by 1");
    drains.report(&format!("mixed drain by {}", settings.batch));
    for worker in &workers {
        worker.leave(&mut pool);
    }
}
