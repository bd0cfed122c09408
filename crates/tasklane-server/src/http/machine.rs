//! What machines ask: whether the server lives, is ready, and what it offers.

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::problem::{self, Refused};
use super::{App, document, respond};
use crate::engine::NotReady;

/// Nothing but what this server sends: no inline code, no other host.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// Ask whether the process lives
#[utoipa::path(get, path = "/livez", tag = "machines",
    responses((status = 200, description = "It does", body = String, content_type = "text/plain")))]
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

/// Ask whether the process lives; another name for `/livez`
#[utoipa::path(get, path = "/healthz", tag = "machines",
    responses((status = 200, description = "It does", body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Ask whether the server should get calls
///
/// It should while the store takes writes, as of at most a second ago, and it is not shutting down.
#[utoipa::path(get, path = "/readyz", tag = "machines",
    responses((status = 200, description = "It should", body = String,
        content_type = "text/plain")))]
pub(crate) async fn readyz(State(engine): App) -> Result<&'static str, Refused> {
    engine.ready().await.map_err(|reason| match reason {
        NotReady::Draining => Refused::new(problem::SHUTTING_DOWN, "the server is shutting down"),
        NotReady::Store(reason) => Refused::new(problem::STORE_UNAVAILABLE, reason),
    })?;
    Ok("ok\n")
}

/// The document that describes every route
#[utoipa::path(get, path = "/openapi.json", tag = "machines",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub(crate) async fn openapi() -> Response {
    respond::json(StatusCode::OK, document::shown())
}

/// The same for people, with forms to try it
#[utoipa::path(get, path = "/docs", tag = "machines",
    responses((status = 200, description = "A page", body = String, content_type = "text/html")))]
pub(crate) async fn docs() -> Response {
    asset("text/html; charset=utf-8", include_str!("docs/index.html"))
}

/// The code of the page
#[utoipa::path(get, path = "/docs/docs.js", tag = "machines",
    responses((status = 200, description = "Code", body = String,
        content_type = "text/javascript")))]
pub(crate) async fn docs_script() -> Response {
    asset("text/javascript; charset=utf-8", include_str!("docs/docs.js"))
}

/// The look of the page
#[utoipa::path(get, path = "/docs/docs.css", tag = "machines",
    responses((status = 200, description = "Styles", body = String, content_type = "text/css")))]
pub(crate) async fn docs_style() -> Response {
    asset("text/css; charset=utf-8", include_str!("docs/docs.css"))
}

fn asset(content_type: &'static str, text: &'static str) -> Response {
    let policy = HeaderName::from_static("content-security-policy");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (policy, HeaderValue::from_static(DOCS_POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, text).into_response()
}
