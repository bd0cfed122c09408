//! At a given rate: from when a task is due to its answer, to the worker that waits for it, to its
//! completion, and to a reader of live events.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Outcome;
use crate::bench::engine::{Pool, Producer, Stream, Wish, Worker, bare, post, task, text_after};
use crate::bench::figure::{Meter, Progress, Whole};
use crate::bench::plan::Plan;

/// What has not come this long after the last thing that came counts as lost.
const GRACE: Duration = Duration::from_secs(2);
/// The same while there is something to read, which may be for others: the run itself may be what
/// is late.
const GRACE_BUSY: Duration = Duration::from_secs(30);
const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
    sec-websocket-key: dGFza2xhbmUgYmVuY2ggIQ==\r\n";
const WISH: Wish = Wish { tasks: 10, wait_ms: 1_000 };

struct Load {
    pool: Pool,
    worker: Worker,
    /// When each task was due, by its number.
    due: Vec<Instant>,
    /// Ids of this run's own, whose ends count the tasks: an event may come before the answer.
    prefix: String,
    /// Tasks that the worker has reported in the call under way.
    reported: Vec<usize>,
    held: Vec<usize>,
    answered: Meter,
    picked_up: Meter,
    completed: Meter,
    events: Option<Events>,
    submitted: u64,
    /// Submissions that were answered otherwise.
    failed: usize,
    /// When something came last.
    came_at: Instant,
}

struct Events {
    connection: usize,
    stream: Stream,
    is_submitted: bool,
    meter: Meter,
}

