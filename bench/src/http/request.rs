//! Requests as bytes.

use std::io::Write;

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

/// A task of type `bench` with a payload of so many bytes.
pub(crate) fn task(payload: usize) -> String {
    let filler = "x".repeat(payload.saturating_sub(r#"{"data":""}"#.len()));
    format!(r#"{{"type":"bench","payload":{{"data":"{filler}"}}}}"#)
}

/// The submission of one task, or of many together.
pub(crate) fn submission(host: &str, batch: usize, payload: usize) -> Vec<u8> {
    let task = task(payload);
    if batch == 1 {
        return post(host, "/api/v1/tasks", task.as_bytes());
    }
    let tasks = vec![task; batch].join(",");
    post(host, "/api/v1/tasks/batch", format!(r#"{{"tasks":[{tasks}]}}"#).as_bytes())
}
