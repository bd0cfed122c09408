//! Bodies of the interface, as JSON and as what is none.
//!
//! An input is a line with method and path, then the body. Words in braces stand for what is there:
//! `{worker}`, `{task}` and `{token}` that it holds, a fresh `{id}`.
//!
//! What is no JSON, or too deep, or says one thing twice, is refused; what is taken is there
//! afterwards as it came, the payload byte for byte.

use serde_json::Value;

use super::{divide, none};
use crate::fuzz::ground::Ground;
use crate::fuzz::json::{self, items, member, members};
use crate::fuzz::peer::{Heard, Peer, Reply};
use crate::fuzz::{Form, Memory, Seen, Target, Verdict, Wrong, broken};

/// Nesting that is still taken.
const DEPTH_MAX: usize = 64;
/// Members of a task that are shown as they were given, by the names under which they are.
const SHOWN: [(&str, &str); 8] = [
    ("type", "type"),
    ("task_type", "type"),
    ("queue", "queue"),
    ("ordering_key", "ordering_key"),
    ("max_retries", "max_retries"),
    ("metadata", "metadata"),
    ("required_capabilities", "required_capabilities"),
    ("id", "id"),
];
/// Members of a queue's settings that are shown as they were given.
const SETTINGS: [&str; 4] = ["paused", "weight", "weights", "depth_limits"];

pub(super) const TARGET: Target = Target {
    name: "body",
    form: Form::LineAndJson,
    words: &[
        "type",
        "task_type",
        "queue",
        "payload",
        "parameters",
        "priority",
        "critical",
        "medium",
        "required_capabilities",
        "max_retries",
        "timeout_seconds",
        "retry",
        "strategy",
        "fixed",
        "initial_seconds",
        "factor",
        "max_seconds",
        "jitter",
        "full",
        "scheduled_at",
        "run_at",
        "delay_seconds",
        "expires_at",
        "idempotency_key",
        "ordering_key",
        "metadata",
        "dead_letter",
        "tasks",
        "results",
        "poll",
        "available_capacity",
        "wait_ms",
        "auto_start",
        "status",
        "completed",
        "failed",
        "released",
        "error",
        "message",
        "kind",
        "code",
        "filter",
        "states",
        "dry_run",
        "cursor",
        "reset",
        "weights",
        "aging",
        "retention",
        "scopes",
        "verb",
        "admin",
        "2026-11-15T12:00:00Z",
        "{task}",
        "{token}",
        "{worker}",
        "{id}",
        "a*",
        "*",
    ],
    bytes_max: 320 * 1024,
    short: 5_000,
    memory: Memory::Server,
    seeds: none,
    check,
};

pub(super) fn check(ground: &mut Ground, input: &[u8]) -> Verdict {
    let (line, template) = divide(input);
    let Some((method, path)) = line.split_once(' ').filter(|(_, path)| path.starts_with('/'))
    else {
        return Ok(Seen::Refused);
    };
    let peer = ground.peer()?;
    let path = String::from_utf8(peer.fill(path.as_bytes())?)?;
    let body = peer.fill(template)?;
    let heard = peer.call(method, &path, &body)?;
    peer.check()?;
    peer.use_up();
    let reply = match heard {
        Heard::Reply(reply) => reply,
        Heard::Stream(reply) => return broken(format!("a stream: {}", reply.head)),
        // Nobody knows what it was given in the end.
        Heard::Waits => {
            peer.renew();
            return Ok(Seen::Waits);
        }
    };
    reply.check()?;
    if reply.status == 410 {
        peer.renew();
    }
    judge(&body, &reply)?;
    if !reply.is_taken() {
        return Ok(Seen::Refused);
    }
    match (method, line) {
        ("POST", "POST /api/v1/tasks") => is_kept(peer, &body, &reply)?,
        ("POST", "POST /api/v1/tasks/batch") => are_kept(peer, &body, &reply)?,
        ("POST", "POST /internal/workers/{worker}/result") => result_is_kept(peer, &body)?,
        ("PATCH", _) if path.starts_with("/admin/queues/") => is_set(peer, &path, &body)?,
        _ => {}
    }
    Ok(Seen::Taken)
}

/// Whether a body of this form was treated as such.
fn judge(body: &[u8], reply: &Reply) -> Result<(), Wrong> {
    let scan = json::scan(body);
    let kind = reply.text("type").unwrap_or_default();
    // Some bodies may be left out.
    if reply.is_taken() && !body.is_empty() && (!scan.is_json || scan.depth > DEPTH_MAX) {
        return broken(format!("took what is no JSON, or {} deep", scan.depth));
    }
    if scan.is_json && scan.depth > DEPTH_MAX && reply.status != 413 && kind != "json-too-deep" {
        return broken(format!("{} deep: answered {} {kind}", scan.depth, reply.status));
    }
    if scan.is_json && scan.depth <= DEPTH_MAX && kind == "json-too-deep" {
        return broken(format!("refused as too deep at {}", scan.depth));
    }
    if scan.is_json && kind == "malformed-json" && !says_twice(body) && is_plain(body) {
        return broken("refused as malformed, though it is JSON");
    }
    if reply.is_taken() && members_twice(body) {
        return broken("took a body that says one thing twice");
    }
    Ok(())
}

