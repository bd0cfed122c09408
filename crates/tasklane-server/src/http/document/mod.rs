//! The OpenAPI document: what the routes say of themselves, and what holds for all of them.

mod bound;
mod header;
mod link;

use std::sync::OnceLock;

use axum::http::Method;
use serde_json::Value;
use tasklane_client::wire;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ContentBuilder, OpenApi as Document, Ref, RefOr, ResponseBuilder, Schema, ServerBuilder,
};
use utoipa::{OpenApi, ToSchema};

use super::permission::{self, Needs};
use super::problem::{KINDS, Kind};
use super::rate;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tasklane",
        description = "A task queue: submit tasks, let workers claim them by priority, watch it live.\n\nTimes are RFC 3339 in UTC. Members that are absent are left out, never null; unknown members and parameters are refused. Every refusal is `application/problem+json`; its `type` is the word to act on. Where the server asks for keys, send one as `Authorization: Bearer` or `X-API-Key`; `x-scope` names the scope that a call needs, and what is out of a key's reach is not there for it. Every answer has `X-Request-Id`; answers to writes have `Durability`."
    ),
    components(schemas(wire::Problem, wire::FieldError, wire::Event)),
    tags(
        (name = "producers", description = "Submit tasks, look at them, cancel them; dead letters"),
        (name = "workers", description = "Claim tasks, keep their leases, report how they ended"),
        (name = "operators", description = "Workers, queues and what has to be put right"),
        (name = "machines", description = "Probes and this document")
    )
)]
struct Base;

/// What routes are added to.
pub(super) fn base() -> Document {
    Base::openapi()
}

/// The document as it is shown, made once: with what the types of the wire cannot say.
pub(super) fn shown() -> &'static Value {
    static SHOWN: OnceLock<Value> = OnceLock::new();
    SHOWN.get_or_init(|| {
        let mut shown = serde_json::to_value(document()).unwrap_or_default();
        bound::add(&mut shown);
        header::add(&mut shown);
        link::add(&mut shown);
        shown
    })
}

/// Every call with its path and method.
fn each_operation(document: &mut Value) -> impl Iterator<Item = (String, String, &mut Value)> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    paths.into_iter().flatten().flat_map(|(path, item)| {
        let operations = item.as_object_mut().into_iter().flatten();
        let call = move |(method, operation): (&String, _)| {
            (path.clone(), method.to_uppercase(), operation)
        };
        operations.filter(|(method, _)| METHODS.contains(&method.as_str())).map(call)
    })
}

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// What the code says, made once.
fn document() -> &'static Document {
    static DOCUMENT: OnceLock<Document> = OnceLock::new();
    DOCUMENT.get_or_init(|| finished(super::routes().1))
}

/// A route by the words of the document, which last.
pub(super) fn route(path: &str) -> Option<&'static str> {
    document().paths.paths.get_key_value(path).map(|(path, _)| path.as_str())
}

