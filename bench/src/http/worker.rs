//! A worker's side of the protocol, as bytes.

use std::ops::Range;

use memchr::{memchr, memmem};

use crate::pool::Pool;
use crate::request;
use crate::settings::Settings;

/// What a poll may ask for.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) tasks: usize,
    pub(crate) wait_ms: usize,
}

/// A registered worker with a connection of its own.
pub(crate) struct Worker {
    pub(crate) connection: usize,
    host: String,
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
        settings: &Settings,
        task_type: &str,
        capacity: usize,
    ) -> Self {
        let connection = pool.open(settings.address);
        let body = format!(r#"{{"types":["{task_type}"],"capacity":{capacity}}}"#);
        let path = "/internal/workers/register";
        let request = request::post(&settings.host, path, body.as_bytes());
        let (status, body) = pool.call(connection, &request);
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&body));
        let id = text_after(&body, 0, br#""worker_id":""#).expect("an id");
        let id = std::str::from_utf8(&body[id]).unwrap();
        Self {
            connection,
            host: settings.host.clone(),
            path: format!("/internal/workers/{id}"),
            held: Vec::new(),
            body: Vec::new(),
            request: Vec::new(),
        }
    }

    /// Says goodbye, so that the next run finds no silent workers.
    pub(crate) fn leave(&self, pool: &mut Pool) {
        let request = request::bare("DELETE", &self.host, &self.path, "*/*");
        pool.call(self.connection, &request);
    }

    /// Notes what the answer brought; gives how many tasks that is.
    pub(crate) fn take(&mut self, pool: &Pool) -> usize {
        let body = pool.answer(self.connection).body;
        self.held.clear();
        let mut at = memmem::find(body, br#""tasks":["#).unwrap_or(body.len());
        while let Some(id) = text_after(body, at, br#"{"id":""#) {
            let token = text_after(body, id.end, br#""lease_token":""#).expect("a token");
            at = token.end;
            self.held.push((id, token));
        }
        self.held.len()
    }

    /// How many reports the answer refuses.
    pub(crate) fn refused(&self, pool: &Pool) -> usize {
        let body = pool.answer(self.connection).body;
        let reports = memmem::find(body, br#""tasks":["#).unwrap_or(body.len());
        memmem::find_iter(&body[..reports], br#""error":"#).count()
    }

    /// Reports all that it holds as completed and asks for more in the same call.
    pub(crate) fn turn(&mut self, pool: &mut Pool, wish: Option<Wish>) {
        let body = &mut self.body;
        body.clear();
        let path = match (self.held.is_empty(), wish) {
            (true, Some(wish)) => {
                put_wish(body, wish);
                format!("{}/poll", self.path)
            }
            (_, wish) => {
                let answer = pool.answer(self.connection).body;
                put_results(body, answer, &self.held);
                if let Some(wish) = wish {
                    body.extend_from_slice(br#","poll":"#);
                    put_wish(body, wish);
                }
                body.push(b'}');
                format!("{}/result", self.path)
            }
        };
        request::put_post(&mut self.request, &self.host, &path, body);
        pool.send(self.connection, &self.request);
    }
}

fn put_wish(body: &mut Vec<u8>, wish: Wish) {
    let Wish { tasks, wait_ms } = wish;
    let poll = format!(r#"{{"available_capacity":{tasks},"wait_ms":{wait_ms}}}"#);
    body.extend_from_slice(poll.as_bytes());
}

fn put_results(body: &mut Vec<u8>, answer: &[u8], held: &[(Range<usize>, Range<usize>)]) {
    body.extend_from_slice(br#"{"results":["#);
    for (index, (id, token)) in held.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(br#"{"task_id":""#);
        body.extend_from_slice(&answer[id.clone()]);
        body.extend_from_slice(br#"","lease_token":""#);
        body.extend_from_slice(&answer[token.clone()]);
        body.extend_from_slice(br#"","status":"completed","result":{"ok":true}}"#);
    }
    body.push(b']');
}

/// Where the text is that follows `name`, from `at` on.
pub(crate) fn text_after(bytes: &[u8], at: usize, name: &[u8]) -> Option<Range<usize>> {
    let start = at + memmem::find(&bytes[at..], name)? + name.len();
    let end = start + memchr(b'"', &bytes[start..])?;
    Some(start..end)
}
