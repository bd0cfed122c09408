//! Submissions.

use std::time::Duration;

use bytes::Bytes;
use tasklane_core::{
    Backoff, Capability, CapabilitySet, Clock, Draft, IdempotencyKey, Jitter, Metadata, NewTask,
    OrderingKey, Policies, Priority, QueueName, RetryPolicy, TaskId, TaskType, Timestamp, When,
    limits,
};

use super::draw::Draw;
use super::seen::{EXPIRED, REPLAYED};
use super::world::World;
use crate::conformance::Fixture;
use crate::request::{Submission, Submitted};

pub(super) const QUEUES: [&str; 3] = ["a", "b", "c"];
pub(super) const TYPES: [&str; 3] = ["mail.send", "mail.check", "resize"];
const CAPABILITIES: [&str; 3] = ["eu", "gpu", "large"];

impl<F: Fixture> World<F> {
    pub(super) fn submit(&mut self) {
        let submissions: Vec<_> = (0..self.draw.between(1, 3)).map(|_| self.submission()).collect();
        self.step += submissions.len() as u64 - 1;
        let real = self.real(|store| store.submit(submissions.clone()));
        let model = self.model(|store| store.submit(submissions.clone()));
        for ((submission, real), model) in submissions.iter().zip(&real).zip(&model) {
            self.agree(submission, real, model);
            match real {
                Ok(submitted) => submitted.iter().for_each(|task| self.note_submitted(task)),
                Err(refusal) => self.seen.problem(&refusal.problem),
            }
        }
        self.agree(&"as many answers as submissions", &real.len(), &submissions.len());
    }

    fn note_submitted(&mut self, submitted: &Submitted) {
        match submitted {
            Submitted { expired: true, .. } => self.seen.fact(EXPIRED),
            Submitted { replayed: true, .. } => self.seen.fact(REPLAYED),
            Submitted { id, .. } => self.tasks.push(*id),
        }
    }

    fn submission(&mut self) -> Submission {
        let tasks = (0..self.draw.between(1, 3)).map(|_| self.draft()).collect();
        Submission { tasks }
    }

    fn draft(&mut self) -> Draft {
        let task = match self.draw.below(100) {
            0..4 => self.sent_again(),
            4..8 => self.sent_again().map(|task| self.with_another_id(task)),
            8..10 => self.sent_again().map(|task| another_body(&task)),
            _ => None,
        };
        let task = task.unwrap_or_else(|| self.new_task());
        let kept = if task.idempotency_key.is_some() { &mut self.keyed } else { &mut self.sent };
        kept.push(task.clone(), &mut self.draw);
        task.resolve(&Policies::default()).expect("the values are in range")
    }

    fn sent_again(&mut self) -> Option<NewTask> {
        let kept = if self.draw.in_hundred(70) { &self.keyed } else { &self.sent };
        kept.one(&mut self.draw)
    }

    fn with_another_id(&mut self, task: NewTask) -> NewTask {
        NewTask { id: Some(self.new_id()), ..task }
    }

    fn new_task(&mut self) -> NewTask {
        let id = Some(self.new_id());
        let number = self.ids_made;
        let now = self.clock.wall();
        let draw = &mut self.draw;
        let key = |number: u64| IdempotencyKey::new(format!("k{number}")).expect("a key");
        NewTask {
            id,
            task_type: TaskType::new(draw.of(&TYPES)).expect("a type"),
            queue: QueueName::new(draw.of(&QUEUES)).expect("a queue"),
            payload: Bytes::from(vec![b'x'; draw.below(40) as usize]),
            priority: draw.maybe(75, |draw| draw.of(&Priority::DESCENDING)),
            capabilities: capabilities(draw, 20),
            max_retries: draw.maybe(60, |draw| draw.below(4) as u32),
            timeout: draw.maybe(70, |draw| Duration::from_millis(draw.between(500, 15_000))),
            retry: Some(retry(draw)),
            schedule: draw.maybe(15, |draw| when(draw, now)),
            expires: draw.maybe(15, |draw| expiry(draw, now)),
            idempotency_key: draw.maybe(12, |_| key(number)),
            ordering_key: draw.maybe(20, ordering_key),
            metadata: metadata(draw),
            trace: None,
            dead_letter: draw.maybe(40, |draw| draw.in_hundred(50)),
        }
    }

    /// Ids of one millisecond differ in their counter; now and then two share even that.
    fn new_id(&mut self) -> TaskId {
        let alike = self.draw.in_hundred(1);
        self.ids_made += u64::from(!alike);
        let millis = self.clock.wall().as_millis().unsigned_abs();
        let id = TaskId::generate(millis, self.ids_made, self.draw.source());
        let before = std::mem::replace(&mut self.last_id, id);
        if alike {
            self.alike.extend([before, id]);
        }
        id
    }
}

fn another_body(task: &NewTask) -> NewTask {
    let mut payload = task.payload.to_vec();
    payload.push(b'y');
    NewTask { payload: payload.into(), ..task.clone() }
}

fn ordering_key(draw: &mut Draw) -> OrderingKey {
    OrderingKey::new(draw.of(&["red", "green", "blue"])).expect("a key")
}

pub(super) fn metadata(draw: &mut Draw) -> Metadata {
    let of = draw.maybe(20, |draw| ("of", draw.of(&["alice", "bob"])));
    Metadata::new(of).expect("labels")
}

/// Each of the three with these chances.
pub(super) fn capabilities(draw: &mut Draw, chances_in_hundred: u64) -> CapabilitySet {
    let drawn = CAPABILITIES.into_iter().filter(|_| draw.in_hundred(chances_in_hundred));
    let drawn = drawn.map(|name| Capability::new(name).expect("a capability"));
    CapabilitySet::new(drawn).expect("a few")
}

fn retry(draw: &mut Draw) -> RetryPolicy {
    let strategy = draw.of(&[Backoff::Exponential, Backoff::Linear, Backoff::Fixed]);
    let initial = draw.seconds(3);
    let max = initial + draw.seconds(10);
    RetryPolicy::new(strategy, initial, 2.0, max, Jitter::None).expect("in range")
}

/// Mostly soon; sometimes past already, sometimes too far ahead.
fn when(draw: &mut Draw, now: Timestamp) -> When {
    match draw.below(100) {
        0..1 => When::After(limits::SCHEDULE_AHEAD_MAX + Duration::from_secs(1)),
        1..30 => When::At(now.minus(draw.seconds(5))),
        30..60 => When::At(now.plus(draw.seconds(20))),
        _ => When::After(draw.seconds(20)),
    }
}

fn expiry(draw: &mut Draw, now: Timestamp) -> When {
    match draw.below(100) {
        0..2 => When::At(now),
        2..50 => When::At(now.plus(Duration::from_millis(1) + draw.seconds(30))),
        _ => When::After(Duration::from_millis(1) + draw.seconds(30)),
    }
}
