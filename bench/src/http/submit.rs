//! Submitting as fast as the connections allow.

use std::time::{Duration, Instant};

use crate::meter::Meter;
use crate::pool::Pool;
use crate::request;
use crate::settings::Settings;

/// Tasks of one call and connections of a fill.
const FILL_BATCH: usize = 1_000;
const FILL_CONNECTIONS: usize = 4;

pub(crate) fn run(settings: &Settings) {
    let whole = settings.time + settings.warm_up;
    let meter = drive(settings, settings.batch, settings.connections, settings.tasks, whole);
    meter.report(&format!("submit by {}", settings.batch));
}

/// Makes `count` more tasks wait.
pub(crate) fn fill(settings: &Settings, count: usize) {
    let batch = FILL_BATCH.min(count.max(1));
    let calls = count / batch;
    if calls > 0 {
        drive(settings, batch, FILL_CONNECTIONS, calls * batch, Duration::MAX);
    }
    if !count.is_multiple_of(batch) {
        drive(settings, count % batch, 1, count % batch, Duration::MAX);
    }
}

/// Submits until `tasks` were sent or the time is over.
fn drive(
    settings: &Settings,
    batch: usize,
    connections: usize,
    tasks: usize,
    time: Duration,
) -> Meter {
    let request = request::submission(settings, batch);
    let mut pool = Pool::new();
    let connections: Vec<usize> = (0..connections).map(|_| pool.open(settings.address)).collect();
    let mut meter = Meter::start(settings);
    let started = Instant::now();
    let (mut left, mut under_way) = (tasks, 0);
    let mut wants = |pool: &mut Pool, index| {
        let sends = left >= batch && started.elapsed() < time;
        if sends {
            left -= batch;
            pool.send(index, &request);
        }
        usize::from(sends)
    };
    for index in connections {
        under_way += wants(&mut pool, index);
    }
    while under_way > 0 {
        let index = pool.next_ready(Duration::from_secs(30)).expect("an answer");
        under_way -= 1;
        let answer = pool.answer(index);
        if answer.status == 201 {
            meter.note(answer.sent_at, batch);
        } else {
            refused(answer.status, answer.body);
            meter.note_refused(1);
        }
        under_way += wants(&mut pool, index);
    }
    meter
}

/// A refusal that is no matter of load ends the run: figures of failing calls mean nothing.
pub(crate) fn refused(status: u16, body: &[u8]) {
    assert!(status == 503 || status == 429, "{status}: {}", String::from_utf8_lossy(body));
}
