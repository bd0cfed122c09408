//! Producers: each chooses the ids of its tasks, and sends a submission again, to any server, until
//! it is answered.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tasklane_core::{SeededRandom, TaskId};

use super::line::Line;
use super::record::Record;
use super::role::{Role, any_server, rest};
use crate::Failure;

/// Producers on one machine.
const THREADS: u64 = 2;
/// Between two tasks of one producer, at most.
const PAUSE_MS_MAX: u64 = 200;
/// One of so many is sent again though it was answered.
const AGAIN_EVERY: u64 = 16;
/// One of so many goes to another server than the one before.
const ELSEWHERE_EVERY: u64 = 4;
/// What workers of all servers take.
pub const WORK: &str = "work";

/// Submits until it is told to finish.
pub fn run(role: &Role) -> Result<(), Failure> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|at| scope.spawn(move || produce(role, at))).collect();
        for thread in threads {
            thread.join().map_err(|_| "a producer panicked")??;
        }
        Ok(())
    })
}

fn produce(role: &Role, at: u64) -> Result<(), Failure> {
    let mut random = role.random(at);
    let mut line = Line::new(any_server(&mut random), &role.key);
    let mut unanswered = 0;
    while !role.finishes() {
        if random.below(ELSEWHERE_EVERY) == 0 {
            line.turn_to(any_server(&mut random));
        }
        let id = new_id(&mut random);
        role.records.add(&Record::Sent(id))?;
        let again = random.below(AGAIN_EVERY) == 0;
        for _ in 0..=u64::from(again) {
            unanswered += submit(role, &mut line, id, &mut random)?;
        }
        thread::sleep(Duration::from_millis(random.below(PAUSE_MS_MAX)));
    }
    role.records.add(&Record::Unanswered(unanswered))
}

/// A UUIDv7 of this moment.
pub fn new_id(random: &mut SeededRandom) -> TaskId {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let counter = random.below(1 << 12);
    TaskId::generate(since.as_millis() as u64, counter, random)
}

/// Sends it until it is answered; gives how often it was not.
fn submit(
    role: &Role,
    line: &mut Line,
    id: TaskId,
    random: &mut SeededRandom,
) -> Result<u64, Failure> {
    let body = json!({"id": id.to_string(), "type": WORK, "payload": {"id": id.to_string()}});
    let mut unanswered = 0;
    loop {
        match line.post("/api/v1/tasks", &body) {
            Ok(answer) if matches!(answer.status, 200 | 201) => {
                role.records.add(&Record::Taken(id, answer.replayed))?;
                return Ok(unanswered);
            }
            Ok(answer) if !answer.is_for_now() => {
                role.wrong(format!("submission of {id}: {} {}", answer.status, answer.body))?;
            }
            Ok(_) | Err(_) => unanswered += 1,
        }
        rest();
        line.turn_to(any_server(random));
    }
}
