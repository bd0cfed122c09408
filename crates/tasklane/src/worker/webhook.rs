//! `webhook`: an HTTP call as a task.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tasklane_client::ErrorKind;
use tasklane_client::trust::Trust;
use tasklane_client::worker::{Context, TaskError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use super::address::is_public;
use super::settings::WebhookSettings;

/// Bytes of an answer that are kept; a longer one is refused.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// What is to be called.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    url: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Sent as JSON.
    #[serde(default)]
    body: Option<Box<RawValue>>,
    /// Sent as it is.
    #[serde(default)]
    text: Option<String>,
    /// Statuses that are a success; without it, 200 to 299.
    #[serde(default)]
    expect: Option<Vec<u16>>,
}

/// What came back.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    body: String,
}

/// Makes calls.
pub(super) struct Caller {
    allow_private: bool,
    trust: Trust,
}

impl Caller {
    pub(super) fn new(settings: &WebhookSettings) -> anyhow::Result<Self> {
        let trust = Trust::new(settings.ca.as_deref(), None)?;
        Ok(Self { allow_private: settings.allow_private, trust })
    }

    /// Calls, unless it is told to stop before the answer is there.
    pub(super) async fn run(
        self: Arc<Self>,
        context: Context,
        call: Call,
    ) -> Result<Answer, TaskError> {
        tokio::select! {
            answer = self.call(&context, call) => answer,
            _ = context.cancelled() => Err(TaskError::cancelled()),
        }
    }

    async fn call(&self, context: &Context, call: Call) -> Result<Answer, TaskError> {
        let target = Target::read(&call.url)?;
        let expect = call.expect.clone();
        let request = request(&target, context, call)?;
        let stream = self.connect(&target).await?;
        let (status, headers, body) = match target.secure {
            true => {
                let secured = self.trust.connect(&target.host, stream).await;
                exchange(secured.map_err(|error| unreached(&target, &error))?, request).await?
            }
            false => exchange(stream, request).await?,
        };
        let expected = expect.map_or(status.is_success(), |list| list.contains(&status.as_u16()));
        if !expected {
            return Err(refused(status, &headers));
        }
        let content_type = headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer { status: status.as_u16(), content_type, body })
    }

    /// Connects to an address that may be called. It is the very one that was looked at: a name
    /// that means something else a moment later changes nothing.
    async fn connect(&self, target: &Target) -> Result<TcpStream, TaskError> {
        let found = lookup_host((target.host.as_str(), target.port)).await;
        let found: Vec<SocketAddr> = found.map_err(|error| unreached(target, &error))?.collect();
        let allowed = |found: &&SocketAddr| self.allow_private || is_public(found.ip());
        let mut last = None;
        for address in found.iter().filter(allowed) {
            match tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = Some(unreached(target, &error)),
                Err(_) => last = Some(unreached(target, &"it took too long")),
            }
        }
        Err(last.unwrap_or_else(|| match found.is_empty() {
            true => unreached(target, &"its name has no address"),
            false => TaskError::permanent(format!(
                "{} is on this machine or in a private network, which this worker does not call",
                target.host
            ))
            .with_code("forbidden-target"),
        }))
    }
}

/// Where a call goes.
#[derive(Debug)]
struct Target {
    secure: bool,
    host: String,
    port: u16,
    path: Uri,
    authority: HeaderValue,
}

impl Target {
    fn read(url: &str) -> Result<Self, TaskError> {
        let wrong = || {
            let message = "url: give one such as https://example.org/path, without a password";
            TaskError::permanent(message).with_code("invalid-url")
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or_else(wrong)?;
        // Addresses of the sixth version stand in brackets, which the system does not know.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let path = path.parse().map_err(|_| wrong())?;
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?;
        Ok(Self { secure, host, port, path, authority })
    }
}

fn request(
    target: &Target,
    context: &Context,
    call: Call,
) -> Result<Request<Full<Bytes>>, TaskError> {
    let wrong = |what: &str| TaskError::permanent(what).with_code("invalid-request");
    let (kind, body) = match (call.body, call.text) {
        (Some(_), Some(_)) => return Err(wrong("give body or text, not both")),
        (Some(body), None) => (Some("application/json"), body.get().to_owned()),
        (None, Some(text)) => (Some("text/plain; charset=utf-8"), text),
        (None, None) => (None, String::new()),
    };
    let method = call.method.as_deref().unwrap_or(if kind.is_some() { "POST" } else { "GET" });
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| wrong("method: not a word"))?;
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = method;
    *request.uri_mut() = target.path.clone();
    let headers = request.headers_mut();
    headers.insert(header::USER_AGENT, HeaderValue::from_static("tasklane"));
    if let Some(kind) = kind {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    // So that the other side can tell a second call for the same task.
    let id = context.id().to_string();
    headers.insert("idempotency-key", HeaderValue::from_str(&id).map_err(|_| wrong("id"))?);
    let trace = context.task().traceparent.as_deref();
    if let Some(trace) = trace.and_then(|trace| HeaderValue::from_str(trace).ok()) {
        headers.insert("traceparent", trace);
    }
    for (name, value) in call.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(&value);
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(wrong("headers: one of them cannot be sent"));
        };
        headers.insert(name, value);
    }
    headers.insert(header::HOST, target.authority.clone());
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, HeaderMap, Bytes), TaskError> {
    let broken = |error: hyper::Error| {
        TaskError::transient(format!("the connection failed: {error}")).with_code("connection")
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|_| {
            let message = format!("the answer broke off, or has over {ANSWER_BYTES_MAX} bytes");
            TaskError::transient(message).with_code("answer")
        })?;
        Ok((head.status, head.headers, body.to_bytes()))
    };
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        // Its end is no news of the answer, which may have come just before it.
        _ = connection => answer.await,
    }
}

fn unreached(target: &Target, why: &dyn std::fmt::Display) -> TaskError {
    TaskError::transient(format!("cannot reach {}: {why}", target.host)).with_code("unreachable")
}

/// Asking again helps where the other side is busy or broken, not where the call is wrong.
fn refused(status: StatusCode, headers: &HeaderMap) -> TaskError {
    let kind = match status.as_u16() {
        429 => ErrorKind::RateLimited,
        408 | 425 | 500..=599 => ErrorKind::Transient,
        _ => ErrorKind::Permanent,
    };
    let error = TaskError::new(kind, format!("the answer was {status}"))
        .with_code(format!("http-{}", status.as_u16()));
    let after = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    match after.and_then(|text| text.trim().parse().ok()) {
        Some(seconds) if kind != ErrorKind::Permanent => {
            error.retry_after(Duration::from_secs(seconds))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_web_are_called() {
        let target = Target::read("https://example.org:8443/a?b=c").unwrap();
        assert_eq!((target.host.as_str(), target.port), ("example.org", 8443));
        assert_eq!(target.path.to_string(), "/a?b=c");
        assert_eq!(Target::read("http://[::1]/").unwrap().host, "::1");
        for bad in
            ["", "example.org", "ftp://a/", "file:///etc/passwd", "http://u:p@a/", "http:///"]
        {
            assert!(Target::read(bad).is_err(), "{bad}");
        }
    }
}
