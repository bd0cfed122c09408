//! Values and faults made from the schemas of the OpenAPI document.

use serde_json::{Map, Value, json};

use crate::bad_input::{Route, UNKNOWN};

/// A value with one fault in it.
pub(crate) struct Fault {
    /// Where it is.
    pub(crate) pointer: String,
    /// The whole value.
    pub(crate) value: Value,
    /// The refusal it should get.
    pub(crate) kind: &'static str,
}

impl Fault {
    fn new(value: Value, kind: &'static str) -> Self {
        Self { pointer: String::new(), value, kind }
    }

    fn inside(self, step: &str, whole: impl FnOnce(Value) -> Value) -> Self {
        let pointer = format!("/{step}{}", self.pointer);
        Self { pointer, value: whole(self.value), ..self }
    }
}

/// What a reference leads to.
fn follow<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => follow(document, document.pointer(&reference[1..]).unwrap()),
        None => schema,
    }
}

/// The forms that a value of a schema may have, without null.
fn choices<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let schema = follow(document, schema);
    match schema["anyOf"].as_array() {
        Some(forms) => forms.iter().flat_map(|form| choices(document, form)).collect(),
        None if schema["type"] == "null" => Vec::new(),
        None => vec![schema],
    }
}

/// The forms that a body may have, each with its members.
pub(crate) fn of_body(document: &Value, route: &Route) -> Vec<Value> {
    let schema = &route.operation["requestBody"]["content"]["application/json"]["schema"];
    choices(document, schema).into_iter().cloned().collect()
}

fn members(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn is_type(schema: &Value, name: &str) -> bool {
    let is_it = |value: &Value| value == name;
    is_it(&schema["type"]) || schema["type"].as_array().is_some_and(|all| all.iter().any(is_it))
}

/// A value that is as a schema wants it.
fn sample(document: &Value, schema: &Value) -> Value {
    let schema = choices(document, schema)[0];
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    if let Some(words) = schema["enum"].as_array() {
        words[0].clone()
    } else if is_type(schema, "object") {
        required(document, schema).into()
    } else if is_type(schema, "array") {
        let count = schema["minItems"].as_u64().unwrap_or(1).max(1) as usize;
        vec![sample(document, &schema["items"]); count].into()
    } else if is_type(schema, "boolean") {
        json!(true)
    } else if is_type(schema, "integer") || is_type(schema, "number") {
        json!(1)
    } else if is_type(schema, "string") {
        match (pattern, schema["format"].as_str()) {
            (_, Some("uuid")) => json!(UNKNOWN),
            (_, Some("date-time")) => json!("2026-11-15T12:00:00Z"),
            (pattern, _) if pattern.contains("{32}") => json!("0".repeat(32)),
            _ => json!("a"),
        }
    } else {
        Value::Null
    }
}

/// The members that an object must have.
fn required(document: &Value, schema: &Value) -> Map<String, Value> {
    let names = schema["required"].as_array().into_iter().flatten();
    let names = names.map(|name| name.as_str().unwrap());
    names.map(|name| (name.to_owned(), sample(document, &schema["properties"][name]))).collect()
}

/// Numbers beyond their bounds and NUL where texts exclude it, one in each.
pub(crate) fn beyond(document: &Value, schema: &Value) -> Vec<Fault> {
    choices(document, schema).into_iter().flat_map(|form| beyond_form(document, form)).collect()
}

fn beyond_form(document: &Value, schema: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (name, member) in members(schema) {
        for fault in beyond(document, member) {
            faults.push(fault.inside(name, |value| {
                let mut whole = required(document, schema);
                whole.insert(name.clone(), value);
                whole.into()
            }));
        }
    }
    if is_type(schema, "array") {
        for fault in beyond(document, &schema["items"]) {
            faults.push(fault.inside("0", |value| {
                let mut whole = sample(document, schema);
                whole[0] = value;
                whole
            }));
        }
    }
    let outside = |value: Value| Fault::new(value, "out-of-range");
    if let Some(max) = schema["maximum"].as_f64().or(schema["exclusiveMaximum"].as_f64()) {
        faults.push(outside(if max < 1e15 { json!(max as i64 + 1) } else { json!(max * 2.0) }));
    }
    if let Some(min) = schema["minimum"].as_f64() {
        faults.push(outside(json!(min.ceil() as i64 - 1)));
    }
    let excludes_nul =
        |schema: &Value| schema["pattern"].as_str().is_some_and(|it| it.contains(r"[^\u0000"));
    let nul = |value: Value| Fault::new(value, "invalid-characters");
    if excludes_nul(schema) {
        faults.push(nul(json!("a\0")));
    }
    if excludes_nul(&schema["propertyNames"]) {
        faults.push(nul(json!({"a\0": "b"})));
    }
    if excludes_nul(&schema["additionalProperties"]) {
        faults.push(nul(json!({"a": "b\0"})));
    }
    faults
}

/// Texts of values in which a member comes twice, each in another place.
pub(crate) fn twice(document: &Value, schema: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for form in choices(document, schema) {
        for (name, member) in members(form) {
            let once = sample(document, member);
            texts.push(format!("{{\"{name}\":{once},\"{name}\":{once}}}"));
            let nested = twice(document, member).into_iter();
            texts.extend(nested.map(|text| format!("{{\"{name}\":{text}}}")));
        }
        if is_type(form, "array") {
            let nested = twice(document, &form["items"]).into_iter();
            texts.extend(nested.map(|text| format!("[{text}]")));
        }
        if form["additionalProperties"].is_object() {
            texts.push(r#"{"a":"b","a":"b"}"#.into());
        }
    }
    texts
}
