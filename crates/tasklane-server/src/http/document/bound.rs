//! Bounds that the types of the wire do not show: lengths, ranges and forms, as the code checks them.

use serde_json::{Value, json};
use tasklane_core::{StateName, Verb, limits};

use crate::limits::{IDS_MAX, MINUTES_MAX, REPLAY_RATE_MAX, REPORTS_MAX, WAIT_MAX};

/// What names may not have: control characters, braces, colons, and what reorders text.
const OF_NAMES: &str =
    r"[^\u0000-\u001F\u007F-\u009F{}:\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]";
const UUID_V7: &str =
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-7[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$";
const HEX_32: &str = "^[0-9a-fA-F]{32}$";
const PRIORITY: &str = "^(critical|high|normal|medium|low|[0-3])$";

/// Bounds of members: the schema, its members, and what holds for each of them.
fn members() -> Vec<(&'static str, &'static [&'static str], Value)> {
    let (name, names) =
        (name(), |of: Value| json!({"maxItems": limits::PATTERNS_MAX, "items": of}));
    let capabilities = json!({"maxItems": limits::CAPABILITIES_MAX, "items": name});
    let key = text(1, limits::KEY_BYTES_MAX);
    let cursor = json!({"pattern": HEX_32});
    let ahead = json!({"maximum": limits::SCHEDULE_AHEAD_MAX.as_secs()});
    let delay = json!({"maximum": limits::RETRY_DELAY_MAX.as_secs()});
    let percent = range(0, 100);
    let described = json!({"maxLength": limits::NAME_BYTES_MAX, "pattern": r"^[^\u0000-\u001F\u007F-\u009F]*$"});
    let verbs: Vec<_> = Verb::ALL.into_iter().map(Verb::as_str).collect();
    vec![
        ("NewTask", &["type", "queue"], name.clone()),
        ("NewTask", &["idempotency_key", "ordering_key"], key),
        ("NewTask", &["required_capabilities"], capabilities.clone()),
        ("NewTask", &["max_retries"], range(0, u64::from(limits::RETRIES_MAX))),
        ("NewTask", &["timeout_seconds"], timeout()),
        ("NewTask", &["delay_seconds"], ahead.clone()),
        ("NewTask", &["metadata"], labels()),
        ("Retry", &["factor"], json!({"minimum": 1, "maximum": limits::RETRY_FACTOR_MAX})),
        ("Retry", &["initial_seconds", "max_seconds"], delay),
        ("Batch", &["tasks"], items(1, limits::BATCH_TASKS_MAX)),
        ("Register", &["name", "version", "host"], described),
        ("Register", &["capabilities"], capabilities.clone()),
        ("Register", &["types", "queues"], names(pattern())),
        ("Register", &["capacity"], range(1, u64::from(limits::WORKER_CAPACITY_MAX))),
        ("Poll", &["wait_ms"], json!({"maximum": WAIT_MAX.as_millis() as u64})),
        ("Poll", &["capabilities"], capabilities),
        ("Start", &["tasks"], items(0, REPORTS_MAX)),
        ("Heartbeat", &["leases"], items(0, REPORTS_MAX)),
        ("HealthReport", &["cpu_percent", "memory_percent"], percent.clone()),
        ("ProgressReport", &["percent"], percent),
        ("Report", &["delay_seconds", "retry_after_seconds"], ahead.clone()),
        ("Reports", &["results"], items(0, REPORTS_MAX)),
        ("TaskFilter", &["type", "queue"], pattern()),
        ("TaskFilter", &["metadata"], labels()),
        ("TaskFilter", &["error"], json!({"minLength": 1, "pattern": r"^[^\u0000]*$"})),
        ("CancelMany", &["cursor"], cursor.clone()),
        ("Requeue", &["cursor"], cursor.clone()),
        ("Requeue", &["task_ids"], items(0, IDS_MAX)),
        ("ReplayMany", &["cursor"], cursor.clone()),
        ("ReplayMany", &["rate_per_second"], range(1, u64::from(REPLAY_RATE_MAX))),
        ("RetryDeadLetters", &["cursor"], cursor),
        ("UpdateTask", &["metadata"], labels()),
        ("Backup", &["to"], json!({"minLength": 1, "pattern": r"^[^\u0000]*$"})),
        ("AgingSettings", &["normal_seconds", "high_seconds", "critical_seconds"], ahead),
        ("QueuePatch", &["weight"], range(1, 1_000)),
        (
            "QueuePatch",
            &["weights"],
            json!({"minItems": 4, "maxItems": 4, "items": range(1, 1_000_000)}),
        ),
        ("Scope", &["verb"], json!({"enum": verbs})),
        (
            "Scope",
            &["queues", "types"],
            json!({"minItems": 1, "maxItems": limits::PATTERNS_MAX, "items": pattern()}),
        ),
        (
            "NewKey",
            &["name"],
            json!({"minLength": 1, "maxLength": limits::NAME_BYTES_MAX, "pattern": r"^[^\u0000-\u001F\u007F-\u009F]+$"}),
        ),
        ("NewKey", &["scopes"], items(1, verbs.len())),
        ("NewKey", &["expires_in_seconds"], json!({"minimum": 0.000_001})),
    ]
}

/// Bounds of what has a schema of its own.
fn wholes() -> Vec<(&'static str, Value)> {
    vec![
        ("TaskIdText", json!({"pattern": UUID_V7})),
        ("TokenText", json!({"pattern": HEX_32})),
        ("NumberText", json!({"pattern": "^[0-9]+$"})),
        ("Seconds", json!({"exclusiveMaximum": 2.0_f64.powi(64)})),
    ]
}

/// Bounds of parameters: where they stand, their name, and what holds for them. A place that is
/// empty is everywhere, where no row above says something else.
fn parameters() -> Vec<(&'static str, &'static str, Value)> {
    let states: Vec<_> = StateName::ALL.into_iter().map(StateName::as_str).collect();
    let words = format!("({}|queued|executing|processing|in_progress)", states.join("|"));
    let several = |of: &str| json!({"pattern": format!("^{of}(,{of})*$")});
    let id = UUID_V7.trim_matches(['^', '$']);
    vec![
        (
            "/admin/workers",
            "state",
            json!({"enum": ["active", "paused", "draining", "unhealthy", "dead"]}),
        ),
        ("/admin/workers", "cursor", json!({"format": "uuid"})),
        ("/admin/audit", "cursor", json!({"pattern": "^[0-9]{1,19}$"})),
        ("/admin/keys", "cursor", json!({"pattern": "^tl_[0-9a-f]{12}$"})),
        ("/api/v1/events", "cursor", json!({"pattern": "^[0-9a-f]{16}[0-7][0-9a-f]{15}$"})),
        ("/api/v1/ws", "cursor", json!({"pattern": "^[0-9a-f]{16}[0-7][0-9a-f]{15}$"})),
        ("/api/v1/events", "task_id", several(id)),
        ("/api/v1/ws", "task_id", several(id)),
        ("/api/v1/events", "kinds", several(r"(task|worker|queue|system)\.\*")),
        ("/api/v1/ws", "kinds", several(r"(task|worker|queue|system)\.\*")),
        ("DELETE /admin/queues/{name}", "name", json!({"pattern": PRIORITY})),
        ("/admin/queues", "name", name()),
        ("DELETE /admin/queues/{name}", "cursor", json!({"pattern": HEX_32})),
        ("/admin/queues", "cursor", json!({"pattern": "^([0-9a-f]{2}){1,128}$"})),
        ("", "state", several(&words)),
        ("", "type", pattern()),
        ("", "queue", pattern()),
        ("", "priority", json!({"pattern": PRIORITY})),
        ("", "metadata.KEY", json!({"pattern": r"^[^\u0000]*$"})),
        ("", "error", json!({"minLength": 1, "pattern": r"^[^\u0000]*$"})),
        ("", "limit", range(1, limits::PAGE_MAX as u64)),
        ("", "cursor", json!({"pattern": HEX_32})),
        ("", "minutes", range(1, MINUTES_MAX as u64)),
        ("", "wait_seconds", range(0, WAIT_MAX.as_secs())),
        ("", "older_than", range(0, limits::SCHEDULE_AHEAD_MAX.as_secs())),
    ]
}

/// Adds all of them.
pub(super) fn add(document: &mut Value) {
    if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
        schemas.values_mut().for_each(mend);
        for (schema, names, bound) in members() {
            for name in names {
                let member =
                    schemas.get_mut(schema).and_then(|schema| schema.get_mut("properties"));
                merge(member.and_then(|members| members.get_mut(name)), &bound);
            }
        }
        for (schema, bound) in wholes() {
            merge(schemas.get_mut(schema), &bound);
        }
    }
    let table = parameters();
    for (path, method, operation) in super::each_operation(document) {
        let Some(Value::Array(parameters)) = operation.get_mut("parameters") else { continue };
        for parameter in parameters {
            let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default();
            let here = format!("{method} {path}");
            let fits = |row: &&(&str, &str, Value)| row.1 == name && (here.contains(row.0));
            if let Some((_, _, bound)) = table.iter().find(fits) {
                merge(parameter.get_mut("schema"), bound);
            }
        }
    }
}

/// Makes a schema say what it means.
fn mend(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(mend),
        Value::Object(members) => {
            let unsigned = members.get("minimum") == Some(&json!(0));
            let max = match members.get("format").and_then(Value::as_str) {
                Some("int32") if unsigned => Some(u64::from(u32::MAX)),
                Some("int64") if unsigned => Some(u64::MAX),
                _ => None,
            };
            // Numbers end where their types do; the names of the formats would be of signed ones,
            // which end sooner.
            if let Some(max) = max {
                members.entry("maximum").or_insert(max.into());
                members.remove("format");
            }
            // What may be absent may be null as well. No value fits both, except for any JSON, which
            // includes null; and `anyOf` is what readers of documents understand best.
            if let Some(choices) = members.remove("oneOf") {
                let any = json!("#/components/schemas/Json");
                let list = choices.as_array().into_iter().flatten();
                match list.into_iter().find(|choice| choice.get("$ref") == Some(&any)) {
                    Some(Value::Object(any)) => members.extend(any.clone()),
                    _ => drop(members.insert("anyOf".into(), choices)),
                }
            }
            members.values_mut().for_each(mend);
        }
        _ => {}
    }
}