/// Adds what no route need say for itself: version, server, refusals, unique operation ids.
fn finished(mut document: Document) -> Document {
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document.servers = Some(vec![
        ServerBuilder::new().url("/").description(Some("The server of this document")).build(),
    ]);
    let components = document.components.get_or_insert_default();
    for (name, scheme) in schemes() {
        components.add_security_scheme(name, scheme);
    }
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            simplify_body(operation);
            add_refusals(operation, rate::is_counted(&method, path));
            add_needs(operation, permission::of(&method, path));
            if path.starts_with("/admin") {
                operation.tags = Some(vec!["operators".to_owned()]);
                let own = operation.operation_id.take().unwrap_or_default();
                operation.operation_id = Some(format!("admin_{own}"));
            }
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let all = [
        (Method::GET, get),
        (Method::PUT, put),
        (Method::POST, post),
        (Method::DELETE, delete),
        (Method::PATCH, patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Says which scope a key needs for a call, and how it is refused without.
fn add_needs(operation: &mut Operation, needs: Needs) {
    let Needs::Verb(verb) = needs else {
        operation.security = Some(Vec::new());
        return;
    };
    let either = ["bearer", "api_key"];
    let requirement = |scheme: &str| SecurityRequirement::new(scheme, [verb.as_str()]);
    operation.security = Some(either.into_iter().map(requirement).collect());
    let scope: Extensions = [("x-scope", verb.as_str())].into_iter().collect();
    operation.extensions.get_or_insert_default().merge(scope);
    for status in [401, 403] {
        let kinds: Vec<_> = KINDS.iter().filter(|kind| kind.status.as_u16() == status).collect();
        let refusal = refusal(&kinds).into();
        operation.responses.responses.entry(status.to_string()).or_insert(refusal);
    }
}

/// The two ways to send a key.
fn schemes() -> [(&'static str, SecurityScheme); 2] {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
    let bearer =
        bearer.description(Some("A key or a token; its scopes say what it may do")).build();
    let header = ApiKeyValue::with_description("X-API-Key", "The same in another header");
    [
        ("bearer", SecurityScheme::Http(bearer)),
        ("api_key", SecurityScheme::ApiKey(ApiKey::Header(header))),
    ]
}

/// A body that may be left out is not required; it need not be said to be null as well.
fn simplify_body(operation: &mut Operation) {
    let Some(body) = &mut operation.request_body else { return };
    for content in body.content.values_mut() {
        let Some(RefOr::T(Schema::OneOf(choice))) = &content.schema else { continue };
        let body = choice.items.iter().find(|item| matches!(item, RefOr::Ref(_)));
        content.schema = body.cloned().or_else(|| content.schema.clone());
    }
}

/// Refusals that follow from what a call is: any can meet a store that is not well; one with an id
/// may name nothing; one with a body may have a bad one; one that is counted may be one too many.
fn add_refusals(operation: &mut Operation, counted: bool) {
    let mut statuses = vec![500, 503];
    if counted {
        statuses.push(429);
    }
    let parameters = operation.parameters.iter().flatten();
    if parameters.clone().any(|parameter| parameter.name == "cursor") {
        statuses.push(400);
    }
    if parameters.clone().any(|parameter| matches!(&*parameter.name, "id" | "name" | "queue")) {
        statuses.push(404);
    }
    if operation.request_body.is_some() {
        statuses.extend([400, 408, 413, 415]);
    }
    match operation.operation_id.as_deref().unwrap_or_default() {
        "submit" | "submit_batch" => statuses.push(429),
        "poll" | "heartbeat" | "deregister" => statuses.push(410),
        "start" | "progress" | "result" => statuses.extend([409, 410]),
        _ => {}
    }
    // Also where there are no parameters: an unknown one is refused.
    statuses.push(422);
    for status in statuses {
        let kinds: Vec<_> = KINDS.iter().filter(|kind| kind.status.as_u16() == status).collect();
        operation
            .responses
            .responses
            .entry(status.to_string())
            .or_insert_with(|| refusal(&kinds).into());
    }
}

fn refusal(kinds: &[&Kind]) -> utoipa::openapi::Response {
    let mut words: Vec<_> = kinds.iter().map(|kind| format!("`{}`", kind.word)).collect();
    words.dedup();
    let schema = Ref::from_schema_name(wire::Problem::name());
    ResponseBuilder::new()
        .description(words.join(", "))
        .content("application/problem+json", ContentBuilder::new().schema(Some(schema)).build())
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_operation_is_described_and_has_a_name_of_its_own() {
        let mut document = document().clone();
        let mut names = HashSet::new();
        let mut count = 0;
        for (path, item) in &mut document.paths.paths {
            for (_, operation) in operations(item) {
                count += 1;
                assert!(operation.summary.is_some(), "{path} has no summary");
                assert_eq!(operation.tags.as_ref().map(Vec::len), Some(1), "{path}");
                let name = operation.operation_id.clone().unwrap_or_default();
                assert!(names.insert(name.clone()), "{name} is used twice, at {path}");
                let good = |key: &String| key.starts_with('2') || key == "101";
                let good = operation.responses.responses.keys().any(good);
                assert!(good, "{path} has no success");
            }
        }
        assert!(count >= 40, "only {count} operations");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let text = serde_json::to_string(document()).unwrap();
        let schemas = &document().components.as_ref().unwrap().schemas;
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name} is not described");
        }
    }
}
