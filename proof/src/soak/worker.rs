//! Workers that claim and settle by the hundred, and come and go.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::load::{Counts, DOOMED, FLAKY, Load};
use crate::Failure;
use crate::http::caller::{Caller, request};

/// Tasks that a worker claims at once.
const HANDFUL: u32 = 100;
/// How long a worker lives, until another takes its place.
const LIFE: Duration = Duration::from_secs(5);

impl Load {
    /// One worker after the other.
    pub(super) fn work(&self) -> Result<(), Failure> {
        let mut caller = Caller::new(self.address)?;
        while !self.is_over() {
            let id = caller.register(&json!({"capacity": HANDFUL, "queues": ["default"]}))?;
            self.live(&mut caller, &id)?;
            caller.delete(&format!("/internal/workers/{id}"))?;
            self.counts.workers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn live(&self, caller: &mut Caller, id: &str) -> Result<(), Failure> {
        let (path, born) = (format!("/internal/workers/{id}/result"), Instant::now());
        let mut results = Vec::new();
        loop {
            let last = self.is_over() || born.elapsed() > LIFE;
            let poll = if last { 0 } else { HANDFUL };
            let body = format!(
                r#"{{"results":[{}],"poll":{{"available_capacity":{poll},"wait_ms":{}}}}}"#,
                results.join(","),
                if last { 0 } else { 100 }
            );
            let answer = caller.call(&request(&path, &body))?;
            let Some(verdicts) = answer.body.get("results").and_then(Value::as_array) else {
                return Err(format!("results got {}: {}", answer.status, answer.body).into());
            };
            for verdict in verdicts {
                self.note(verdict)?;
            }
            let tasks = answer.body.get("tasks").and_then(Value::as_array).ok_or("no tasks")?;
            results = tasks.iter().map(result).collect();
            if last && results.is_empty() {
                return Ok(());
            }
        }
    }

    fn note(&self, verdict: &Value) -> Result<(), Failure> {
        let Counts { completed, dead, retried, .. } = &self.counts;
        let count = match verdict.get("state").and_then(Value::as_str) {
            Some("completed") => completed,
            Some("dead_letter") => dead,
            Some("retrying") => retried,
            _ => return Err(format!("a result came to {verdict}").into()),
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// What becomes of a task: its type and attempt say.
fn result(task: &Value) -> String {
    let text = |name| task.get(name).and_then(Value::as_str).unwrap_or_default();
    let first = task.get("attempt").and_then(Value::as_u64) == Some(1);
    let (id, token) = (text("id"), text("lease_token"));
    let outcome = match text("type") {
        FLAKY if first => r#""failed","error":{"message":"not yet","kind":"transient"}"#,
        DOOMED => r#""failed","error":{"message":"never","kind":"permanent"}"#,
        _ => r#""completed","result":{"ok":true}"#,
    };
    format!(r#"{{"task_id":"{id}","lease_token":"{token}","status":{outcome}}}"#)
}
