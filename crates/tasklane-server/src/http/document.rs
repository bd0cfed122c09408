//! The OpenAPI document: what the routes say of themselves, and what holds for all of them.

use std::sync::OnceLock;

use tasklane_client::wire;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{
    ContentBuilder, OpenApi as Document, Ref, RefOr, ResponseBuilder, Schema, ServerBuilder,
};
use utoipa::{OpenApi, ToSchema};

use super::problem::{KINDS, Kind};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tasklane",
        description = "A task queue: submit tasks, let workers claim them by priority, watch it live.\n\nTimes are RFC 3339 in UTC. Members that are absent are left out, never null; unknown members and parameters are refused. Every refusal is `application/problem+json`; its `type` is the word to act on. Every answer has `X-Request-Id`; answers to writes have `Durability`."
    ),
    components(schemas(wire::Problem, wire::FieldError)),
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

/// The finished document, made once.
pub(super) fn document() -> &'static Document {
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
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            simplify_body(operation);
            add_refusals(operation);
            if path.starts_with("/admin") {
                operation.tags = Some(vec!["operators".to_owned()]);
                let own = operation.operation_id.take().unwrap_or_default();
                operation.operation_id = Some(format!("admin_{own}"));
            }
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    [get, put, post, delete, patch].into_iter().flatten()
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
/// may name nothing; one with a body may have a bad one.
fn add_refusals(operation: &mut Operation) {
    let mut statuses = vec![500, 503];
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
            for operation in operations(item) {
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
