//! Reading bodies: bounded, checked once, refused with what is wrong.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::Deserialize;
use tasklane_client::wire;

use super::problem::{self, Refused};
use super::query::{Nothing, Parameters};
use crate::aside::aside;
use crate::engine::{Engine, Share};
use crate::limits::{BODY_DEPTH_MAX, LONG_BODY_BYTES};

/// Bytes of an unknown member's name that are repeated in a refusal.
const NAME_BYTES_SHOWN: usize = 64;

/// Bytes of a body that are copied rather than kept where they were read.
const COPIED_BYTES_MAX: usize = 2_048;

/// Bytes of a body that are let pass unread, and for how long: for more a connection is ended.
const UNREAD_BYTES_MAX: usize = 1024 * 1024;
const UNREAD_WITHIN: Duration = Duration::from_secs(1);

/// Reads a body that must be JSON. No route that has one takes parameters besides.
pub(crate) async fn read(engine: &Engine, request: Request) -> Result<Bytes, Refused> {
    let (parts, body) = request.into_parts();
    if let Some(query) = parts.uri.query() {
        Parameters::<Nothing>::read(query)?;
    }
    check_headers(&parts.headers)?;
    let bytes = collect(engine, &parts.headers, body).await?;
    aside(bytes.len() >= LONG_BODY_BYTES, || check_depth(&bytes))?;
    Ok(bytes)
}

/// Reads a body that may be left out.
pub(crate) async fn read_optional(
    engine: &Engine,
    request: Request,
) -> Result<Option<Bytes>, Refused> {
    let (parts, body) = request.into_parts();
    if parts.headers.contains_key(header::CONTENT_TYPE) {
        check_headers(&parts.headers)?;
    }
    let bytes = collect(engine, &parts.headers, body).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    check_headers(&parts.headers)?;
    aside(bytes.len() >= LONG_BODY_BYTES, || check_depth(&bytes))?;
    Ok(Some(bytes))
}

/// Bytes of a body, as its client says.
pub(crate) fn declared(request: &Request) -> usize {
    let length = request.headers().get(header::CONTENT_LENGTH);
    length.and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or_default()
}

/// Refuses a submission because too much is under way. What is on its way is let pass, without being
/// kept: a client that still sends would not see an answer before the end of its connection.
pub(crate) async fn refuse_unread(request: Request) -> Refused {
    if declared(&request) <= UNREAD_BYTES_MAX {
        let mut body = request.into_body();
        let passed = async { while let Some(Ok(_)) = body.frame().await {} };
        let _ = tokio::time::timeout(UNREAD_WITHIN, passed).await;
    }
    Refused::new(problem::OVERLOADED, "too much is being submitted at once; try again in a moment")
}

/// Takes a body apart. `bytes` must have been read by [`read`].
pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a Bytes) -> Result<T, Refused> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Refused::new(problem::MALFORMED_JSON, "the body is not UTF-8"))?;
    let begins = bytes.trim_ascii_start().first();
    // Serde would take a list for the members of an object in their order.
    if begins.is_some_and(|first| *first != b'{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
    {
        let detail = "must be an object";
        return Err(Refused::field(problem::VALIDATION_FAILED, "", "wrong-type", detail));
    }
    // Of text, so that its parts are not looked at again.
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let parsed = T::deserialize(&mut deserializer).and_then(|value| {
        deserializer.end()?;
        Ok(value)
    });
    parsed.map_err(|error| explain::<T>(bytes, &error))
}

fn check_headers(headers: &HeaderMap) -> Result<(), Refused> {
    let refused = |detail: &str| Refused::new(problem::UNSUPPORTED_MEDIA_TYPE, detail);
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !content_type.is_some_and(is_json) {
        return Err(refused("send the body as Content-Type: application/json, in UTF-8"));
    }
    match headers.get(header::CONTENT_ENCODING) {
        None => Ok(()),
        Some(encoding) if encoding.as_bytes().eq_ignore_ascii_case(b"identity") => Ok(()),
        Some(_) => Err(refused("send the body without a Content-Encoding")),
    }
}

fn is_json(content_type: &str) -> bool {
    // As nearly all clients write it.
    if content_type == "application/json" {
        return true;
    }
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let charset = parameters.trim().to_ascii_lowercase().replace('"', "");
    essence.trim().eq_ignore_ascii_case("application/json")
        && matches!(charset.as_str(), "" | "charset=utf-8")
}

