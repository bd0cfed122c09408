//! Requests as bytes, on a connection of their own: what a listener gets from anybody.
//!
//! Whatever is sent, the server says something in HTTP or nothing, ends the connection once its
//! client has, and goes on serving others.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::none;
use crate::fuzz::ground::Ground;
use crate::fuzz::peer::{PATIENCE as WHOLE_WITHIN, is_late, reply};
use crate::fuzz::{Form, Memory, Seen, Target, Verdict, broken};

/// How long an answer is looked for that may not come: some requests ask for a stream.
const PATIENCE: Duration = Duration::from_millis(60);

pub(super) const TARGET: Target = Target {
    name: "raw",
    form: Form::Bytes,
    words: &[
        "GET ",
        "POST ",
        "PATCH ",
        "DELETE ",
        "HEAD ",
        "OPTIONS ",
        "CONNECT ",
        "PRI * HTTP/2.0",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "\r\n",
        "\r\n\r\n",
        "host: proof\r\n",
        "content-length: ",
        "content-length: 0\r\n",
        "transfer-encoding: chunked\r\n",
        "transfer-encoding: identity\r\n",
        "content-type: application/json\r\n",
        "content-encoding: gzip\r\n",
        "expect: 100-continue\r\n",
        "connection: close\r\n",
        "connection: upgrade\r\n",
        "upgrade: websocket\r\n",
        "upgrade: h2c\r\n",
        "authorization: Bearer ",
        "x-api-key: ",
        "x-request-id: ",
        "x-forwarded-for: ",
        "traceparent: ",
        "last-event-id: ",
        "origin: null\r\n",
        "0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "/api/v1/tasks",
        "/admin/queues/",
        "/internal/workers/",
        "/livez",
        "/ws",
        "/events",
        "%00",
        "../",
        "//",
    ],
    bytes_max: 32 * 1024,
    short: 2_000,
    memory: Memory::Server,
    seeds: none,
    check,
};

fn check(ground: &mut Ground, input: &[u8]) -> Verdict {
    let peer = ground.peer()?;
    let mut stream = peer.connect()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let began = Instant::now();
    // Refused early, a request is not read to its end.
    let _ = stream.write_all(input).and_then(|()| stream.shutdown(Shutdown::Write));
    let (mut bytes, mut piece, mut ended) = (Vec::new(), [0; 16 * 1024], true);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
            // What has begun must come to its end.
            Err(error)
                if is_late(&error) && is_part(input, &bytes) && began.elapsed() < WHOLE_WITHIN => {}
            Err(error) if is_late(&error) => {
                ended = false;
                break;
            }
            // Reset, because it did not read all.
            Err(_) => break,
        }
    }
    drop(stream);
    peer.note(began.elapsed());
    peer.check()?;
    let alive = peer.ask("/livez")?;
    if alive.status != 200 {
        return broken(format!("/livez: {}", alive.status));
    }
    if bytes.is_empty() {
        return Ok(if ended { Seen::Refused } else { Seen::Waits });
    }
    if input.starts_with(b"PRI * HTTP/2.0") {
        return Ok(Seen::Taken);
    }
    if !bytes.starts_with(b"HTTP/1.") {
        return broken(format!("answered {}", bytes.escape_ascii()));
    }
    let Some(reply) = reply(&bytes) else {
        // A `HEAD` is answered by headers alone.
        return if ended { Ok(Seen::Taken) } else { broken("an answer without an end") };
    };
    match reply.status {
        100..=399 => Ok(if ended { Seen::Taken } else { Seen::Waits }),
        // What is no HTTP is refused without a body.
        400..=499 | 501 | 503 | 505 => Ok(Seen::Refused),
        status => broken(format!("answered {status}")),
    }
}

/// Whether these bytes are the beginning of an answer.
fn is_part(input: &[u8], bytes: &[u8]) -> bool {
    !bytes.is_empty() && !input.starts_with(b"PRI * HTTP/2.0") && reply(bytes).is_none()
}
