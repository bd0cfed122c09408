//! What each route needs, in one table: calls are let in by it, and the document shows it.

use std::collections::HashMap;
use std::sync::OnceLock;

use axum::http::Method;
use tasklane_core::Verb;
use tasklane_core::Verb::{Admin, Operate, Read, Submit, Work};

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing: probes, metrics, the document.
    Nothing,
    /// A key with this verb.
    Verb(Verb),
}

type Row = (&'static str, &'static str, Needs);

const fn row(method: &'static str, path: &'static str, verb: Verb) -> Row {
    (method, path, Needs::Verb(verb))
}

const fn open(path: &'static str) -> Row {
    ("GET", path, Needs::Nothing)
}

/// Every route.
pub(super) const ROUTES: &[Row] = &[
    row("POST", "/api/v1/tasks", Submit),
    row("POST", "/api/v1/tasks/batch", Submit),
    row("DELETE", "/api/v1/tasks/{id}", Submit),
    row("GET", "/api/v1/tasks", Read),
    row("GET", "/api/v1/tasks/{id}", Read),
    row("GET", "/api/v1/tasks/{id}/history", Read),
    row("GET", "/api/v1/tasks/{id}/progress", Read),
    row("GET", "/api/v1/tasks/{id}/explain", Read),
    row("GET", "/api/v1/queue/stats", Read),
    row("GET", "/api/v1/stats/minutes", Read),
    row("GET", "/api/v1/dlq", Read),
    row("GET", "/api/v1/dlq/summary", Read),
    row("GET", "/api/v1/dlq/{id}", Read),
    row("GET", "/api/v1/events", Read),
    row("GET", "/api/v1/ws", Read),
    row("GET", "/events", Read),
    row("GET", "/ws", Read),
    row("GET", "/admin/health", Read),
    row("GET", "/admin/workers", Read),
    row("GET", "/admin/workers/{id}", Read),
    row("GET", "/admin/queues", Read),
    row("GET", "/admin/queues/{name}", Read),
    row("GET", "/admin/tasks/stuck", Read),
    row("GET", "/admin/dlq", Read),
    row("POST", "/internal/workers/register", Work),
    row("POST", "/internal/workers/{id}/poll", Work),
    row("POST", "/internal/workers/{id}/start", Work),
    row("POST", "/internal/workers/{id}/progress", Work),
    row("POST", "/internal/workers/{id}/result", Work),
    row("POST", "/internal/workers/{id}/heartbeat", Work),
    row("DELETE", "/internal/workers/{id}", Work),
    row("POST", "/api/v1/tasks/cancel", Operate),
    row("POST", "/api/v1/dlq/replay", Operate),
    row("POST", "/api/v1/dlq/{id}/replay", Operate),
    row("DELETE", "/api/v1/dlq/{id}", Operate),
    row("POST", "/admin/workers/{id}/pause", Operate),
    row("POST", "/admin/workers/{id}/resume", Operate),
    row("POST", "/admin/workers/{id}/drain", Operate),
    row("PATCH", "/admin/queues/{name}", Operate),
    row("DELETE", "/admin/queues/{name}", Operate),
    row("POST", "/admin/queues/{name}/pause", Operate),
    row("POST", "/admin/queues/{name}/resume", Operate),
    row("POST", "/admin/tasks/requeue", Operate),
    row("POST", "/admin/tasks/{id}/retry", Operate),
    row("PATCH", "/admin/tasks/{id}", Operate),
    row("DELETE", "/admin/dlq", Operate),
    row("POST", "/admin/dlq/retry", Operate),
    row("POST", "/admin/maintenance", Admin),
    row("POST", "/admin/backup", Admin),
    row("POST", "/admin/reload", Admin),
    row("GET", "/admin/keys", Admin),
    row("POST", "/admin/keys", Admin),
    row("DELETE", "/admin/keys/{id}", Admin),
    row("GET", "/admin/audit", Admin),
    open("/metrics"),
    open("/livez"),
    open("/healthz"),
    open("/readyz"),
    open("/openapi.json"),
    open("/docs"),
    open("/docs/docs.js"),
    open("/docs/docs.css"),
];

/// What a route needs. One that the table does not name needs `admin`, so that what was forgotten
/// is closed.
pub(super) fn of(method: &Method, path: &str) -> Needs {
    declared(method, path).unwrap_or(Needs::Verb(Admin))
}

