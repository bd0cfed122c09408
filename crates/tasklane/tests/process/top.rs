//! `tasklane top` in a real terminal: tmux, whose screen is read back.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::call;
use crate::server::Server;

/// How long a test waits for something to be on the screen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of 80 by 24 with a shell that runs `tasklane top`.
struct Terminal {
    socket: String,
    process: PathBuf,
}

impl Terminal {
    fn start(folder: &Path, server: &Server) -> Self {
        let socket = folder.join("tmux").to_str().unwrap().to_owned();
        let terminal = Self { socket, process: folder.join("process") };
        let top = format!(
            "sh -c 'echo $$ >{}; exec {} top --server http://{} --every 0.2'",
            terminal.process.display(),
            env!("CARGO_BIN_EXE_tasklane"),
            server.address
        );
        // What is left of the terminal afterwards is what the shell finds.
        let script = format!("{top}; echo ended=$?; stty -a; read end");
        let begin = ["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"];
        terminal.tmux(&[&begin[..], &["sh", "-c", &script]].concat());
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-u", "-S", &self.socket])
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("TMUX")
            .env_remove("TASKLANE_API_KEY")
            .output()
            .expect("tmux is installed: make tools");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The screen, as soon as it shows all of this.
    fn shows(&self, wanted: &[&str]) -> String {
        self.until(&format!("{wanted:?}"), |screen| wanted.iter().all(|text| screen.contains(text)))
    }

    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(started.elapsed() < PATIENCE, "not on the screen: {what}\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn about(&self, format: &str) -> String {
        self.tmux(&["display-message", "-p", format]).trim().to_owned()
    }

    /// It ended well, and the terminal is as it was before.
    fn has_ended(&self) {
        let screen = self.shows(&["ended=0", "icanon"]);
        assert!(!screen.contains("-icanon") && !screen.contains("-echo "), "{screen}");
        assert_eq!(self.about("#{alternate_on} #{cursor_flag}"), "0 1", "{screen}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output();
    }
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
    let terminal = Terminal::start(folder.path(), &server);
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
    let terminal = Terminal::start(folder.path(), &server);
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
    let output = Command::new(env!("CARGO_BIN_EXE_tasklane")).args(["top"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("draws on a terminal"), "{output:?}");
}
