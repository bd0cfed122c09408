//! `tasklane top` in a real terminal.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::{said, tasklane};
use crate::client::call;
use crate::server::Server;
use crate::terminal::Terminal;

fn watch(folder: &Path, server: &Server) -> Terminal {
    Terminal::start(folder, &format!("top --server http://{} --every 0.2", server.address))
}

/// A dead letter in the queue `mail`, and the worker that made it one.
fn dead_letter(server: &Server) -> (String, String) {
    let id = server.submit(json!({"type": "email.send", "queue": "mail"}));
    let register = json!({"name": "postman", "queues": ["mail"], "capacity": 7});
    let worker = call(server.address, "POST", "/internal/workers/register", &register).1;
    let worker = worker["worker_id"].as_str().unwrap().to_owned();
    let path = |verb: &str| format!("/internal/workers/{worker}/{verb}");
    let poll = json!({"available_capacity": 1});
    let claimed = call(server.address, "POST", &path("poll"), &poll).1["tasks"][0].clone();
    let report = json!({"task_id": id, "lease_token": claimed["lease_token"], "status": "failed",
        "error": {"message": "no such mailbox", "kind": "permanent"}});
    let (status, answer) = call(server.address, "POST", &path("result"), &report);
    assert_eq!((status, &answer["state"]), (200, &json!("dead_letter")), "{answer}");
    (id, worker)
}

fn is_paused(server: &Server, queue: &str) -> bool {
    let path = format!("/admin/queues/{queue}");
    call(server.address, "GET", &path, &Value::Null).1["paused"] == true
}

#[test]
fn an_operator_watches_pauses_drains_and_replays() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("store"), &[]);
    for _ in 0..3 {
        server.submit(json!({"type": "a", "priority": "high"}));
    }
    let (id, worker) = dead_letter(&server);
    let terminal = watch(folder.path(), &server);
    let screen = terminal.shows(&["Queues 2", "Workers 1", "Dead letters 1", "fsync"]);
    assert!(screen.contains("waiting 3") && screen.contains("dead 1"), "{screen}");
    assert!(screen.contains("postman   ") && screen.contains("0/7"), "{screen}");
    assert!(screen.contains("no such mailbox"), "{screen}");
    assert_eq!(screen.lines().count(), 24, "{screen}");
    assert!(screen.lines().last().unwrap().starts_with(" q quit"), "{screen}");

    terminal.press("p");
    terminal.shows(&["Pause the queue default?"]);
    terminal.press("n");
    terminal.until("the question is gone", |screen| !screen.contains("Pause the queue"));
    assert!(!is_paused(&server, "default"));
    terminal.press("p");
    terminal.shows(&["Pause the queue default?"]);
    terminal.press("y");
    terminal.shows(&["The queue default is paused.", "⏸ default", "queue.paused"]);
    assert!(is_paused(&server, "default"));

    terminal.press("d");
    terminal.shows(&["Drain the worker postman?"]);
    terminal.press("y");
    terminal.shows(&["The worker postman drains.", "draining"]);
    let path = format!("/admin/workers/{worker}");
    assert_eq!(call(server.address, "GET", &path, &Value::Null).1["state"], "draining");

    terminal.press("r");
    terminal.shows(&["Replay the dead letter", &id]);
    terminal.press("y");
    terminal.shows(&["waits again.", "Dead letters 0", "task.replayed"]);
    assert_eq!(server.task(&id)["state"], "pending");

    terminal.press("/");
    terminal.press("mail");
    terminal.shows(&[" / mail", "Queues 1"]);
    terminal.press("Escape");
    terminal.shows(&["Queues 2"]);
    terminal.press("e");
    terminal.shows(&["Events: every one"]);
    // Events are followed from some moment on: until one is seen, tasks keep coming.
    terminal.until("a submission", |screen| {
        server.submit(json!({"type": "late"}));
        screen.contains("task.submitted")
    });
    terminal.press("q");
    terminal.has_ended();
}

#[test]
fn it_fits_the_terminal_and_says_when_the_server_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut server = Server::start(&store, &[]);
    server.submit(json!({"type": "a"}));
    let terminal = watch(folder.path(), &server);
    terminal.shows(&["Queues 1", "default"]);
    for (width, height) in [(120, 40), (80, 24)] {
        let size = [width, height].map(|cells: usize| cells.to_string());
        terminal.tmux(&["resize-window", "-x", &size[0], "-y", &size[1]]);
        // The rule beside a title is as wide as the screen.
        terminal.until(&format!("{width}×{height}"), |screen| {
            let lines: Vec<_> = screen.lines().collect();
            let rule = lines.iter().find(|line| line.starts_with(" Queues 1 ─"));
            lines.len() == height
                && lines[0].starts_with(" tasklane ")
                && lines[height - 1].starts_with(" q quit")
                && rule.is_some_and(|rule| rule.chars().count() == width)
        });
    }

    let address = server.address.to_string();
    server.signal("KILL");
    server.child.wait().unwrap();
    // What was seen last stays.
    terminal.shows(&["AWAY, trying again", "Queues 1", "default"]);
    let server = Server::start_at(&address, &store, &[]);
    server.submit(json!({"type": "a", "queue": "second"}));
    let back = terminal.shows(&["Queues 2", "second"]);
    assert!(!back.contains("AWAY"), "{back}");

    let process = std::fs::read_to_string(&terminal.process).unwrap();
    assert!(Command::new("kill").args(["-TERM", process.trim()]).status().unwrap().success());
    terminal.has_ended();
}

#[test]
fn without_a_terminal_it_says_what_it_wants() {
    let home = tempfile::tempdir().unwrap();
    let text = said(&tasklane(home.path(), &["top"]).output().unwrap(), 2);
    assert!(text.contains("draws on a terminal"), "{text}");
    let text = said(&tasklane(home.path(), &["top", "--every", "61"]).output().unwrap(), 2);
    assert!(text.contains("0.1 to 60 seconds"), "{text}");
}
