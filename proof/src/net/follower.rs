//! Follows the feed, on one server after the other, from where it was; notes what it is told.

use std::collections::VecDeque;
use std::io::BufRead;
use std::time::{Duration, Instant};

use serde_json::Value;
use tasklane_core::SeededRandom;

use super::line::Line;
use super::record::Record;
use super::role::{Role, any_server, rest};
use crate::Failure;

/// After so long without a word it goes to another server: tasks come and go all the time.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// It goes to another server after so long anyway, at most.
const STAY_MS_MAX: u64 = 8_000;

/// Completed tasks that are remembered, in case one of them turns out to be the last.
const REMEMBERED_MAX: usize = 1_000;

/// Says when it has begun, and when it was told of the completion of the last task; goes on until its
/// input ends.
pub fn run(role: &Role) -> Result<(), Failure> {
    let mut random = role.random(0);
    let mut follower = Follower { role, cursor: None, ended: VecDeque::new(), is_done: false };
    loop {
        if follower.follow(&mut random).is_err() {
            rest();
        }
    }
}

struct Follower<'a> {
    role: &'a Role,
    cursor: Option<String>,
    /// Tasks that were completed lately.
    ended: VecDeque<String>,
    is_done: bool,
}

impl Follower<'_> {
    /// Until nothing comes any more, or it is time for another server.
    fn follow(&mut self, random: &mut SeededRandom) -> Result<(), Failure> {
        self.look_for_the_last();
        let line = Line::new(any_server(random), &self.role.key);
        let mut stream = line.follow(self.cursor.as_deref(), QUIET_MAX)?;
        if self.cursor.is_some() {
            self.role.records.add(&Record::Resumed)?;
        }
        let until = Instant::now() + Duration::from_millis(random.below(STAY_MS_MAX));
        let (mut text, mut cursor, mut event) = (String::new(), None, Value::Null);
        while Instant::now() < until {
            text.clear();
            if stream.read_line(&mut text)? == 0 || !text.ends_with('\n') {
                return Err("the feed ended".into());
            }
            let line = text.trim_end();
            if let Some(id) = line.strip_prefix("id: ") {
                cursor = Some(id.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                event = serde_json::from_str(data)?;
            } else if line.is_empty() && cursor.is_some() {
                // All of it has arrived: noted once, and never asked for again.
                self.note(&event)?;
                if self.cursor.is_none() {
                    println!("begun");
                }
                self.cursor = cursor.take();
            }
        }
        Ok(())
    }

    fn note(&mut self, event: &Value) -> Result<(), Failure> {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "system.gap" {
            self.role.wrong(format!("the feed has a gap: {event}"))?;
        }
        let task = event.pointer("/data/task_id").and_then(Value::as_str);
        let Some(task) = task else { return Ok(()) };
        let id = task.parse().map_err(|_| format!("{task}: no id"))?;
        self.role.records.add(&Record::Told(id, kind.to_owned()))?;
        if kind == "task.completed" {
            self.ended.truncate(REMEMBERED_MAX);
            self.ended.push_front(task.to_owned());
            self.look_for_the_last();
        }
        Ok(())
    }

    fn look_for_the_last(&mut self) {
        if !self.is_done && self.role.last().is_some_and(|last| self.ended.contains(&last)) {
            self.is_done = true;
            println!("done");
        }
    }
}
