//! Short texts that name something: ids, tokens, cursors, fences, names, times.
//!
//! What is read and shown is read as the same again, and is shown in one way only.

use std::fmt::Display;
use std::str::FromStr;

use tasklane_client::wire::{Seconds, Time};
use tasklane_core::{
    ApiKeyId, Capability, Credential, Fence, IdempotencyKey, LeaseToken, OrderingKey, Pattern,
    Priority, QueueName, StateName, TaskId, TaskType, Timestamp, WorkerId, limits,
};
use tasklane_store::{Cursor, PageCursor};

use crate::Failure;
use crate::fuzz::ground::Ground;
use crate::fuzz::{Form, Memory, Seen, Target, Verdict, Wrong, broken};

pub(super) const TARGET: Target = Target {
    name: "token",
    form: Form::Bytes,
    words: &[
        "-",
        "_",
        "tl_",
        "0",
        "f",
        "F",
        "{",
        "}",
        "urn:uuid:",
        "T",
        "Z",
        "+01:00",
        ".",
        "e",
        "*",
        "+",
        " ",
        "\u{feff}",
        "٣",
    ],
    bytes_max: 4 * 1024,
    short: 200_000,
    memory: Memory::Own,
    seeds,
    check,
};

fn seeds(_: &mut Ground) -> Result<Vec<Vec<u8>>, Failure> {
    let texts = [
        "019a8c5e-0b6e-7cc3-98c4-dc0c0c07398f",
        "019A8C5E0B6E7CC398C4DC0C0C07398F",
        "{019a8c5e-0b6e-7cc3-98c4-dc0c0c07398f}",
        "0af7651916cd43dd8448eb211c80319c",
        "000000000000000100000000000003e8",
        "tl_0123456789ab",
        "tl_0123456789ab_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "critical",
        "medium",
        "dead_letter",
        "email.send*",
        "order:42/{a}",
        "2026-11-15T12:00:00Z",
        "2026-11-15T13:00:00.123456789+01:00",
        "1.5",
        "9007199254740991",
    ];
    Ok(texts.map(|text| text.as_bytes().to_vec()).to_vec())
}

pub(super) fn check(_: &mut Ground, input: &[u8]) -> Verdict {
    if let Some(number) = input.first_chunk::<8>() {
        fence_rises(u64::from_le_bytes(*number), input.len() as i64)?;
    }
    let Ok(text) = std::str::from_utf8(input) else { return Ok(Seen::Refused) };
    let taken = [
        survives::<TaskId>(text)?,
        survives::<WorkerId>(text)?,
        survives::<LeaseToken>(text)?,
        survives::<ApiKeyId>(text)?,
        survives::<Cursor>(text)?,
        survives::<PageCursor>(text)?,
        survives::<Priority>(text)?,
        stays::<QueueName>(text)?,
        stays::<TaskType>(text)?,
        stays::<Capability>(text)?,
        stays::<IdempotencyKey>(text)?,
        stays::<OrderingKey>(text)?,
        is_secret(text)?,
        is_pattern(text)?,
        is_time(text)?,
        is_seconds(text)?,
        StateName::from_word(text)
            .is_some_and(|state| StateName::from_word(state.as_str()) == Some(state)),
    ];
    Ok(if taken.contains(&true) { Seen::Taken } else { Seen::Refused })
}

fn survives<T: FromStr + Display + PartialEq>(text: &str) -> Result<bool, Wrong> {
    let Ok(value) = text.parse::<T>() else { return Ok(false) };
    let shown = value.to_string();
    match shown.parse::<T>() {
        Ok(again) if again == value && again.to_string() == shown => Ok(true),
        _ => broken(format!("{text:?} is shown as {shown:?}, which is something else")),
    }
}

/// Names are shown as they came.
fn stays<T: FromStr + Display>(text: &str) -> Result<bool, Wrong> {
    match text.parse::<T>() {
        Ok(name) if name.to_string() == text => Ok(true),
        Ok(name) => broken(format!("{text:?} is shown as {:?}", name.to_string())),
        Err(_) => Ok(false),
    }
}

fn is_secret(text: &str) -> Result<bool, Wrong> {
    let Ok(key) = text.parse::<Credential>() else { return Ok(false) };
    let again = key.reveal().parse::<Credential>();
    if again.as_ref() != Ok(&key) {
        return broken("a key is something else once it was shown");
    }
    // More digits of the secret than its id has in all.
    let secret = text.get(text.len() - 16..).unwrap_or_default();
    if format!("{key:?}").contains(secret) {
        return broken("a key shows itself in debug output");
    }
    Ok(true)
}

fn is_pattern(text: &str) -> Result<bool, Wrong> {
    let Ok(pattern) = Pattern::new(text) else { return Ok(false) };
    if pattern.to_string() != text {
        return broken(format!("the pattern {text:?} is shown as {:?}", pattern.to_string()));
    }
    let name = text.strip_suffix('*').unwrap_or(text);
    if pattern.matches(name) && pattern.covers(&pattern) {
        return Ok(true);
    }
    broken(format!("the pattern {text:?} does not fit its own name"))
}

fn is_time(text: &str) -> Result<bool, Wrong> {
    let Ok(time) = text.parse::<Time>() else { return Ok(false) };
    let shown = serde_json::to_value(time)?;
    let shown = shown.as_str().unwrap_or_default().to_owned();
    // Two ways to show a time: one for speed, one for what it does not know.
    if shown.parse() == Ok(time) && time.to_string().parse() == Ok(time) {
        return Ok(true);
    }
    broken(format!("the time {text:?} is shown as {shown:?} and {:?}", time.to_string()))
}

fn is_seconds(text: &str) -> Result<bool, Wrong> {
    let Ok(seconds) = serde_json::from_str::<Seconds>(text) else { return Ok(false) };
    let shown = serde_json::to_string(&seconds)?;
    let again: Seconds = serde_json::from_str(&shown)?;
    // Shown to the microsecond, as far as a double can.
    let off = again.0.abs_diff(seconds.0).as_secs_f64();
    if off <= 1e-6 + seconds.0.as_secs_f64() * 1e-15 {
        return Ok(true);
    }
    broken(format!("{text} seconds are shown as {shown}"))
}

/// From one claim to the next, whatever the clock says.
fn fence_rises(number: u64, clock: i64) -> Result<(), Wrong> {
    let fence = Fence::from_u64(number);
    let next = fence.next(Timestamp::from_micros(clock));
    let rises = number >= limits::FENCE_MAX || next > fence;
    if rises && next.as_u64() <= limits::FENCE_MAX {
        return Ok(());
    }
    broken(format!("the fence after {number} is {}", next.as_u64()))
}
