//! What the store holds in the end, compared with what was answered.

use std::collections::HashMap;
use std::sync::PoisonError;

use serde_json::Value;
use tasklane_core::SeededRandom;

use super::client::{Client, Submitted};
use super::{QUEUE, Test};
use crate::Failure;
use crate::http::caller::Caller;

/// Tasks of one page.
const PAGE: usize = 500;
/// Keys that are sent once more with another body.
const OTHER_BODIES: u64 = 50;

impl Test {
    /// Exactly one task for each key: the one that all answers named.
    pub(super) fn judge(&self) -> Result<(), Failure> {
        let mut random = SeededRandom::new(0);
        let mut found = tasks(&mut Caller::new(self.servers.any(&mut random))?)?;
        for (key, answers) in (0u64..).zip(&self.answers) {
            let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            let stored = found.remove(&format!("key-{key}")).unwrap_or_default();
            if stored.len() != 1 || stored.first() != answers.id.as_ref() {
                let named = &answers.id;
                self.accuse(format!("key {key} was answered with {named:?}, and is {stored:?}"));
            }
            if answers.new > 1 {
                self.accuse(format!("key {key} was made {} times, by its answers", answers.new));
            }
            if answers.calls != self.duplicates {
                let calls = answers.calls;
                self.accuse(format!("key {key} has {calls} good answers of {}", self.duplicates));
            }
        }
        for key in found.into_keys() {
            self.accuse(format!("{key} is in the store, and nobody sent it"));
        }
        self.send_other_bodies();
        Ok(())
    }

    /// A key with another body is refused: so the same key was not enough to be called the same.
    fn send_other_bodies(&self) {
        let mut client = Client::new(&self.servers, SeededRandom::new(1));
        for key in 0..self.keys.min(OTHER_BODIES) {
            match client.submit(key, key + 1) {
                Submitted::Wrong(what) if what.contains("idempotency-mismatch") => {}
                other => self.accuse(format!("key {key} with another body: {other:?}")),
            }
        }
    }
}

/// All tasks by their key.
fn tasks(caller: &mut Caller) -> Result<HashMap<String, Vec<String>>, Failure> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/tasks?queue={QUEUE}&limit={PAGE}{cursor}");
        let answer = caller.get(&path)?;
        let page = answer.body.get("tasks").and_then(Value::as_array);
        let page = page.ok_or_else(|| format!("a list got {}: {}", answer.status, answer.body))?;
        for task in page {
            let text = |name| task.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            found.entry(text("idempotency_key")).or_default().push(text("id"));
        }
        match answer.body.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(found),
        }
    }
}
