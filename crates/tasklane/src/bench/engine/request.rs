//! Requests as bytes.

use std::fmt::Write as _;

use serde_json::Value;

use crate::bench::plan::Plan;

/// A request with a body.
pub(crate) fn post(plan: &Plan, path: &str, body: &str) -> Vec<u8> {
    let mut request = Vec::new();
    put_post(&mut request, &plan.headers, path, body.as_bytes());
    request
}

/// The same, into a buffer that is used again and again.
pub(crate) fn put_post(request: &mut Vec<u8>, headers: &str, path: &str, body: &[u8]) {
    request.clear();
    let mut length = String::new();
    // Writing into memory does not fail.
    let _ = write!(length, "{}", body.len());
    let parts = [
        "POST ",
        path,
        " HTTP/1.1\r\n",
        headers,
        "content-type: application/json\r\ncontent-length: ",
        &length,
        "\r\n\r\n",
    ];
    for part in parts {
        request.extend_from_slice(part.as_bytes());
    }
    request.extend_from_slice(body);
}

/// A request without one.
pub(crate) fn bare(headers: &str, method: &str, path: &str, accept: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\n{headers}accept: {accept}\r\n\r\n").into_bytes()
}

/// A task with a payload of so many bytes; `members` go before, each with a comma after it.
pub(crate) fn task(plan: &Plan, task_type: &str, priority: Option<&str>, members: &str) -> String {
    let filler = "x".repeat(plan.payload.saturating_sub(r#"{"data":""}"#.len()));
    let priority = priority.map(|word| format!(r#""priority":"{word}","#)).unwrap_or_default();
    let queue = Value::from(plan.queue.as_str());
    format!(
        r#"{{{members}{priority}"queue":{queue},"type":"{task_type}","payload":{{"data":"{filler}"}}}}"#
    )
}

/// Submissions made beforehand, of one task each or of many together, again and again.
pub(crate) struct Submissions {
    requests: Vec<Vec<u8>>,
    next: usize,
}

impl Submissions {
    pub(crate) fn new(plan: &Plan, batch: usize) -> Self {
        let task = |priority: &Option<&str>| task(plan, "bench", *priority, "");
        let tasks: Vec<String> = plan.priorities.iter().map(task).collect();
        let requests = if batch == 1 {
            tasks.iter().map(|task| post(plan, "/api/v1/tasks", task)).collect()
        } else {
            let many: Vec<&str> = tasks.iter().map(String::as_str).cycle().take(batch).collect();
            let body = format!(r#"{{"tasks":[{}]}}"#, many.join(","));
            vec![post(plan, "/api/v1/tasks/batch", &body)]
        };
        Self { requests, next: 0 }
    }

    pub(crate) fn next(&mut self) -> &[u8] {
        let at = self.next;
        self.next = (at + 1) % self.requests.len().max(1);
        self.requests.get(at).map(Vec::as_slice).unwrap_or_default()
    }
}
