//! From a submission to its worker: how long that takes with a worker waiting.

use std::time::{Duration, Instant};

use crate::meter::Meter;
use crate::pool::Pool;
use crate::producer::Producer;
use crate::request;
use crate::settings::Settings;
use crate::worker::{Wish, Worker, text_after};

const WISH: Wish = Wish { tasks: 10, wait_ms: 1_000 };

pub(crate) fn run(settings: &Settings) {
    // A type of this run's own, so that what else is queued is not for its worker.
    let task_type = format!("pickup.{}", std::process::id());
    let mut pool = Pool::new();
    let mut worker = Worker::register(&mut pool, settings, &task_type, 2 * WISH.tasks);
    let mut producer = Producer::start(&mut pool, settings);
    let mut meter = Meter::start(settings);
    let started = Instant::now();
    worker.turn(&mut pool, Some(WISH));
    let (mut over, mut sent_count, mut came) = (false, 0, 0);
    loop {
        let ready = pool.next_ready(producer.patience());
        if ready.is_none() && over {
            break;
        }
        over = producer.send_due(&mut pool, || {
            // The time goes with the task as a label, and comes back with it.
            sent_count += 1;
            let sent = started.elapsed().as_nanos();
            let label = format!(r#""metadata":{{"sent":"{sent:020}"}},"#);
            let body = request::task(settings, &task_type, &label);
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
        came += worker.take(&pool);
        let last = over && came == sent_count;
        worker.turn(&mut pool, (!last).then_some(WISH));
        if last {
            pool.wait_for(index);
            break;
        }
    }
    meter.note_refused(sent_count - came);
    meter.report(&format!("pickup at {}/s", settings.rate));
    worker.leave(&mut pool);
}
