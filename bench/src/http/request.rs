//! Requests as bytes.

use std::io::Write;

use crate::settings::Settings;

/// A request with a body.
pub(crate) fn post(host: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    put_post(&mut request, host, path, body);
    request
}

/// The same, into a buffer that is used again and again.
pub(crate) fn put_post(request: &mut Vec<u8>, host: &str, path: &str, body: &[u8]) {
    request.clear();
    let length = body.len();
    write!(
        request,
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
    .unwrap();
    request.extend_from_slice(body);
}

/// A request without one.
pub(crate) fn bare(method: &str, host: &str, path: &str, accept: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\naccept: {accept}\r\n\r\n").into_bytes()
}

/// A task with a payload of so many bytes; `members` go before, each with a comma after it.
pub(crate) fn task(settings: &Settings, task_type: &str, members: &str) -> String {
    let filler = "x".repeat(settings.payload.saturating_sub(r#"{"data":""}"#.len()));
    let priority = settings.priority.as_ref();
    let priority = priority.map(|word| format!(r#""priority":"{word}","#)).unwrap_or_default();
    format!(r#"{{{members}{priority}"type":"{task_type}","payload":{{"data":"{filler}"}}}}"#)
}

/// The submission of one task, or of many together.
pub(crate) fn submission(settings: &Settings, batch: usize) -> Vec<u8> {
    let task = task(settings, "bench", "");
    if batch == 1 {
        return post(&settings.host, "/api/v1/tasks", task.as_bytes());
    }
    let tasks = vec![task; batch].join(",");
    let body = format!(r#"{{"tasks":[{tasks}]}}"#);
    post(&settings.host, "/api/v1/tasks/batch", body.as_bytes())
}
