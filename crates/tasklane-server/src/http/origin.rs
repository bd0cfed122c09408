//! Which pages may call. Programs send no origin; a browser sends that of the page, and only pages
//! of this server, or of origins that were allowed, may change something or open a WebSocket.

use axum::http::{HeaderMap, Uri, header};

use super::problem::{self, Refused};

/// Refuses a call from a page of somebody else.
pub(super) fn check(headers: &HeaderMap, uri: &Uri, allowed: &[Box<str>]) -> Result<(), Refused> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let mut listed = allowed.iter().map(|known| known.as_bytes());
    if listed.any(|known| known.eq_ignore_ascii_case(origin.as_bytes())) || is_own(headers, uri) {
        return Ok(());
    }
    let detail = "a page of another origin may not do that here";
    Err(Refused::new(problem::ORIGIN_FORBIDDEN, detail))
}

/// Whether the page came from the host that it calls.
fn is_own(headers: &HeaderMap, uri: &Uri) -> bool {
    let own = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let own = own.or_else(|| uri.authority().map(|authority| authority.as_str()));
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let origin = origin.and_then(|origin| origin.parse::<Uri>().ok());
    let origin = origin.as_ref().and_then(Uri::authority).map(|authority| authority.as_str());
    matches!((own, origin), (Some(own), Some(origin)) if own.eq_ignore_ascii_case(origin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn may(host: &str, origin: Option<&str>, allowed: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        let allowed: Vec<_> = allowed.iter().map(|text| Box::from(*text)).collect();
        check(&headers, &Uri::from_static("/ws"), &allowed).is_ok()
    }

    #[test]
    fn only_pages_of_this_host_may_come() {
        assert!(may("localhost:7170", None, &[]));
        assert!(may("localhost:7170", Some("http://localhost:7170"), &[]));
        assert!(may("Queue.example.org", Some("https://queue.example.org"), &[]));
        for foreign in ["null", "", "http://localhost", "http://example.org", "https://a.b:7170"] {
            assert!(!may("localhost:7170", Some(foreign), &[]), "{foreign}");
        }
    }

    #[test]
    fn an_allowed_origin_is_meant_as_a_whole() {
        let allowed = ["https://board.example.org"];
        assert!(may("q.example.org", Some("https://board.example.org"), &allowed));
        for foreign in ["http://board.example.org", "https://board.example.org.evil.example"] {
            assert!(!may("q.example.org", Some(foreign), &allowed), "{foreign}");
        }
    }
}
