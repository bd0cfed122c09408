//! Where spans go: one request for each batch, on a connection of its own.

use std::path::PathBuf;

use axum::http::uri::Scheme;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tasklane_client::trust::{Trust, TrustError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::TraceSettings;

/// Where collectors take spans unless told otherwise.
const PATH: &str = "/v1/traces";
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What is wrong with the settings of traces, in words for whoever has set them.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Not an address of a collector.
    #[error("traces.endpoint: give an address such as http://127.0.0.1:4318/v1/traces")]
    Endpoint,
    /// The file of headers is not there, or not for us.
    #[error("cannot read the headers for traces in {}", .file.display())]
    HeadersFile {
        /// Which file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A line of it is no header. What it holds is not repeated: it may be a secret.
    #[error("{}:{line}: give one header in a line, such as authorization: Bearer TOKEN", .file.display())]
    Header {
        /// Which file.
        file: PathBuf,
        /// From 1.
        line: usize,
    },
    /// Nobody is trusted.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("it did not answer in time")]
    TooSlow,
    #[error("cannot reach it: {0}")]
    Unreachable(#[from] std::io::Error),
    #[error("the connection failed: {0}")]
    Broken(#[from] hyper::Error),
    #[error("it answered {0}")]
    Refused(StatusCode),
}

impl SendError {
    /// Whether the same batch may be taken later.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Refused(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Self::TooSlow | Self::Unreachable(_) | Self::Broken(_) => true,
        }
    }
}

/// Whether this is an address of a collector.
pub fn is_endpoint(text: &str) -> bool {
    Address::read(text).is_some()
}

/// An address, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

impl Address {
    fn read(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let secure = match uri.scheme()? {
            scheme if *scheme == Scheme::HTTP => false,
            scheme if *scheme == Scheme::HTTPS => true,
            _ => return None,
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let path = match uri.path_and_query().map(|path| path.as_str()) {
            None | Some("" | "/") => PATH.to_owned(),
            Some(path) => path.to_owned(),
        };
        Some(Self { secure, host: authority.host().to_owned(), port, path })
    }
}

/// A collector.
pub(super) struct Collector {
    host: String,
    port: u16,
    path: String,
    trust: Option<Trust>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Collector {
    pub(super) fn new(settings: &TraceSettings) -> Result<Self, TraceError> {
        let Address { secure, host, port, path } =
            Address::read(&settings.endpoint).ok_or(TraceError::Endpoint)?;
        let trust = match secure {
            true => Some(Trust::new(settings.ca.as_deref(), None)?),
            false => None,
        };
        Ok(Self { host, port, path, trust, headers: headers(settings)? })
    }

    /// Sends one batch.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<(), SendError> {
        // Addresses of the sixth version stand in brackets, which the system does not know.
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.port)).await?;
        let status = match &self.trust {
            Some(trust) => self.post(trust.connect(host, stream).await?, body).await?,
            None => self.post(stream, body).await?,
        };
        if status.is_success() { Ok(()) } else { Err(SendError::Refused(status)) }
    }

    async fn post(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        body: Vec<u8>,
    ) -> Result<StatusCode, SendError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::pin!(connection);
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.parse().unwrap_or(Uri::from_static(PATH));
        let headers = request.headers_mut();
        let host = HeaderValue::from_str(&format!("{}:{}", self.host, self.port));
        headers.insert(header::HOST, host.unwrap_or(HeaderValue::from_static("collector")));
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        let answer = sender.send_request(request);
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => Ok(answer?.status()),
            // Its end is no news of the answer, which may have come just before it.
            _ = &mut connection => Ok(answer.await?.status()),
        }
    }
}

fn headers(settings: &TraceSettings) -> Result<Vec<(HeaderName, HeaderValue)>, TraceError> {
    let Some(file) = &settings.headers_file else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(file)
        .map_err(|source| TraceError::HeadersFile { file: file.clone(), source })?;
    let lines = text.lines().zip(1..).map(|(line, number)| (line.trim(), number));
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let header = |(text, line): (&str, usize)| {
        let header = text.split_once(':').and_then(|(name, value)| {
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
        });
        header.ok_or_else(|| TraceError::Header { file: file.clone(), line })
    };
    lines.map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_with_or_without_a_path() {
        for (endpoint, host, port, path) in [
            ("http://127.0.0.1:4318", "127.0.0.1", 4318, "/v1/traces"),
            ("http://collector/", "collector", 80, "/v1/traces"),
            ("http://[::1]:4318/otlp?team=a", "[::1]", 4318, "/otlp?team=a"),
        ] {
            let read = Address::read(endpoint).unwrap();
            assert_eq!((read.host.as_str(), read.port, read.path.as_str()), (host, port, path));
            assert!(!read.secure);
        }
        assert_eq!(Address::read("https://a").unwrap().port, 443);
        for bad in ["", "collector", "collector:4318", "ftp://a", "http://", "http://u:p@a/"] {
            assert!(!is_endpoint(bad), "{bad}");
        }
    }
}