/// Adds the members of `bound`, deep where both have one.
fn merge(schema: Option<&mut Value>, bound: &Value) {
    let (Some(Value::Object(schema)), Value::Object(bound)) = (schema, bound) else { return };
    for (name, value) in bound {
        match schema.get_mut(name) {
            Some(inner @ Value::Object(_)) => merge(Some(inner), value),
            _ => drop(schema.insert(name.clone(), value.clone())),
        }
    }
}

/// A queue, type or capability.
fn name() -> Value {
    json!({"minLength": 1, "maxLength": limits::NAME_BYTES_MAX, "pattern": format!("^{OF_NAMES}+$")})
}

/// A name, or how names begin.
fn pattern() -> Value {
    json!({"minLength": 1, "pattern": format!(r"^({OF_NAMES}{{0,{0}}}\*|{OF_NAMES}{{1,{0}}})$", limits::NAME_BYTES_MAX)})
}

fn text(min: usize, max: usize) -> Value {
    json!({"minLength": min, "maxLength": max, "pattern": r"^[^\u0000]*$"})
}

fn labels() -> Value {
    json!({
        "maxProperties": limits::METADATA_ENTRIES_MAX,
        "propertyNames": text(1, limits::NAME_BYTES_MAX),
        "additionalProperties": {"pattern": r"^[^\u0000]*$"},
    })
}

fn timeout() -> Value {
    json!({"minimum": limits::TIMEOUT_MIN.as_secs_f64(), "maximum": limits::TIMEOUT_MAX.as_secs()})
}

fn range(min: u64, max: u64) -> Value {
    json!({"minimum": min, "maximum": max})
}

fn items(min: usize, max: usize) -> Value {
    json!({"minItems": min, "maxItems": max})
}
