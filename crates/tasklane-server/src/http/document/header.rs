//! Headers of answers.

use serde_json::{Map, Value, json};

/// Adds those that every answer of a sort has.
pub(super) fn add(document: &mut Value) {
    for (_, _, operation) in super::each_operation(document) {
        let Some(Value::Object(responses)) = operation.get_mut("responses") else { continue };
        for (status, response) in responses {
            let Value::Object(response) = response else { continue };
            let headers = response.entry("headers").or_insert_with(|| json!({}));
            if let Value::Object(headers) = headers {
                headers.extend(of(status));
            }
        }
    }
}

fn of(status: &str) -> Map<String, Value> {
    let header = |description: &str, schema: Value| json!({"description": description, "required": true, "schema": schema});
    let text = json!({"type": "string", "minLength": 1});
    let mut headers = Map::new();
    let id = "The request, to find it in the log: as the client named it, else made here";
    headers.insert("X-Request-Id".into(), header(id, text.clone()));
    match status {
        "401" => {
            headers.insert("WWW-Authenticate".into(), header("How to say who one is", text));
        }
        "429" | "503" => {
            let seconds = json!({"type": "integer", "minimum": 0});
            headers.insert("Retry-After".into(), header("Seconds to wait at least", seconds));
        }
        _ => {}
    }
    headers
}
