//! In front of every route: who calls, whether what the route needs is theirs, and a record of what
//! operators did.

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tasklane_core::{AuditEntry, Verb};

use super::permission::{self, Needs};
use super::problem::{self, Refused};
use super::{App, origin, rate};
use crate::engine::{Caller, Denied, Engine, Refusal};
use crate::server::Line;
use crate::settings::Authentication;

const METRICS: &str = "/metrics";
const API_KEY: &str = "x-api-key";

/// What an operator's call was about, where its path does not say: goes with the answer.
#[derive(Debug, Clone)]
pub(super) struct Target(pub(super) String);

/// Lets a call through to its route, or refuses it.
pub(super) async fn guard(State(engine): App, mut request: Request, next: Next) -> Response {
    // What has no route is refused as that.
    let Some(route) = request.extensions().get::<MatchedPath>().cloned() else {
        return next.run(request).await;
    };
    let method = request.method().clone();
    let needs = permission::of(&method, route.as_str());
    if !method.is_safe()
        && let Err(refused) = check_origin(&engine, &request)
    {
        return refused.into_response();
    }
    let line = request.extensions().get::<Arc<Line>>().cloned().unwrap_or_default();
    if let Some(allowed) = permission::instead_of(&method, route.as_str()) {
        // The same for everybody: that there is no such call says nothing of what there is.
        return match rate::count(&engine, &request, route.as_str(), &line) {
            Ok(_) => ([(header::ALLOW, allowed)], Refused::method_not_allowed()).into_response(),
            Err(refused) => refused.into_response(),
        };
    }
    let metrics = route.as_str() == METRICS && engine.settings().guard_metrics;
    let verb = match needs {
        Needs::Verb(verb) => verb,
        Needs::Nothing if metrics => Verb::Read,
        Needs::Nothing => {
            return match rate::count(&engine, &request, route.as_str(), &line) {
                Ok(_) => next.run(request).await,
                Err(refused) => refused.into_response(),
            };
        }
    };
    let caller = match admit(&engine, &request, route.as_str(), verb, &line) {
        Ok(caller) => caller,
        Err(refused) => return refused.into_response(),
    };
    if metrics && !caller.reach.is_everything() {
        let detail = "metrics are of all queues: the key's scope must not name queues or types";
        return Refused::new(problem::INSUFFICIENT_SCOPE, detail).into_response();
    }
    let record = (!method.is_safe() && is_operators(verb)).then(|| {
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let action = action(&method, route.as_str());
        let from = rate::shown_address(&engine, &request, &line);
        AuditEntry::new(&caller.access.who(), &action, "").on(target).from(Some(&from))
    });
    request.extensions_mut().insert(caller);
    let Some(record) = record else { return next.run(request).await };
    // On a task of its own: what was begun is recorded, also when its caller goes away meanwhile.
    let recording = engine.streams().spawn({
        let engine = Arc::clone(&engine);
        async move {
            let response = next.run(request).await;
            let outcome = match response.extensions().get::<Refused>() {
                Some(refused) => refused.kind().word,
                None => AuditEntry::DONE,
            };
            let record = AuditEntry { outcome: outcome.into(), ..record };
            engine
                .record(match response.extensions().get::<Target>() {
                    Some(Target(target)) => record.on(target),
                    None => record,
                })
                .await;
            response
        }
    });
    recording.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a call ended in the middle");
        Refused::new(problem::INTERNAL, "the call ended in the middle").into_response()
    })
}

/// Pages of other origins may change nothing.
pub(super) fn check_origin(engine: &Engine, request: &Request) -> Result<(), Refused> {
    if !request.headers().contains_key(header::ORIGIN) {
        return Ok(());
    }
    origin::check(request.headers(), request.uri(), &engine.settings().allowed_origins)
}

/// Whether a verb is one whose every use is recorded.
fn is_operators(verb: Verb) -> bool {
    matches!(verb, Verb::Operate | Verb::Admin)
}

fn action(method: &Method, route: &str) -> String {
    format!("{method} {route}")
}

