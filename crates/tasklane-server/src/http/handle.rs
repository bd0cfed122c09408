//! Around every request: its id, its bounds, and the rendering of refusals.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use tower::Service;

use super::observe::{Answer, Observed};
use super::problem::{self, Refused};
use super::shortcut::Shortcut;
use super::slow::SlowCalls;
use super::{guard, metrics};
use crate::engine::Engine;
use crate::limits::{HEADERS_BYTES_MAX, URI_BYTES_MAX};
use crate::server::Line;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// Longer ids of clients are replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// What stands in front of the routes.
pub(crate) struct Front {
    router: Router,
    engine: Arc<Engine>,
    ids: RequestIds,
    slow: SlowCalls,
}

impl Front {
    pub(crate) fn new(engine: Arc<Engine>) -> Arc<Self> {
        let (router, _) = super::routes();
        let guard = from_fn_with_state(Arc::clone(&engine), guard::guard);
        let router = router
            .with_state(Arc::clone(&engine))
            .layer(guard)
            .layer(metrics::Measure(Arc::clone(&engine)));
        Arc::new(Self { router, engine, ids: RequestIds::new(), slow: SlowCalls::default() })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The answer to a request whose headers did not come in time, as it goes over the wire: hyper has
    /// none.
    pub(crate) fn too_slow(&self) -> Vec<u8> {
        let refused = Refused::new(problem::REQUEST_TIMEOUT, "the headers came too slowly");
        self.engine.metrics().rejected(refused.kind().word);
        let request_id = self.ids.of(&HeaderMap::new());
        let request_id = request_id.to_str().unwrap_or_default();
        let body = serde_json::to_string(&refused.render("", request_id)).unwrap_or_default();
        let length = body.len();
        format!(
            "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/problem+json\r\n\
             {REQUEST_ID}: {request_id}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Answers one request.
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: hyper::Request<hyper::body::Incoming>,
        line: Arc<Line>,
    ) -> Result<Response, Infallible> {
        let mut request = request.map(Body::new);
        let mut observed = Observed::new(&self.engine, &request);
        let request_id = self.ids.of(request.headers());
        // Nothing of the request is held while its answer is awaited: hyper reads on into the memory
        // that its head came in.
        let path: Box<str> = shown(request.uri()).into();
        let is_whole = path.len() == request.uri().path().len();
        let mut response = if let Some(refused) = self.refuse_early(&request) {
            self.engine.metrics().rejected(refused.kind().word);
            refused.into_response()
        } else if let Some((shortcut, id)) =
            Shortcut::find(request.method(), &path).filter(|_| is_whole)
        {
            observed.route = Some(shortcut.route());
            let admitted = guard::check_origin(&self.engine, &request).and_then(|()| {
                let (route, verb) = (shortcut.route(), shortcut.verb());
                guard::admit(&self.engine, &request, route, verb, &line)
            });
            let answer = match admitted {
                Ok(caller) => shortcut.answer(Arc::clone(&self.engine), caller, id, request).await,
                Err(refused) => Err(refused),
            };
            let refused = |refused: Refused| Answer::from(refused.into_response());
            let Answer { response, about } = answer.unwrap_or_else(refused);
            observed.about = about;
            metrics::note(&self.engine, shortcut.route(), &response, observed.started);
            response
        } else {
            request.extensions_mut().insert(line);
            self.router.clone().call(request).await.into_response()
        };
        if let Some(refused) = response.extensions_mut().remove::<Refused>() {
            response = render(response, refused, &path, &request_id);
        }
        observed.end(&self.engine, &self.slow, &path, &request_id, &mut response);
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, request_id);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        // Tasks are nobody's to keep on the way, unless an answer says otherwise.
        headers.entry(header::CACHE_CONTROL).or_insert(NO_STORE);
        Ok(response)
    }

    fn refuse_early(&self, request: &Request) -> Option<Refused> {
        let uri = request.uri();
        let uri_bytes = uri.path().len() + uri.query().map_or(0, str::len);
        if uri_bytes > URI_BYTES_MAX {
            let detail = format!("targets have at most {URI_BYTES_MAX} bytes");
            return Some(Refused::new(problem::URI_TOO_LONG, detail));
        }
        if !is_text(uri.path()) {
            return Some(Refused::not_found("route"));
        }
        let headers = request.headers().iter();
        let bytes: usize = headers.map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > HEADERS_BYTES_MAX {
            let detail = format!("headers have at most {HEADERS_BYTES_MAX} bytes");
            return Some(Refused::new(problem::HEADERS_TOO_LARGE, detail));
        }
        None
    }
}

/// Whether a path is text once its escapes are undone: no name or id is anything else.
fn is_text(path: &str) -> bool {
    if !path.contains('%') {
        return true;
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        let escaped = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

/// The path alone, cut where it is long: a query may hold what should not be repeated.
fn shown(uri: &Uri) -> &str {
    let path = uri.path();
    path.get(..path.floor_char_boundary(256)).unwrap_or(path)
}

fn render(response: Response, refused: Refused, path: &str, request_id: &HeaderValue) -> Response {
    let request_id = request_id.to_str().unwrap_or_default();
    let problem = refused.render(path, request_id);
    let (mut parts, _) = response.into_parts();
    parts.headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    Response::from_parts(parts, Body::from(body))
}

/// Ids for requests whose client gave none: a count from the microsecond in which this server
/// started, which none that ran before it can have reached.
struct RequestIds(AtomicU64);

impl RequestIds {
    fn new() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(AtomicU64::new(since.map_or(0, |since| since.as_micros() as u64)))
    }

    fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let usable = |value: &&HeaderValue| {
            let bytes = value.as_bytes();
            !bytes.is_empty()
                && bytes.len() <= REQUEST_ID_BYTES_MAX
                && bytes.iter().all(|byte| byte.is_ascii_graphic())
        };
        if let Some(own) = headers.get(REQUEST_ID).filter(usable) {
            return own.clone();
        }
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        let text = count.to_be_bytes().map(|byte| [byte >> 4, byte & 0xf].map(hex_digit));
        let text = text.as_flattened();
        HeaderValue::from_bytes(text).unwrap_or(HeaderValue::from_static("unknown"))
    }
}

const fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}
