//! People beside the load: they withdraw tasks, throw dead letters away, and look.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::load::Load;
use crate::Failure;
use crate::http::caller::Caller;

/// Rest between two rounds.
const REST: Duration = Duration::from_millis(200);
/// Tasks submitted to be withdrawn, in each round; some of them one by one.
const WITHDRAWN: usize = 50;
const ONE_BY_ONE: usize = 5;
/// Dead letters thrown away in each round.
const DISCARDED: usize = 20;
const QUEUE: &str = "withdrawn";

impl Load {
    /// Round after round.
    pub(super) fn operate(&self) -> Result<(), Failure> {
        let mut caller = Caller::new(self.address)?;
        while !self.is_over() {
            self.withdraw(&mut caller)?;
            self.discard(&mut caller)?;
            look(&mut caller)?;
            std::thread::sleep(REST);
        }
        Ok(())
    }

    fn withdraw(&self, caller: &mut Caller) -> Result<(), Failure> {
        let task = json!({"type": "plain", "queue": QUEUE, "delay_seconds": 3_600});
        let tasks = json!({"tasks": vec![task; WITHDRAWN]});
        let submitted = caller.post("/api/v1/tasks/batch", &tasks)?;
        let tasks = submitted.body.get("tasks").and_then(Value::as_array).ok_or("no tasks")?;
        self.counts.submitted.fetch_add(tasks.len() as u64, Ordering::Relaxed);
        for task in tasks.iter().take(ONE_BY_ONE) {
            let id = task.get("id").and_then(Value::as_str).unwrap_or_default();
            let answer = caller.delete(&format!("/api/v1/tasks/{id}"))?;
            if answer.status != 200 {
                return Err(format!("a cancel got {}: {}", answer.status, answer.body).into());
            }
            self.counts.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        let filter = json!({"filter": {"queue": QUEUE, "states": ["scheduled"]}});
        loop {
            let answer = caller.post("/api/v1/tasks/cancel", &filter)?;
            let changed = answer.body.get("changed").and_then(Value::as_u64);
            let changed = changed.ok_or_else(|| format!("a cancel got {}", answer.body))?;
            self.counts.cancelled.fetch_add(changed, Ordering::Relaxed);
            if answer.body.get("more") != Some(&Value::Bool(true)) {
                return Ok(());
            }
        }
    }

    fn discard(&self, caller: &mut Caller) -> Result<(), Failure> {
        let page = caller.get(&format!("/api/v1/dlq?limit={DISCARDED}"))?;
        let entries = page.body.get("entries").and_then(Value::as_array).ok_or("no entries")?;
        for entry in entries {
            let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
            match caller.delete(&format!("/api/v1/dlq/{id}"))?.status {
                204 => self.counts.discarded.fetch_add(1, Ordering::Relaxed),
                // Retention was faster.
                404 => 0,
                other => return Err(format!("discarding a dead letter got {other}").into()),
            };
        }
        Ok(())
    }
}

/// What a page for people asks for now and then.
fn look(caller: &mut Caller) -> Result<(), Failure> {
    for path in ["/api/v1/tasks?limit=50", "/api/v1/stats/minutes?minutes=5", "/metrics"] {
        let answer = caller.get(path)?;
        if answer.status != 200 {
            return Err(format!("{path} got {}: {}", answer.status, answer.body).into());
        }
    }
    Ok(())
}