async fn collect(engine: &Engine, headers: &HeaderMap, body: Body) -> Result<Bytes, Refused> {
    let settings = engine.settings();
    let max = settings.body_bytes_max;
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let declared = declared.and_then(|text| text.parse::<u64>().ok());
    if declared.is_some_and(|bytes| bytes > max as u64) {
        return Err(too_large(max));
    }
    let share = engine.reading().begin(settings.reading_bytes_max);
    let mut gathering = pin!(gather(body, max, share));
    // Most bodies are there already: no clock need be asked for them.
    let at_once = poll_fn(|context| Poll::Ready(gathering.as_mut().poll(context))).await;
    if let Poll::Ready(read) = at_once {
        return read;
    }
    match tokio::time::timeout(settings.body_within, gathering).await {
        Ok(read) => read,
        Err(_) => Err(Refused::new(problem::REQUEST_TIMEOUT, "the body came too slowly")),
    }
}

/// Most bodies come in one piece. A large one is not copied; a small one is, so that it does not hold
/// the eight kilobytes that it was read into while it waits.
async fn gather(mut body: Body, max: usize, mut share: Share<'_>) -> Result<Bytes, Refused> {
    let mut whole = Bytes::new();
    let mut pieces = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let broken = |_| Refused::new(problem::MALFORMED_JSON, "the body broke off");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if !share.grow(data.len()) {
            let detail = "too much is being sent at once; try again in a moment";
            return Err(Refused::new(problem::OVERLOADED, detail));
        }
        if whole.is_empty() && pieces.is_empty() {
            whole = match data.len() {
                ..=COPIED_BYTES_MAX => Bytes::copy_from_slice(&data),
                _ => data,
            };
        } else {
            pieces.extend_from_slice(&std::mem::take(&mut whole));
            pieces.extend_from_slice(&data);
        }
        if whole.len().max(pieces.len()) > max {
            return Err(too_large(max));
        }
    }
    Ok(if pieces.is_empty() { whole } else { pieces.freeze() })
}

fn too_large(max: usize) -> Refused {
    let detail = format!("bodies have at most {max} bytes");
    Refused::new(problem::PAYLOAD_TOO_LARGE, detail)
}

/// One scan: brackets nest no deeper than they may.
fn check_depth(bytes: &[u8]) -> Result<(), Refused> {
    if may_be_deep(bytes) && depth(bytes) > BODY_DEPTH_MAX {
        let detail = format!("bodies nest at most {BODY_DEPTH_MAX} deep");
        return Err(Refused::new(problem::JSON_TOO_DEEP, detail));
    }
    Ok(())
}

/// Whether brackets could nest too deep: whether there are that many at all. Both opening ones are
/// the same but for one bit, so this looks at many bytes at once.
fn may_be_deep(bytes: &[u8]) -> bool {
    bytes.iter().filter(|byte| **byte | 0x20 == b'{').count() > BODY_DEPTH_MAX
}

/// How deep brackets nest outside of texts.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut rest) = (0usize, 0, bytes.iter());
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => rest = after_text(rest.as_slice()).iter(),
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// What follows the end of the text that `bytes` begin in.
fn after_text(mut bytes: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', bytes) {
        let is_end = bytes.get(at) == Some(&b'"');
        // A backslash hides the byte after it.
        bytes = bytes.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return bytes;
        }
    }
    &[]
}

/// Says what is wrong and where. Reads the body a second time for the place: refusals are rare.
fn explain<'a, T: Deserialize<'a>>(bytes: &'a [u8], error: &serde_json::Error) -> Refused {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(before, _)| before);
    if message.starts_with("number out of range") {
        return Refused::field(problem::OUT_OF_RANGE, "", "out-of-range", message);
    }
    // A list that is longer than it may be is called trailing characters, though it is JSON.
    let is_too_long = message == "trailing characters"
        && serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
    let message = if is_too_long { "has too many members" } else { message };
    if !(error.is_data() || is_too_long) || message.starts_with("duplicate field") {
        let detail = format!("{message}, at line {} column {}", error.line(), error.column());
        return Refused::new(problem::MALFORMED_JSON, detail);
    }
    // A member that is not known may stand before the place where the JSON breaks.
    if let Err(broken) = serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
        let detail = format!("broken at line {} column {}", broken.line(), broken.column());
        return Refused::new(problem::MALFORMED_JSON, detail);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let at = serde_path_to_error::deserialize::<_, T>(&mut deserializer).err();
    let mut pointer = at.map(|error| pointer(error.path())).unwrap_or_default();
    let (kind, code) = classify(message);
    let named = message.split('`').nth(1).unwrap_or_default();
    let named = named.get(..named.floor_char_boundary(NAME_BYTES_SHOWN)).unwrap_or_default();
    let names_one = matches!(code, "unknown-field" | "missing-field");
    if names_one && !pointer.ends_with(&format!("/{named}")) {
        pointer = format!("{pointer}/{named}");
    }
    Refused::field(kind, pointer, code, without_values(message))
}

