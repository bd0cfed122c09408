//! What is printed: tables for people, JSON for machines.

use std::process::Command;

use serde_json::{Value, json};

use super::{Site, masked, printed};

#[test]
fn a_task_is_shown_in_a_sheet_and_tasks_in_a_table() {
    let site = Site::new();
    let sheet = site.done(&[
        "submit",
        "email.send",
        r#"{"to": "ada"}"#,
        "--queue",
        "mail",
        "--priority",
        "high",
        "--label",
        "user=7",
        "--delay",
        "1h",
    ]);
    let expected = "\
id ID
type email.send
queue mail
priority high
state scheduled
attempts 0 of 6
labels user=7
created TIME (AGE ago)
scheduled TIME
payload {\"to\": \"ada\"}";
    assert_eq!(masked(&sheet), expected);
    site.dead_letter("user.delete");
    let table = "\
ID TYPE QUEUE PRIORITY STATE ATTEMPTS AGE ERROR
ID user.delete default normal dead_letter 1/1 AGE no such user
ID email.send mail high scheduled 0/6 AGE";
    assert_eq!(masked(&site.done(&["list"])), table);
    let one = "\
ID TYPE QUEUE PRIORITY STATE ATTEMPTS AGE ERROR
ID email.send mail high scheduled 0/6 AGE";
    for filter in [&["--queue", "mail"][..], &["--label", "user=7"], &["--state", "scheduled"]] {
        assert_eq!(masked(&site.done(&[&["list"], filter].concat())), one, "{filter:?}");
    }
    assert_eq!(site.done(&["list", "--count"]), "2\n");
}

#[test]
fn what_happened_and_why_nothing_happens_are_told() {
    let site = Site::new();
    let id = site.dead_letter("user.delete");
    let history = "\
TIME EVENT WORKER DETAIL
TIME task.submitted -
TIME task.claimed ID
TIME task.dead_lettered ID not_retryable; no such user (permanent, E7)";
    assert_eq!(masked(&site.done(&["history", &id])), history);
    let waiting = site.submit(&["a"]);
    site.done(&["pause", "default"]);
    let explained = masked(&site.done(&["explain", &waiting]));
    assert!(explained.starts_with("id ID\nstate pending\n"), "{explained}");
    assert!(explained.contains("\nwhy ") && explained.contains("\n- "), "{explained}");
    let with_history = masked(&site.done(&["get", &id, "--history"]));
    assert!(with_history.contains("\nerror no such user (permanent, E7)\n"), "{with_history}");
    assert!(with_history.ends_with(history), "{with_history}");
}

#[test]
fn queues_workers_and_counters_have_tables() {
    let site = Site::new();
    site.submit(&["a", "--queue", "mail"]);
    site.work(json!({"status": "completed"}));
    site.submit(&["a", "--queue", "mail"]);
    let queues = "NAME STATE DEPTH WEIGHT ORDER\nmail open 1 1 aging";
    assert_eq!(masked(&site.done(&["queues"])), queues);
    let workers = "\
ID NAME STATE TASKS BREAKER QUEUES TYPES SEEN
ID tester active 0/1 closed all all TIME";
    assert_eq!(masked(&site.done(&["workers"])), workers);
    let stats = masked(&site.done(&["stats"]));
    let begin = "\
PRIORITY WAITING OLDEST RUNNING
critical 0 AGE 0
high 0 AGE 0
normal 1 AGE 0
low 0 AGE 0

scheduled 0
retrying 0
blocked 0
dead letters 0
tasks 2
workers 1 active, 0 paused, 0 draining, 0 unhealthy, 0 dead
capacity 0 of 1 used";
    assert!(stats.starts_with(begin), "{stats}");
    let minutes = site.done(&["stats", "--minutes", "5"]);
    assert!(minutes.starts_with("MINUTE") && minutes.lines().count() >= 2, "{minutes}");
}

#[test]
fn json_is_what_the_server_answers() {
    let site = Site::new();
    let id = site.submit(&["email.send", r#"{"n": 1.50}"#]);
    let without_ages = |mut task: Value| {
        for member in ["age_seconds", "state_seconds"] {
            assert!(task[member].is_number(), "{task}");
            task[member] = json!(0);
        }
        task
    };
    let shown = site.json(&["get", &id]);
    let answered = site.get(&format!("/api/v1/tasks/{id}"));
    assert_eq!(without_ages(shown), without_ages(answered));
    // A payload is not touched on its way.
    assert!(site.done(&["get", &id, "-o", "ndjson"]).contains(r#""payload":{"n": 1.50}"#));
    let list = site.json(&["list"]);
    assert_eq!(list["tasks"][0]["id"], *id);
    assert_eq!(site.json(&["queues"]), site.get("/admin/queues"));
    assert_eq!(site.json(&["list", "--count"]), json!({"matched": 1, "exact": true}));
}

#[test]
fn lists_go_on_and_come_line_by_line() {
    let site = Site::new();
    let ids: Vec<_> = (0..5).map(|_| site.submit(&["a"])).collect();
    let listed = |text: &str| -> Vec<String> {
        let tasks = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        tasks.map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    let newest_first: Vec<_> = ids.iter().rev().cloned().collect();
    assert_eq!(listed(&site.done(&["list", "--all", "-o", "ndjson"])), newest_first);
    let first = site.json(&["list", "--limit", "2"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = site.done(&["list", "--cursor", cursor, "-o", "ndjson"]);
    assert_eq!(listed(&rest), newest_first[2..]);
    let hint = site.said(&["list", "--limit", "2"], 0);
    assert!(hint.contains("--cursor"), "{hint}");
}

/// Runs a command at a terminal.
fn at_a_terminal(site: &Site, variables: &[(&str, &str)], arguments: &str) -> String {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_tasklane"));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    command.env("TASKLANE_SERVER", format!("http://{}", site.address()));
    printed(&command.envs(variables.iter().copied()).output().unwrap(), 0)
}

#[test]
fn colours_are_for_terminals() {
    let site = Site::new();
    site.dead_letter("a");
    assert!(!site.done(&["list"]).contains('\u{1b}'));
    assert!(at_a_terminal(&site, &[], "list").contains("\u{1b}[31mdead_letter\u{1b}[0m"));
    assert!(!at_a_terminal(&site, &[("NO_COLOR", "1")], "list").contains('\u{1b}'));
    assert!(!at_a_terminal(&site, &[], "list -o json").contains('\u{1b}'));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let site = Site::new();
    let line = format!("{} page | true; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_tasklane"));
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!((printed(&output, 0).as_str(), &output.stderr[..]), ("0\n", &b""[..]));
    drop(site);
}

#[test]
fn shells_get_their_completions() {
    let site = Site::new();
    for (shell, word) in [("bash", "complete -F"), ("zsh", "#compdef"), ("fish", "complete -c")] {
        let script = site.done(&["completions", shell]);
        assert!(script.contains(word) && script.contains("dlq"), "{shell}");
    }
}