/// Whether any object has two members of one name, at any depth; roughly: any name stands twice.
fn says_twice(body: &[u8]) -> bool {
    let scan = json::scan(body);
    let mut names: Vec<_> = scan.spans.iter().filter(|span| span.is_name).collect();
    names.sort_by_key(|span| body.get(span.at.clone()));
    let text = |at: usize| names.get(at).map(|span| body.get(span.at.clone()));
    (1..names.len()).any(|at| text(at - 1) == text(at))
        // Two spellings of one member are one member.
        || names.iter().any(|span| body.get(span.at.clone()).is_some_and(is_alias))
}

fn is_alias(name: &[u8]) -> bool {
    let aliases: [&[u8]; 8] = [
        b"\"task_type\"",
        b"\"parameters\"",
        b"\"timeout\"",
        b"\"retry_policy\"",
        b"\"run_at\"",
        b"\"progress_percent\"",
        b"\"status_message\"",
        b"\"execution_duration_seconds\"",
    ];
    aliases.contains(&name)
}

/// Whether every text in it is text: `\ud800` alone is well-formed and still none.
fn is_plain(body: &[u8]) -> bool {
    !body.contains(&b'\\')
}

fn members_twice(body: &[u8]) -> bool {
    let names: Vec<_> =
        members(body).unwrap_or_default().into_iter().map(|(name, _)| name).collect();
    let mut known = std::collections::HashSet::new();
    !names.into_iter().all(|name| known.insert(name))
}

/// A task that was taken is there as it came.
fn is_kept(peer: &mut Peer, body: &[u8], reply: &Reply) -> Result<(), Wrong> {
    match reply.text("id") {
        Some(id) => is_same_task(peer, body, &id),
        None => broken("a task was taken that has no id"),
    }
}

/// The first, the last and one between.
fn are_kept(peer: &mut Peer, body: &[u8], reply: &Reply) -> Result<(), Wrong> {
    let receipts = items(member(&reply.body, &["tasks"]).unwrap_or_default());
    let ids: Vec<String> = receipts
        .into_iter()
        .filter_map(|receipt| serde_json::from_slice(member(receipt, &["id"])?).ok())
        .collect();
    let tasks = items(member(body, &["tasks"]).unwrap_or_default());
    if ids.len() != tasks.len() {
        return broken(format!("{} tasks were sent, {} taken", tasks.len(), ids.len()));
    }
    for at in [0, ids.len() / 2, ids.len().saturating_sub(1)] {
        let (Some(id), Some(task)) = (ids.get(at), tasks.get(at)) else { continue };
        is_same_task(peer, task, id)?;
    }
    Ok(())
}

fn is_same_task(peer: &mut Peer, sent: &[u8], id: &str) -> Result<(), Wrong> {
    let shown = peer.ask(&format!("/api/v1/tasks/{id}"))?;
    let payload = member(sent, &["payload", "parameters"]).unwrap_or(b"null");
    let kept = member(&shown.body, &["payload"]).unwrap_or(b"null");
    if payload != kept {
        return broken(format!(
            "payload {} is kept as {}",
            payload.escape_ascii(),
            kept.escape_ascii()
        ));
    }
    for (name, shown_as) in SHOWN {
        same(sent, name, &shown, shown_as)?;
    }
    Ok(())
}

/// A result that was taken is there as it came.
fn result_is_kept(peer: &mut Peer, body: &[u8]) -> Result<(), Wrong> {
    let (Some(id), Some(result)) = (member(body, &["task_id"]), member(body, &["result"])) else {
        return Ok(());
    };
    let id: String = serde_json::from_slice(id)?;
    let shown = peer.ask(&format!("/api/v1/tasks/{id}"))?;
    let kept = member(&shown.body, &["result"]).unwrap_or(b"null");
    if result == kept {
        return Ok(());
    }
    broken(format!("result {} is kept as {}", result.escape_ascii(), kept.escape_ascii()))
}

/// Settings that were taken are in force.
fn is_set(peer: &mut Peer, path: &str, body: &[u8]) -> Result<(), Wrong> {
    if member(body, &["reset"]).is_some() {
        return Ok(());
    }
    let shown = peer.ask(path)?;
    SETTINGS.into_iter().try_for_each(|name| same(body, name, &shown, name))
}

/// A member means the same in what was sent and in what is shown.
fn same(sent: &[u8], name: &str, shown: &Reply, shown_as: &str) -> Result<(), Wrong> {
    let value = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap_or(Value::Null);
    let wanted = value(member(sent, &[name]).unwrap_or(b"null"));
    let found = value(member(&shown.body, &[shown_as]).unwrap_or(b"null"));
    // Nothing at all is the same as an empty list or object.
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    if is_nothing(&wanted) || means_same(&wanted, &found) {
        return Ok(());
    }
    broken(format!("{name}: {wanted} is shown as {found}"))
}

/// Sets have no order, and ids may be written in several ways.
fn means_same(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Array(wanted), Value::Array(found)) if wanted.iter().all(Value::is_string) => {
            wanted.iter().all(|one| found.contains(one))
        }
        (Value::String(wanted), Value::String(found)) => {
            let id = |text: &str| text.parse::<tasklane_core::TaskId>().ok();
            wanted == found || (id(wanted).is_some() && id(wanted) == id(found))
        }
        _ => wanted == found,
    }
}
