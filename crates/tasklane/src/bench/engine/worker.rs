//! A worker's side of the protocol, as bytes.

use std::ops::Range;

use anyhow::{Context, bail};
use memchr::{memchr, memmem};
use serde_json::json;

use super::pool::Pool;
use super::request;
use crate::bench::plan::Plan;

/// What a poll may ask for.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) tasks: usize,
    pub(crate) wait_ms: usize,
}

/// A registered worker with a connection of its own.
pub(crate) struct Worker {
    pub(crate) connection: usize,
    headers: String,
    path: String,
    /// Where ids and tokens of the tasks it holds are in the answer that brought them.
    held: Vec<(Range<usize>, Range<usize>)>,
    body: Vec<u8>,
    request: Vec<u8>,
}

impl Worker {
    /// Registers a worker for tasks of one type.
    pub(crate) fn register(
        pool: &mut Pool,
        plan: &Plan,
        task_type: &str,
        capacity: usize,
    ) -> anyhow::Result<Self> {
        let connection = pool.open()?;
        let body = json!({"name": "bench", "queues": [plan.queue], "types": [task_type],
            "capacity": capacity})
        .to_string();
        let (status, body) =
            pool.call(connection, &request::post(plan, "/internal/workers/register", &body))?;
        let text = String::from_utf8_lossy(&body);
        if status != 201 {
            bail!("no worker can be registered: {status} {text}");
        }
        let id = text_after(&body, 0, br#""worker_id":""#).context("a worker without an id")?;
        let id = text.get(id).unwrap_or_default();
        Ok(Self {
            connection,
            headers: plan.headers.clone(),
            path: format!("/internal/workers/{id}"),
            held: Vec::new(),
            body: Vec::new(),
            request: Vec::new(),
        })
    }

    /// Registers as many as the plan wants, for tasks of the type that it submits.
    pub(crate) fn register_all(
        pool: &mut Pool,
        plan: &Plan,
        capacity: usize,
    ) -> anyhow::Result<Vec<Self>> {
        (0..plan.workers).map(|_| Self::register(pool, plan, "bench", capacity)).collect()
    }

    /// Says goodbye, so that nobody finds silent workers.
    pub(crate) fn leave(&self, pool: &mut Pool) -> anyhow::Result<()> {
        let request = request::bare(&self.headers, "DELETE", &self.path, "*/*");
        pool.call(self.connection, &request).map(|_| ())
    }

    /// Notes what the answer brought; gives how many tasks that is.
    pub(crate) fn take(&mut self, pool: &Pool) -> anyhow::Result<usize> {
        let body = pool.answer(self.connection)?.body;
        self.held.clear();
        let mut at = memmem::find(body, br#""tasks":["#).unwrap_or(body.len());
        while let Some(id) = text_after(body, at, br#"{"id":""#) {
            let token = text_after(body, id.end, br#""lease_token":""#);
            let token = token.context("a task came without its lease token")?;
            at = token.end;
            self.held.push((id, token));
        }
        Ok(self.held.len())
    }

    /// How many reports the answer refuses.
    pub(crate) fn refused(&self, pool: &Pool) -> anyhow::Result<usize> {
        let body = pool.answer(self.connection)?.body;
        let reports = memmem::find(body, br#""tasks":["#).unwrap_or(body.len());
        let reports = body.get(..reports).unwrap_or_default();
        Ok(memmem::find_iter(reports, br#""error":"#).count())
    }

    /// Reports all that it holds as completed and asks for more in the same call.
    pub(crate) fn turn(&mut self, pool: &mut Pool, wish: Option<Wish>) -> anyhow::Result<()> {
        let body = &mut self.body;
        body.clear();
        let path = match (self.held.is_empty(), wish) {
            (true, Some(wish)) => {
                put_wish(body, wish);
                format!("{}/poll", self.path)
            }
            (_, wish) => {
                put_results(body, pool.answer(self.connection)?.body, &self.held);
                if let Some(wish) = wish {
                    body.extend_from_slice(br#","poll":"#);
                    put_wish(body, wish);
                }
                body.push(b'}');
                format!("{}/result", self.path)
            }
        };
        request::put_post(&mut self.request, &self.headers, &path, body);
        pool.send(self.connection, &self.request)
    }

    /// The same call once more: it was refused, or its answer got lost (S5).
    pub(crate) fn again(&self, pool: &mut Pool) -> anyhow::Result<()> {
        pool.send(self.connection, &self.request)
    }
}

fn put_wish(body: &mut Vec<u8>, wish: Wish) {
    let Wish { tasks, wait_ms } = wish;
    let poll = format!(r#"{{"available_capacity":{tasks},"wait_ms":{wait_ms}}}"#);
    body.extend_from_slice(poll.as_bytes());
}

fn put_results(body: &mut Vec<u8>, answer: &[u8], held: &[(Range<usize>, Range<usize>)]) {
    let text = |range: &Range<usize>| answer.get(range.clone()).unwrap_or_default();
    body.extend_from_slice(br#"{"results":["#);
    for (index, (id, token)) in held.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(br#"{"task_id":""#);
        body.extend_from_slice(text(id));
        body.extend_from_slice(br#"","lease_token":""#);
        body.extend_from_slice(text(token));
        body.extend_from_slice(br#"","status":"completed","result":{"ok":true}}"#);
    }
    body.push(b']');
}

/// Where the text is that follows `name`, from `at` on.
pub(crate) fn text_after(bytes: &[u8], at: usize, name: &[u8]) -> Option<Range<usize>> {
    let start = at + memmem::find(bytes.get(at..)?, name)? + name.len();
    let end = start + memchr(b'"', bytes.get(start..)?)?;
    Some(start..end)
}