/// What a message of serde means.
fn classify(message: &str) -> (problem::Kind, &'static str) {
    let begins = |with: &str| message.starts_with(with);
    if begins("unknown field") {
        (problem::VALIDATION_FAILED, "unknown-field")
    } else if begins("missing field") {
        (problem::VALIDATION_FAILED, "missing-field")
    } else if is_huge(message) {
        (problem::OUT_OF_RANGE, "out-of-range")
    } else if begins("invalid type") {
        (problem::VALIDATION_FAILED, "wrong-type")
    } else if begins(wire::OUT_OF_RANGE)
        || begins("invalid value: integer")
        || begins("invalid value: floating")
    {
        (problem::OUT_OF_RANGE, "out-of-range")
    } else {
        (problem::VALIDATION_FAILED, "malformed")
    }
}

/// Whether a number stands where a smaller one is expected: beyond 64 bits it is read as broken.
fn is_huge(message: &str) -> bool {
    let found = message.strip_prefix("invalid type: floating point `");
    let Some((number, expected)) = found.and_then(|found| found.split_once("`, expected ")) else {
        return false;
    };
    let is_number = matches!(expected, "u8" | "u16" | "u32" | "u64" | "usize")
        || expected.contains("a number from");
    is_number && number.parse().is_ok_and(|number: f64| number.abs() >= 2.0_f64.powi(63))
}

/// Messages of serde quote what they found; a value must not be echoed, nor a long name.
fn without_values(message: &str) -> String {
    let expected = message.rsplit_once(", expected ").map(|(_, expected)| expected);
    let (what, found) = message.split_once(": ").unwrap_or((message, ""));
    let sort = found.split([' ', '`', '"', ',']).next().unwrap_or_default();
    match expected {
        Some(expected) if message.starts_with("invalid ") => {
            format!("{what}: {sort}, expected {expected}")
        }
        Some(expected) if message.starts_with("unknown variant") => {
            format!("unknown word, expected {expected}")
        }
        Some(expected) if message.starts_with("unknown field") => {
            format!("unknown field, expected {expected}")
        }
        _ if message.starts_with("invalid ") || message.starts_with("unknown ") => {
            what.split('`').next().unwrap_or_default().trim_end().to_owned()
        }
        _ => message.to_owned(),
    }
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        pointer.push('/');
        match segment {
            Segment::Seq { index } => pointer.push_str(&index.to_string()),
            Segment::Map { key } => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { variant } => pointer.push_str(variant),
            Segment::Unknown => pointer.push('?'),
        }
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_inside_texts_do_not_nest() {
        assert_eq!(depth(br#"{"a":"[[[{{{\"[[","b":[{}]}"#), 3);
        assert_eq!(depth(b"1"), 0);
        assert_eq!(depth(&[b'['; 100]), 100);
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Sample {
        name: String,
        #[serde(default)]
        count: Option<u32>,
        #[serde(default)]
        word: Option<Word>,
        #[serde(default)]
        pair: Option<[u32; 2]>,
    }

    #[derive(Debug, Deserialize)]
    enum Word {
        One,
    }

    fn refused(text: &'static str) -> (String, String) {
        let bytes = Bytes::from_static(text.as_bytes());
        let problem = parse::<Sample>(&bytes).unwrap_err().render("/", "r");
        let pointer = problem.errors.first().map(|e| e.pointer.to_string()).unwrap_or_default();
        (problem.problem_type.into_owned(), pointer)
    }

    #[test]
    fn each_fault_is_named_with_its_place() {
        let is = |text, kind: &str, pointer: &str| {
            assert_eq!(refused(text), (kind.to_owned(), pointer.to_owned()), "{text}");
        };
        is(r#"{"name":"#, "malformed-json", "");
        is(r#"{"name":"a"} x"#, "malformed-json", "");
        is(r#"{"name":"a","name":"b"}"#, "malformed-json", "");
        is(r#"{"name":"a","nam":1}"#, "validation-failed", "/nam");
        is("{}", "validation-failed", "/name");
        is(r#"{"name":5}"#, "validation-failed", "/name");
        is(r#"{"name":"a","count":-1}"#, "out-of-range", "/count");
        is(r#"{"name":"a","count":99999999999}"#, "out-of-range", "/count");
        is(r#"{"name":"a","count":1e999}"#, "out-of-range", "");
        is(r#"{"name":"a","pair":[1,2,3]}"#, "validation-failed", "/pair");
        is(r#"{"name":"a","pair":[1,2,3]} x"#, "malformed-json", "");
        is("5", "validation-failed", "");
    }

    #[test]
    fn values_are_not_echoed() {
        for text in [
            r#"{"name":["secret"]}"#,
            r#"{"name":"a","count":"secret"}"#,
            r#"{"name":"a","count":"secret at line 5"}"#,
            r#"{"name":"a","word":"secret"}"#,
        ] {
            let bytes = Bytes::from_static(text.as_bytes());
            let problem = parse::<Sample>(&bytes).unwrap_err().render("/", "r");
            assert!(!format!("{problem:?}").contains("secret"), "{problem:?}");
        }
    }
}
