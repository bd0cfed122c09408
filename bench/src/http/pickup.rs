//! From a submission to its worker: how long that takes with a worker waiting.

use std::time::{Duration, Instant};

use crate::meter::Meter;
use crate::pool::Pool;
use crate::producer::Producer;
use crate::request;
use crate::settings::Settings;
use crate::worker::{Wish, Worker, text_after};

/// Its own type, so that what else is queued is not for its worker.
const TYPE: &str = "pickup";
const WISH: Wish = Wish { tasks: 10, wait_ms: 1_000 };

pub(crate) fn run(settings: &Settings) {
    let mut pool = Pool::new();
    let mut worker = Worker::register(&mut pool, settings, TYPE, 2 * WISH.tasks);
    let mut producer = Producer::start(&mut pool, settings);
    let mut meter = Meter::start(settings);
    let started = Instant::now();
    worker.turn(&mut pool, Some(WISH));
    let mut over = false;
    loop {
        let ready = pool.next_ready(producer.patience().min(Duration::from_secs(2)));
        if ready.is_none() && over {
            break;
        }
        over = producer.send_due(&mut pool, || {
            // The time goes with the task as a label, and comes back with it.
            let sent = started.elapsed().as_nanos();
            let label = format!(r#""metadata":{{"sent":"{sent:020}"}},"#);
            let body = request::task(settings, TYPE, &label);
            request::post(&settings.host, "/api/v1/tasks", body.as_bytes())
        });
        let Some(index) = ready else { continue };
        if producer.takes(&pool, index) {
            continue;
        }
        let answer = pool.answer(index);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(answer.body));
        let (mut at, body) = (0, answer.body);
        while let Some(sent) = text_after(body, at, br#""sent":""#) {
            at = sent.end;
            let sent: u64 = std::str::from_utf8(&body[sent]).unwrap().parse().unwrap();
            meter.note(started + Duration::from_nanos(sent), 1);
        }
        if worker.take(&pool) == 0 && over {
            break;
        }
        worker.turn(&mut pool, Some(WISH));
    }
    meter.report(&format!("pickup at {}/s", settings.rate));
    worker.leave(&mut pool);
}
