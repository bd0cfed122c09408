//! Spans as OTLP has them in JSON.

use std::time::SystemTime;

use serde::Serialize;

use super::span::Span;

const SCOPE: &str = "tasklane";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Of spans: a server's side of a call.
const KIND_SERVER: u8 = 2;
/// Of a status: it is this server's fault.
const STATUS_ERROR: u8 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Resource<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: [Attribute<'a>; 2],
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_state: Option<&'a str>,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Status {
    code: u8,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'static str,
    value: Value<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Value<'a> {
    StringValue(std::borrow::Cow<'a, str>),
    /// As text: numbers of JSON are not exact up to 64 bits.
    IntValue(String),
}

/// The body of one request.
pub(super) fn body(service_name: &str, spans: &[Span]) -> Vec<u8> {
    let request = Request {
        resource_spans: [ResourceSpans {
            resource: Resource {
                attributes: [text("service.name", service_name), text("service.version", VERSION)],
            },
            scope_spans: [ScopeSpans {
                scope: Scope { name: SCOPE, version: VERSION },
                spans: spans.iter().map(shown).collect(),
            }],
        }],
    };
    // Of numbers, texts and lists nothing fails to be written.
    serde_json::to_vec(&request).unwrap_or_default()
}

fn shown(span: &Span) -> Shown<'_> {
    let call = &span.call;
    let (method, route) = (call.method.as_str(), call.route);
    let mut attributes = vec![
        text("http.request.method", method),
        text("http.route", route),
        number("http.response.status_code", call.status.into()),
        text("tasklane.request_id", call.request_id.to_str().unwrap_or_default()),
    ];
    if let Some(task_id) = call.task_id {
        let value = Value::StringValue(task_id.to_string().into());
        attributes.push(Attribute { key: "tasklane.task_id", value });
    }
    Shown {
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent_span_id: span.parent.map(|parent| hex(&parent)),
        trace_state: span.state.as_deref(),
        name: format!("{method} {route}"),
        kind: KIND_SERVER,
        start_time_unix_nano: nanos(span.began_at),
        end_time_unix_nano: nanos(span.ended_at),
        attributes,
        status: (call.status >= 500).then_some(Status { code: STATUS_ERROR }),
    }
}

fn text<'a>(key: &'static str, value: &'a str) -> Attribute<'a> {
    Attribute { key, value: Value::StringValue(value.into()) }
}

fn number(key: &'static str, value: u64) -> Attribute<'static> {
    Attribute { key, value: Value::IntValue(value.to_string()) }
}

fn nanos(at: SystemTime) -> String {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).map(digit).collect()
}

fn digit(nibble: u8) -> char {
    char::from_digit(nibble.into(), 16).unwrap_or('0')
}
