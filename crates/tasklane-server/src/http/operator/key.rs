//! Operators' calls on keys.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use tasklane_client::wire;
use tasklane_core::{ApiKeyId, Credential, Grants, Invalid, NewApiKey, When};

use crate::http::filter::{self, PAGE};
use crate::http::guard::Target;
use crate::http::problem::{self, Refused};
use crate::http::query::{Nothing, Parameters, parameters};
use crate::http::{App, body, respond};

parameters!(
    /// Of a list of keys.
    ListKeys = [PAGE]
);

/// List keys, by id
///
/// Those that have expired or been revoked are shown for 30 days more. No answer ever holds a
/// secret but the one to making a key.
#[utoipa::path(get, path = "/keys", tag = "operators", params(ListKeys),
    responses((status = 200, description = "A page", body = wire::KeyPage)))]
pub(crate) async fn list_keys(
    State(engine): App,
    parameters: Parameters<ListKeys>,
) -> Result<Response, Refused> {
    let limit = filter::limit(&parameters)?;
    let after: Option<ApiKeyId> = match parameters.text("cursor")? {
        Some(text) => Some(text.parse().map_err(|_| filter::bad_cursor())?),
        None => None,
    };
    let (mut keys, now) = (engine.keys().await?, engine.now());
    keys.retain(|key| after.is_none_or(|after| key.id > after));
    keys.sort_by_key(|key| key.id);
    let more = keys.len() > limit;
    keys.truncate(limit);
    let last = keys.last().map(|key| key.id.to_string().into());
    let page = wire::KeyPage {
        keys: keys.iter().map(|key| wire::Key::of(key, now)).collect(),
        next_cursor: last.filter(|_| more),
    };
    Ok(respond::json(StatusCode::OK, &page))
}

/// Make a key
///
/// The answer holds the whole key, this once: only a hash of it is kept. A key with the scope
/// `admin` can make keys with any scope.
#[utoipa::path(post, path = "/keys", tag = "operators", request_body = wire::NewKey,
    responses((status = 201, description = "The key", body = wire::MadeKey)))]
pub(crate) async fn create_key(
    State(engine): App,
    _: Parameters<Nothing>,
    request: Request,
) -> Result<Response, Refused> {
    let bytes = body::read(&engine, request).await?;
    let wanted: wire::NewKey = body::parse(&bytes)?;
    let expires = match (wanted.expires_at, wanted.expires_in_seconds) {
        (Some(_), Some(_)) => {
            let detail = "give expires_at or expires_in_seconds, not both";
            let pointer = "/expires_in_seconds";
            return Err(Refused::field(problem::VALIDATION_FAILED, pointer, "conflict", detail));
        }
        (Some(at), None) => Some(When::At(at.0)),
        (None, span) => span.map(|span| When::After(span.0)),
    };
    let grants = grants(&wanted.scopes)?;
    let credential = fresh()?;
    let key = NewApiKey::new(&credential, &wanted.name, grants, expires)
        .map_err(|invalid| Refused::invalid("", &invalid))?;
    let made = engine.add_key(key).await?;
    tracing::info!(key = %made.id, name = &*made.name, "a key was made");
    let answer = wire::MadeKey {
        secret: credential.reveal().into(),
        key: wire::Key::of(&made, engine.now()),
    };
    let mut response = respond::written(&engine, StatusCode::CREATED, &answer);
    response.extensions_mut().insert(Target(made.id.to_string()));
    Ok(response)
}

/// Revoke a key
///
/// It opens nothing from then on: here at once, on other servers of the same store within seconds.
#[utoipa::path(delete, path = "/keys/{id}", tag = "operators",
    params(("id" = String, Path, description = "The key, by its visible beginning")),
    responses((status = 200, description = "The key", body = wire::Key)))]
pub(crate) async fn revoke_key(
    State(engine): App,
    Path(id): Path<String>,
    _: Parameters<Nothing>,
) -> Result<Response, Refused> {
    let id: ApiKeyId = id.parse().map_err(|_| Refused::not_found("key"))?;
    let key = engine.revoke_key(id).await?;
    tracing::info!(key = %key.id, name = &*key.name, "a key was revoked");
    Ok(respond::written(&engine, StatusCode::OK, &wire::Key::of(&key, engine.now())))
}

/// Random bits of the operating system: without them no key is safe to make.
fn fresh() -> Result<Credential, Refused> {
    let (mut id, mut secret) = ([0; 6], [0; 32]);
    let drawn = getrandom::fill(&mut id).and_then(|()| getrandom::fill(&mut secret));
    drawn.map_err(|error| {
        tracing::error!(%error, "the system has no random source");
        Refused::new(problem::INTERNAL, "no key could be made")
    })?;
    Ok(Credential::from_parts(id, secret))
}

fn grants(scopes: &[wire::Scope]) -> Result<Grants, Refused> {
    let mut read = Vec::with_capacity(scopes.len());
    for (index, scope) in scopes.iter().enumerate() {
        let refused = |invalid: Invalid| Refused::invalid(&format!("/scopes/{index}"), &invalid);
        read.push(scope.read().map_err(refused)?);
    }
    Grants::new(read).map_err(|invalid| Refused::invalid("", &invalid))
}
