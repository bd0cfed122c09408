//! Query strings: filters, pages, numbers, times.
//!
//! An input is a line with a path, then the query. Bytes that cannot stand in a request's target are
//! escaped; the rest is sent as it is.
//!
//! A query with all of its values escaped means the same; what is listed fits what was asked for.

use serde_json::{Value, json};

use super::{divide, none};
use crate::fuzz::ground::Ground;
use crate::fuzz::peer::{Heard, Peer, Reply};
use crate::fuzz::{Form, Memory, Seen, Target, Verdict, Wrong, broken};

pub(super) const TARGET: Target = Target {
    name: "query",
    form: Form::LineAndBytes,
    words: &[
        "&",
        "=",
        "%",
        "%00",
        "%ff",
        "%C3%A9",
        "+",
        ",",
        "*",
        "state=",
        "pending",
        "queued",
        "dead_letter",
        "type=",
        "queue=",
        "priority=",
        "medium",
        "worker_id=",
        "metadata.",
        "metadata.user=7",
        "created_after=",
        "created_before=",
        "2026-11-15T12:00:00Z",
        "2026-11-15T12:00:00+01:00",
        "error=",
        "limit=",
        "1000",
        "cursor=",
        "00000000000000000000000000000001",
        "counts=true",
        "payloads=true",
        "kinds=",
        "task.*",
        "task_id=",
        "group_by=",
        "older_than_seconds=",
        "seconds=",
        "verb=",
    ],
    bytes_max: 64 * 1024,
    short: 3_000,
    memory: Memory::Server,
    seeds: none,
    check,
};

/// Words for states that are taken besides their own.
const OTHER_WORDS: [(&str, &str); 4] = [
    ("queued", "pending"),
    ("executing", "running"),
    ("processing", "running"),
    ("in_progress", "running"),
];

fn check(ground: &mut Ground, input: &[u8]) -> Verdict {
    let (path, query) = divide(input);
    if !path.starts_with('/') {
        return Ok(Seen::Refused);
    }
    let peer = ground.peer()?;
    if !peer.furnish() {
        furnish(peer)?;
    }
    let heard = peer.get(&format!("{path}?{}", escape(query)))?;
    peer.check()?;
    let reply = match heard {
        Heard::Reply(reply) => reply,
        Heard::Stream(reply) if reply.is_taken() => return Ok(Seen::Waits),
        Heard::Stream(reply) => return broken(format!("a stream: {}", reply.head)),
        Heard::Waits => return Ok(Seen::Waits),
    };
    if is_too_long(&reply) {
        return Ok(Seen::Refused);
    }
    reply.check()?;
    let Some(pairs) = pairs(query) else {
        return if reply.is_taken() {
            broken("took escapes that are none")
        } else {
            Ok(Seen::Refused)
        };
    };
    let escaped: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", escape_all(name), escape_all(value)))
        .collect();
    let again = peer.ask(&format!("{path}?{}", escaped.join("&")))?;
    // Escaped, it is three times as long.
    if !is_too_long(&again) && again.status != reply.status {
        return broken(format!("{}, but {} once it is escaped", reply.status, again.status));
    }
    if !reply.is_taken() {
        return Ok(Seen::Refused);
    }
    if path == "/api/v1/tasks" {
        fits(&reply.json(), &pairs)?;
    }
    Ok(Seen::Taken)
}

/// Targets beyond 8 KiB are refused; what does not even fit what is read ahead gets a bare answer.
fn is_too_long(reply: &Reply) -> bool {
    match reply.status {
        414 => reply.body.is_empty() || reply.check().is_ok(),
        431 => reply.body.is_empty(),
        _ => false,
    }
}

/// Tasks of several kinds, to be found or not.
fn furnish(peer: &mut Peer) -> Result<(), Wrong> {
    let task = |number: u64| {
        let queue = ["mail", "mail.eu", "print"].get(number as usize % 3);
        json!({"type": if number.is_multiple_of(2) { "a" } else { "a.b" }, "queue": queue,
            "priority": number % 4, "metadata": {"user": (number % 8).to_string()},
            "delay_seconds": if number.is_multiple_of(5) { 3_600 } else { 0 }})
    };
    let body = json!({"tasks": (0..60).map(task).collect::<Vec<_>>()}).to_string();
    match peer.call("POST", "/api/v1/tasks/batch", body.as_bytes())? {
        Heard::Reply(reply) if reply.is_taken() => Ok(()),
        other => Err(format!("tasks to look for: {other:?}").into()),
    }
}

/// Whether every task of a page fits a query.
fn fits(page: &Value, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Wrong> {
    let empty = Vec::new();
    let tasks = page.get("tasks").and_then(Value::as_array).unwrap_or(&empty);
    for (name, value) in pairs {
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
            return broken("took a query that is no text");
        };
        if name == "limit" && !value.parse().is_ok_and(|limit: usize| tasks.len() <= limit) {
            return broken(format!("{} tasks for a limit of {value}", tasks.len()));
        }
        if let Some(task) = tasks.iter().find(|task| !fits_one(task, name, value)) {
            return broken(format!("{name}={value} found {task}"));
        }
    }
    Ok(())
}

fn fits_one(task: &Value, name: &str, value: &str) -> bool {
    let text = |name: &str| task.get(name).and_then(Value::as_str).unwrap_or_default();
    let pattern = |text: &str| match value.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => text == value,
    };
    match name {
        "type" | "queue" => pattern(text(name)),
        "state" => value.split(',').any(|word| {
            let word = word.trim();
            let other = OTHER_WORDS.iter().find(|(known, _)| *known == word);
            other.map_or(word, |(_, own)| own) == text("state")
        }),
        "priority" => {
            let word = match value.parse::<u64>() {
                Ok(0) => "low",
                Ok(1) => "normal",
                Ok(2) => "high",
                Ok(3) => "critical",
                _ if value == "medium" => "normal",
                _ => value,
            };
            word.eq_ignore_ascii_case(text("priority"))
        }
        _ => match name.strip_prefix("metadata.") {
            Some(label) => {
                let labels = task.get("metadata");
                labels.and_then(|labels| labels.get(label)?.as_str()) == Some(value)
            }
            None => true,
        },
    }
}

/// Names and values with their escapes undone; `None` where one is none.
fn pairs(query: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let parts = query.split(|byte| *byte == b'&').filter(|part| !part.is_empty());
    let pair = |part: &[u8]| {
        let at = part.iter().position(|byte| *byte == b'=');
        let (name, value) = part.split_at(at.unwrap_or(part.len()));
        Some((decode(name)?, decode(value.get(1..).unwrap_or_default())?))
    };
    parts.map(pair).collect()
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let (mut decoded, mut rest) = (Vec::new(), text);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = std::str::from_utf8(after.get(..2)?).ok()?;
                rest = after.get(2..)?;
                let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?
            }
            byte => *byte,
        });
    }
    Some(decoded)
}

/// What cannot stand in a target is escaped.
fn escape(query: &[u8]) -> String {
    let stands = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%&=+*,:/?@!$'();".contains(&byte);
    escape_unless(query, stands)
}

fn escape_all(text: &[u8]) -> String {
    escape_unless(text, |_| false)
}

fn escape_unless(text: &[u8], stands: impl Fn(u8) -> bool) -> String {
    let one = |byte: &u8| match stands(*byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.iter().map(one).collect()
}
