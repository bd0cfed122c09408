//! From a submission to a reader of live events (SSE on `/api/v1/events`).

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::meter::Meter;
use crate::pool::Pool;
use crate::producer::Producer;
use crate::request;
use crate::settings::Settings;
use crate::stream::Stream;
use crate::worker::text_after;

/// Its own type, so that other workers leave its tasks alone.
const TYPE: &str = "events";

pub(crate) fn run(settings: &Settings) {
    let mut pool = Pool::new();
    let reader = pool.open(settings.address);
    pool.make_stream(reader);
    pool.send(reader, &request::bare("GET", &settings.host, "/api/v1/events", "text/event-stream"));
    let mut producer = Producer::start(&mut pool, settings);
    let mut meter = Meter::start(settings);
    let mut stream = Stream::default();
    let mut sent: Vec<Instant> = Vec::new();
    let mut seen = 0;
    // Ids of this run's own, whose ends count the tasks: an event may come before the answer.
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let (high, low) = (now_ms >> 16, now_ms & 0xffff);
    let prefix = format!("{high:08x}-{low:04x}-7000-8000-");
    let (mut is_submitted, mut over) = (false, false);
    loop {
        let ready = pool.next_ready(producer.patience());
        if ready.is_none() && over {
            break;
        }
        over = producer.send_due(&mut pool, || {
            let count = sent.len();
            let id = format!(r#""id":"{prefix}{count:012x}","#);
            let body = request::task(settings, TYPE, &id);
            sent.push(Instant::now());
            request::post(&settings.host, "/api/v1/tasks", body.as_bytes())
        });
        match ready {
            Some(index) if index == reader => {
                pool.connection(reader).take_bytes(&mut stream.raw);
                stream.lines(|line| {
                    if let Some(name) = line.strip_prefix(b"event:") {
                        is_submitted = name.trim_ascii() == b"task.submitted";
                    } else if line.starts_with(b"data:") && is_submitted {
                        let id = text_after(line, 0, br#""task_id":""#).expect("a task");
                        let Some(count) = line[id].strip_prefix(prefix.as_bytes()) else { return };
                        let count = std::str::from_utf8(count).unwrap();
                        meter.note(sent[usize::from_str_radix(count, 16).unwrap()], 1);
                        seen += 1;
                    }
                });
            }
            Some(index) => assert!(producer.takes(&pool, index)),
            None => {}
        }
        if over && seen == sent.len() {
            break;
        }
    }
    meter.note_refused(sent.len() - seen);
    meter.report(&format!("events at {}/s", settings.rate));
}
