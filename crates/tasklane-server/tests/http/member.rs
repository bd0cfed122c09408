//! Members of bodies, each of a wrong type, beyond its bounds, repeated or left out, on every route of
//! the OpenAPI document.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::bad_input::{JSON, with_body};
use crate::form;
use crate::site::Site;

/// The types that a schema takes; none where it takes any.
fn types(document: &Value, schema: &Value) -> BTreeSet<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return types(document, document.pointer(&reference[1..]).unwrap());
    }
    let mut taken = BTreeSet::new();
    match &schema["type"] {
        Value::String(one) => drop(taken.insert(one.clone())),
        Value::Array(many) => taken.extend(many.iter().map(|one| one.as_str().unwrap().to_owned())),
        _ => {}
    }
    for forms in ["anyOf", "oneOf", "allOf"] {
        for form in schema[forms].as_array().into_iter().flatten() {
            taken.extend(types(document, form));
        }
    }
    taken
}

/// A value of another type than those; `None` where any is taken.
fn wrong(taken: &BTreeSet<String>) -> Option<Value> {
    let values = [
        ("object", json!({"a": 1})),
        ("array", json!([["a"]])),
        ("boolean", json!(true)),
        ("string", json!("?")),
        ("number", json!(0.5)),
    ];
    let takes =
        |name: &str| taken.contains(name) || (name == "number" && taken.contains("integer"));
    let other = values.into_iter().find(|(name, _)| !takes(name));
    other.filter(|_| !taken.is_empty()).map(|(_, value)| value)
}

#[test]
fn a_member_of_a_wrong_type_is_refused_on_every_route_with_its_place() {
    let site = Site::new();
    let document = site.get("/openapi.json").json();
    let head = || site.run(site.engine.feed().head());
    let (before, mut tried) = (head(), 0);
    for route in with_body(&site) {
        for form in form::of_body(&document, &route) {
            let members = form["properties"].as_object().cloned().unwrap_or_default();
            for (name, schema) in members {
                let Some(wrong) = wrong(&types(&document, &schema)) else { continue };
                let body = Value::Object(Map::from_iter([(name.clone(), wrong)]));
                let reply = route.send(&site, &[JSON], body.to_string().as_bytes());
                let what = format!("{} {} {body}: {reply:?}", route.method, route.template);
                assert_eq!(reply.status, 422, "{what}");
                let problem = reply.json();
                let kinds = ["validation-failed", "out-of-range", "invalid-characters"];
                assert!(kinds.contains(&problem["type"].as_str().unwrap()), "{what}");
                let pointer = problem["errors"][0]["pointer"].as_str().unwrap();
                assert!(pointer.starts_with(&format!("/{name}")), "{what}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 80, "only {tried} members were tried");
    assert_eq!(head(), before, "nothing happened");
}

#[test]
fn a_member_that_is_missing_is_named_on_every_route_that_needs_one() {
    let site = Site::new();
    let document = site.get("/openapi.json").json();
    let head = || site.run(site.engine.feed().head());
    let (before, mut tried) = (head(), 0);
    for route in with_body(&site) {
        let forms = form::of_body(&document, &route);
        let needs = |form: &Value| form["required"].as_array().is_some_and(|it| !it.is_empty());
        if !forms.iter().all(needs) {
            continue;
        }
        let required = forms.iter().flat_map(|form| form["required"].as_array().unwrap());
        let places: Vec<String> =
            required.map(|name| format!("/{}", name.as_str().unwrap())).collect();
        let problem = route.send(&site, &[JSON], b"{}").refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["code"], "missing-field", "{}", route.template);
        let pointer = problem["errors"][0]["pointer"].as_str().unwrap().to_owned();
        assert!(places.contains(&pointer), "{} {pointer}", route.template);
        tried += 1;
    }
    assert!(tried >= 7, "only {tried} routes were tried");
    assert_eq!(head(), before, "nothing happened");
}

#[test]
fn a_value_beyond_its_bounds_is_refused_on_every_route_with_its_place() {
    let site = Site::new();
    let document = site.get("/openapi.json").json();
    let head = || site.run(site.engine.feed().head());
    let (before, mut tried, mut wrong) = (head(), [0, 0], Vec::new());
    for route in with_body(&site) {
        let forms = form::of_body(&document, &route);
        for fault in forms.iter().flat_map(|form| form::beyond(&document, form)) {
            let body = fault.value.to_string();
            let reply = route.send(&site, &[JSON], body.as_bytes());
            let what = format!("{} {} {body}: {reply:?}", route.method, route.template);
            let problem = reply.json();
            let pointer = problem["errors"][0]["pointer"].as_str().unwrap_or_default();
            let is_right = reply.status == 422
                && problem["type"] == fault.kind
                && fault.pointer.starts_with(pointer)
                && pointer.starts_with(&format!("/{}", fault.pointer.split('/').nth(1).unwrap()));
            if !is_right {
                wrong.push(what);
            }
            tried[usize::from(fault.kind == "out-of-range")] += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {tried:?}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried.iter().all(|tried| *tried >= 40), "only {tried:?} were tried");
    assert_eq!(head(), before, "nothing happened");
}

#[test]
fn a_member_that_comes_twice_is_malformed_on_every_route_wherever_it_stands() {
    let site = Site::new();
    let document = site.get("/openapi.json").json();
    let (mut tried, mut labels) = (0, 0);
    for route in with_body(&site) {
        let forms = form::of_body(&document, &route);
        for body in forms.iter().flat_map(|form| form::twice(&document, form)) {
            route.refuses(&site, &[JSON], body.as_bytes(), 400, "malformed-json");
            tried += 1;
            labels += usize::from(body.contains("metadata\":{"));
        }
    }
    assert!(tried >= 100 && labels >= 6, "only {tried} members and {labels} labels were tried");
}