/// Who calls, and how far `verb` reaches for them. Where nobody is asked this costs nothing.
pub(super) fn admit(
    engine: &Engine,
    request: &Request,
    route: &str,
    verb: Verb,
    line: &Line,
) -> Result<Caller, Refused> {
    let counted_from = rate::count(engine, request, route, line)?;
    if engine.authentication() == Authentication::Off {
        return Ok(Caller { counted_from, ..Caller::anyone() });
    }
    let note = |who: String, outcome: &str| {
        engine.note_refusal(Refusal {
            who: who.into(),
            from: rate::shown_address(engine, request, line).into(),
            action: action(request.method(), route).into(),
            outcome: outcome.into(),
        });
    };
    let shown = shown(request.headers());
    if let Ok(Some(text)) = shown
        && engine.is_costly(text)
    {
        let from = rate::address(engine, request, line);
        engine.check_failures(from.into()).map_err(Refused::too_often)?;
    }
    // A key is shown for this call, a certificate for the whole connection: the key counts.
    let admitted = match (shown, line.certificate()) {
        (Ok(None), Some(certificate)) => engine.admit_certificate(certificate),
        (shown, _) => shown.and_then(|shown| engine.admit(shown)),
    };
    let access = match admitted {
        Ok(access) => access,
        Err(Denied::NotReady) => {
            let detail = "keys could not be read yet; try again in a moment";
            return Err(Refused::new(problem::STORE_UNAVAILABLE, detail));
        }
        Err(denied) => {
            engine.metrics().denied();
            // Who knocks on and on is told so, and recorded no more.
            let from = rate::address(engine, request, line);
            engine.count_failure(from.into()).map_err(Refused::too_often)?;
            let who = match (denied, line.certificate()) {
                (Denied::Unnamed | Denied::CertificateEnded, Some(certificate)) => {
                    certificate.to_string()
                }
                _ => denied.key().map_or("nobody".to_owned(), |id| format!("{id}, not proved")),
            };
            note(who, denied.as_str());
            return Err(unauthenticated(denied));
        }
    };
    if counted_from.is_some() {
        engine.count_caller(&access).map_err(Refused::too_often)?;
    }
    match access.reach(verb) {
        Some(reach) => Ok(Caller { access, reach, counted_from }),
        None => {
            note(access.who().to_string(), problem::INSUFFICIENT_SCOPE.word);
            let detail = format!("this needs a key with the scope {}", verb.as_str());
            Err(Refused::new(problem::INSUFFICIENT_SCOPE, detail))
        }
    }
}

/// Which of the reasons it was is for the audit log, not for whoever tries keys.
fn unauthenticated(denied: Denied) -> Refused {
    let detail = match denied {
        Denied::Missing => "send a key: Authorization: Bearer KEY, or X-API-Key: KEY",
        Denied::Token(_) => "the token is not believed, or no longer good",
        Denied::Unnamed | Denied::CertificateEnded => {
            "the certificate opens nothing, or has expired; send a key, or have it named"
        }
        _ => "the key is not known, or no longer good",
    };
    Refused::new(problem::UNAUTHENTICATED, detail)
}

/// Somebody who was let in may not be any more: what takes long asks again.
pub(super) fn still_holds(engine: &Engine, caller: &Caller) -> Result<(), Refused> {
    match engine.holds(&caller.access) {
        true => Ok(()),
        false => Err(Refused::new(problem::UNAUTHENTICATED, "the key is no longer good")),
    }
}

/// The key that a call shows, in one of two headers; in both it must be the same.
fn shown(headers: &HeaderMap) -> Result<Option<&str>, Denied> {
    let text = |name: &str| -> Result<Option<&str>, Denied> {
        let mut values = headers.get_all(name).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Denied::Malformed);
        }
        value.to_str().map(Some).map_err(|_| Denied::Malformed)
    };
    let bearer = match text(header::AUTHORIZATION.as_str())? {
        None => None,
        Some(value) => {
            let (scheme, key) = value.split_once(' ').ok_or(Denied::Malformed)?;
            let is_bearer = scheme.eq_ignore_ascii_case("bearer");
            Some(is_bearer.then_some(key.trim()).ok_or(Denied::Malformed)?)
        }
    };
    match (bearer, text(API_KEY)?) {
        (Some(one), Some(other)) if one != other => Err(Denied::Malformed),
        (bearer, key) => Ok(bearer.or(key)),
    }
}

/// What [`guard`] found out. A route that it does not stand before gets nothing.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Refused::new(problem::INTERNAL, "nobody asked who calls"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn read(headers: &[(&'static str, &str)]) -> Result<Option<String>, Denied> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            map.append(HeaderName::from_static(name), value);
        }
        shown(&map).map(|key| key.map(str::to_owned))
    }

    #[test]
    fn a_key_comes_in_one_of_two_headers() {
        let key = Ok(Some("k".to_owned()));
        assert_eq!(read(&[]), Ok(None));
        for headers in [
            &[("authorization", "Bearer k")][..],
            &[("authorization", "bearer  k")],
            &[("x-api-key", "k")],
            &[("x-api-key", "k"), ("authorization", "Bearer k")],
        ] {
            assert_eq!(read(headers), key, "{headers:?}");
        }
        for headers in [
            &[("authorization", "Basic azpr")][..],
            &[("authorization", "k")],
            &[("x-api-key", "é")],
            &[("x-api-key", "k"), ("x-api-key", "k")],
            &[("x-api-key", "k"), ("authorization", "Bearer l")],
        ] {
            assert_eq!(read(headers), Err(Denied::Malformed), "{headers:?}");
        }
    }
}