/// What the table says.
pub(super) fn declared(method: &Method, path: &str) -> Option<Needs> {
    // Routes for GET answer HEAD too.
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let mut of_path = by_path().get(path)?.iter();
    of_path.find(|(own, _)| *own == method).map(|(_, needs)| *needs)
}

/// The methods that a path has, where it has others but not this one.
pub(super) fn instead_of(method: &Method, path: &str) -> Option<String> {
    if declared(method, path).is_some() {
        return None;
    }
    let methods: Vec<_> = by_path().get(path)?.iter().map(|(own, _)| *own).collect();
    Some(methods.join(",").replace("GET", "GET,HEAD"))
}

fn by_path() -> &'static HashMap<&'static str, Vec<(&'static str, Needs)>> {
    static BY_PATH: OnceLock<HashMap<&str, Vec<(&str, Needs)>>> = OnceLock::new();
    BY_PATH.get_or_init(|| {
        let mut by_path = HashMap::<_, Vec<_>>::new();
        for (method, path, needs) in ROUTES {
            by_path.entry(*path).or_default().push((*method, *needs));
        }
        by_path
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Routes that the document leaves out: other names of routes that are in it.
    const UNDOCUMENTED: [&str; 2] = ["/events", "/ws"];

    #[test]
    fn every_route_is_declared_and_nothing_else_is() {
        let (_, document) = crate::http::routes();
        let mut known = HashSet::new();
        for (path, item) in &document.paths.paths {
            for (method, there) in [
                (Method::GET, item.get.is_some()),
                (Method::PUT, item.put.is_some()),
                (Method::POST, item.post.is_some()),
                (Method::PATCH, item.patch.is_some()),
                (Method::DELETE, item.delete.is_some()),
            ] {
                if there {
                    assert!(declared(&method, path).is_some(), "{method} {path} needs what?");
                    known.insert(format!("{method} {path}"));
                }
            }
        }
        for (method, path, _) in ROUTES {
            let there = known.contains(&format!("{method} {path}"));
            assert!(there || UNDOCUMENTED.contains(path), "{method} {path} is no route");
        }
        let rows: HashSet<_> = ROUTES.iter().map(|(method, path, _)| (method, path)).collect();
        assert_eq!(rows.len(), ROUTES.len(), "a route is declared twice");
    }

    #[test]
    fn only_looks_of_machines_need_nothing_and_what_is_forgotten_is_closed() {
        for (method, path, needs) in ROUTES {
            let machine = !path.starts_with("/api") && !path.starts_with("/admin");
            let machine = machine && !path.starts_with("/internal");
            assert!(*needs != Needs::Nothing || (machine && *method == "GET"), "{path}");
            assert!(*needs != Needs::Verb(Read) || *method == "GET", "{method} {path} only reads?");
        }
        let whole = ["keys", "audit", "backup", "maintenance", "reload"];
        for whole in whole.map(|name| format!("/admin/{name}")) {
            for (_, path, needs) in ROUTES.iter().filter(|(_, path, _)| path.starts_with(&whole)) {
                assert_eq!(*needs, Needs::Verb(Admin), "{path} concerns the whole store");
            }
        }
        for (method, path, needs) in ROUTES.iter().filter(|(method, ..)| *method != "GET") {
            let operators = path.starts_with("/admin") || path.contains("/dlq");
            let theirs = matches!(needs, Needs::Verb(Operate | Admin));
            assert!(!operators || theirs, "{method} {path} is for operators");
        }
        assert_eq!(of(&Method::POST, "/admin/new"), Needs::Verb(Admin));
        assert_eq!(of(&Method::PUT, "/livez"), Needs::Verb(Admin));
        assert_eq!(of(&Method::HEAD, "/api/v1/tasks"), Needs::Verb(Read));
    }

    #[test]
    fn a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has() {
        let instead = |method, path| instead_of(&method, path);
        assert_eq!(instead(Method::PUT, "/livez").as_deref(), Some("GET,HEAD"));
        assert_eq!(instead(Method::PUT, "/api/v1/tasks").as_deref(), Some("POST,GET,HEAD"));
        assert_eq!(instead(Method::HEAD, "/livez"), None);
        assert_eq!(instead(Method::POST, "/admin/new"), None, "that is for others to say");
    }
}