pub(crate) fn run(plan: &Plan) -> anyhow::Result<Outcome> {
    // A type of this run's own, so that what else is queued is not for its worker.
    let task_type = format!("bench.{}", std::process::id());
    let mut pool = Pool::new(&plan.route)?;
    let worker = Worker::register(&mut pool, plan, &task_type, 2 * WISH.tasks)?;
    let events = plan.events.then(|| Events::open(&mut pool, plan)).transpose()?;
    let mut producer = Producer::start(&mut pool, plan)?;
    let meter = |what: &str| Meter::start(plan, format!("{what} at {}/s", plan.rate));
    let mut load = Load {
        worker,
        due: Vec::new(),
        prefix: prefix(),
        reported: Vec::new(),
        held: Vec::new(),
        answered: meter("answer")
            .with_progress(Progress::start("latency", Whole::Time(plan.time + plan.warm_up))),
        picked_up: meter("pickup"),
        completed: meter("completion"),
        events,
        submitted: 0,
        failed: 0,
        came_at: Instant::now(),
        pool,
    };
    load.worker.turn(&mut load.pool, Some(WISH))?;
    let mut priorities = plan.priorities.iter().copied().cycle();
    loop {
        let ready = load.pool.next_ready(producer.patience())?;
        let (due, prefix) = (&mut load.due, &load.prefix);
        producer.send_due(&mut load.pool, |at| {
            let mut members = format!(r#""id":"{prefix}{:012x}","#, due.len());
            if !plan.delay.is_zero() {
                members += &format!(r#""delay_seconds":{},"#, plan.delay.as_secs_f64());
            }
            due.push(at + plan.delay);
            let priority = priorities.next().flatten();
            post(plan, "/api/v1/tasks", &task(plan, &task_type, priority, &members))
        })?;
        if let Some(index) = ready {
            if let Some(due) = producer.take(index) {
                load.take_answer(index, due)?;
            } else {
                load.take(index)?;
            }
        }
        let grace = if ready.is_some() { GRACE_BUSY } else { GRACE };
        if producer.is_over() && (load.is_done() || load.came_at.elapsed() > grace + plan.delay) {
            break;
        }
    }
    load.end()
}

impl Load {
    fn take_answer(&mut self, index: usize, due: Instant) -> anyhow::Result<()> {
        self.came_at = Instant::now();
        let answer = self.pool.answer(index)?;
        if answer.status == 201 {
            self.submitted += 1;
            self.answered.note(due, 1);
        } else {
            self.failed += 1;
            self.answered.note_failed(answer)?;
        }
        Ok(())
    }

    /// What came is for the worker, or events.
    fn take(&mut self, index: usize) -> anyhow::Result<()> {
        if let Some(events) = self.events.as_mut().filter(|events| events.connection == index) {
            let seen = events.seen();
            events.take(&mut self.pool, &self.prefix, &self.due)?;
            if events.seen() > seen {
                self.came_at = Instant::now();
            }
            return Ok(());
        }
        let answer = self.pool.answer(index)?;
        if answer.status != 200 {
            self.picked_up.note_failed(answer)?;
            return self.worker.again(&mut self.pool);
        }
        self.completed.note_wrong("report refused", self.worker.refused(&self.pool)?);
        for number in self.reported.drain(..) {
            if let Some(due) = self.due.get(number) {
                self.came_at = Instant::now();
                self.completed.note(*due, 1);
            }
        }
        self.held.clear();
        let (mut at, body) = (0, answer.body);
        while let Some(id) = text_after(body, at, br#"{"id":""#) {
            at = id.end;
            let Some(number) = number_of(body.get(id), &self.prefix) else { continue };
            if let Some(due) = self.due.get(number) {
                self.came_at = Instant::now();
                self.picked_up.note(*due, 1);
                self.held.push(number);
            }
        }
        self.worker.take(&self.pool)?;
        std::mem::swap(&mut self.reported, &mut self.held);
        // A report is answered at once, so that its time is not that of the poll behind it.
        let wait_ms = if self.reported.is_empty() { WISH.wait_ms } else { 0 };
        self.worker.turn(&mut self.pool, Some(Wish { wait_ms, ..WISH }))
    }

    /// Whether everything that was sent has come everywhere.
    fn is_done(&self) -> bool {
        let sent = self.due.len() - self.failed;
        let seen = self.events.as_ref().is_none_or(|events| events.seen() >= sent);
        self.submitted as usize == sent && self.completed.count() >= sent && seen
    }

    fn end(mut self) -> anyhow::Result<Outcome> {
        let sent = self.due.len() - self.failed;
        let missing = |meter: &Meter| sent.saturating_sub(meter.count());
        let (late, unfinished) = (missing(&self.picked_up), missing(&self.completed));
        self.picked_up.note_wrong("task that never came", late);
        self.completed.note_wrong("task that was not completed", unfinished);
        let completed = self.completed.count() as u64;
        // The poll under way ends when nothing comes; then the worker may go.
        self.pool.wait_for(self.worker.connection)?;
        self.worker.leave(&mut self.pool)?;
        let mut meters = vec![self.answered, self.picked_up, self.completed];
        if let Some(mut events) = self.events {
            let unseen = sent.saturating_sub(events.seen());
            events.meter.note_wrong("event that never came", unseen);
            meters.push(events.meter);
        }
        Ok(Outcome { meters, submitted: self.submitted, completed })
    }
}

impl Events {
    /// Asks for events, and waits until they begin: what happened before does not come.
    fn open(pool: &mut Pool, plan: &Plan) -> anyhow::Result<Self> {
        let connection = pool.open()?;
        pool.make_stream(connection);
        let request = if plan.socket {
            let headers = format!("{}{UPGRADE}", plan.headers);
            bare(&headers, "GET", "/api/v1/ws", "*/*")
        } else {
            bare(&plan.headers, "GET", "/api/v1/events", "text/event-stream")
        };
        pool.send(connection, &request)?;
        let (mut stream, mut has_begun) = (Stream::default(), false);
        while !has_begun {
            pool.wait_for(connection)?;
            pool.take_bytes(connection, &mut stream.raw);
            stream.lines(|line| {
                has_begun |= is_named(line, b"system.hello");
                Ok(())
            })?;
        }
        let meter = Meter::start(plan, format!("events at {}/s", plan.rate));
        Ok(Self { connection, stream, is_submitted: false, meter })
    }

    fn seen(&self) -> usize {
        self.meter.count()
    }

    fn take(&mut self, pool: &mut Pool, prefix: &str, due: &[Instant]) -> anyhow::Result<()> {
        pool.take_bytes(self.connection, &mut self.stream.raw);
        let Self { stream, is_submitted, meter, .. } = self;
        stream.lines(|line| {
            // A socket has all of an event in one line, a stream its name before its data.
            if line.starts_with(b"event:") || line.starts_with(b"{") {
                *is_submitted = is_named(line, b"task.submitted");
            }
            if !line.starts_with(b"event:")
                && *is_submitted
                && let Some(id) = text_after(line, 0, br#""task_id":""#)
                && let Some(due) = number_of(line.get(id), prefix).and_then(|n| due.get(n))
            {
                meter.note(*due, 1);
            }
            Ok(())
        })
    }
}

/// Whether a line names an event of this kind.
fn is_named(line: &[u8], kind: &[u8]) -> bool {
    match line.strip_prefix(b"event:") {
        Some(name) => name.trim_ascii() == kind,
        None => {
            let named = text_after(line, 0, br#""type":""#).and_then(|name| line.get(name));
            line.starts_with(b"{") && named == Some(kind)
        }
    }
}

/// What the ids of this run begin with: version 7, and its time.
fn prefix() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis();
    let (high, low) = (now >> 16, now & 0xffff);
    format!("{high:08x}-{low:04x}-7000-8000-")
}

/// Which task of this run an id is of.
fn number_of(id: Option<&[u8]>, prefix: &str) -> Option<usize> {
    let rest = id?.strip_prefix(prefix.as_bytes())?;
    usize::from_str_radix(std::str::from_utf8(rest).ok()?, 16).ok()
}
