//! Counting calls: which of them, and from where they come.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::Method;

use super::problem::Refused;
use crate::address::{self, Source};
use crate::engine::Engine;
use crate::server::Line;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Probes: whoever watches a server must not be kept from it.
const PROBES: [&str; 3] = ["/livez", "/healthz", "/readyz"];
/// What workers say of tasks in their hands: to refuse it would lose leases and repeat work.
const KEEP_LEASES: [&str; 4] = [
    "/internal/workers/{id}/start",
    "/internal/workers/{id}/progress",
    "/internal/workers/{id}/result",
    "/internal/workers/{id}/heartbeat",
];
const WORKER: &str = "/internal/workers/{id}";

/// Whether calls of a route count.
pub(super) fn is_counted(method: &Method, route: &str) -> bool {
    let deregisters = method == Method::DELETE && route == WORKER;
    !(deregisters || KEEP_LEASES.contains(&route) || PROBES.contains(&route))
}

/// Counts a call, and says from where it came, if calls are counted; refuses it if it is one too many
/// from there.
pub(super) fn count(
    engine: &Engine,
    request: &Request,
    route: &str,
    line: &Line,
) -> Result<Option<Source>, Refused> {
    if !engine.counts_calls() || !is_counted(request.method(), route) {
        return Ok(None);
    }
    let from = address(engine, request, line).into();
    engine.count_address(from).map_err(Refused::too_often)?;
    Ok(Some(from))
}

/// Where a call comes from: beyond proxies that are trusted.
pub(super) fn address(engine: &Engine, request: &Request, line: &Line) -> Option<IpAddr> {
    let peer = line.peer()?;
    let settings = engine.settings();
    let forwarded = request.headers().get_all(FORWARDED_FOR).iter();
    // A line that is no text is none of a proxy's.
    let forwarded = forwarded.map(|line| line.to_str().unwrap_or_default());
    Some(address::caller(peer, forwarded, &settings.trusted_proxies))
}

/// The same as text.
pub(super) fn shown_address(engine: &Engine, request: &Request, line: &Line) -> String {
    let address = address(engine, request, line);
    address.map_or("unknown".to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::permission::ROUTES;

    #[test]
    fn what_keeps_leases_and_probes_is_not_counted() {
        let free: Vec<_> = ROUTES
            .iter()
            .filter(|(method, path, _)| !is_counted(&method.parse().unwrap(), path))
            .map(|(method, path, _)| format!("{method} {path}"))
            .collect();
        assert_eq!(free.len(), PROBES.len() + KEEP_LEASES.len() + 1, "{free:?}");
    }
}
