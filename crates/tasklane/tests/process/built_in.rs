//! `tasklane worker`: tasks done by its built-in handlers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::try_call;
use crate::server::{Server, signal};

const SOON: Duration = Duration::from_secs(30);

/// A server where a worker whose tasks fail in a row goes on getting some.
fn patient(folder: &Path) -> Server {
    let file = folder.join("tasklane.toml");
    std::fs::write(&file, "[breaker]\nfailures = 100\n").unwrap();
    Server::start(&folder.join("store"), &["--config", file.to_str().unwrap()])
}

struct Worker(Child);

impl Worker {
    fn start(server: &Server, more: &[&str]) -> Self {
        Self::start_with(server, more, &[])
    }

    fn start_with(server: &Server, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_tasklane"))
            .args(["worker", "--server", &format!("http://{}", server.address)])
            .args(more)
            .envs(variables.iter().copied())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn stop(mut self) {
        signal(&self.0, "TERM");
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Answers every request with the next of these, and tells what was asked.
fn site(answers: &'static [&'static str]) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, seen) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head += &line;
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 2\r\n\r\nhi").unwrap();
            asked.send(head + &String::from_utf8_lossy(&body)).unwrap();
        }
    });
    (address, seen)
}

fn dead(server: &Server, task: Value) -> Value {
    let id = server.submit(task);
    server.await_state(&id, "dead_letter", SOON)["error"].clone()
}

fn done(server: &Server, task: Value) -> Value {
    let id = server.submit(task);
    server.await_state(&id, "completed", SOON)["result"].clone()
}

#[test]
fn echo_gives_back_and_sleep_stops_when_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let server = patient(folder.path());
    let worker = Worker::start(&server, &["--handle", "echo,sleep", "--name", "naps"]);
    assert_eq!(
        done(&server, json!({"type": "echo", "payload": {"a": [1, 2]}})),
        json!({"a": [1, 2]})
    );
    assert_eq!(
        dead(&server, json!({"type": "sleep", "payload": {"seconds": -1}}))["kind"],
        "permanent"
    );
    let id = server.submit(json!({"type": "sleep", "payload": {"seconds": 600}}));
    server.await_state(&id, "running", SOON);
    let path = format!("/api/v1/tasks/{id}");
    assert_eq!(try_call(server.address, "DELETE", &path, &Value::Null).unwrap().0, 202);
    server.await_state(&id, "cancelled", SOON);
    worker.stop();
}

#[test]
fn a_worker_must_know_what_to_do() {
    for (arguments, words) in [
        (&["worker"][..], "--handle"),
        (&["worker", "--handle", "exec"], "--exec"),
        (&["worker", "--exec", "resize"], "NAME="),
        (&["worker", "--handle", "email"], "TASKLANE_SMTP_SERVER"),
        (&["worker", "--handle", "juggle"], "possible values"),
        (&["worker", "--config", "/dev/null"], "--handle"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tasklane")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn a_webhook_calls_and_its_answer_decides() {
    let folder = tempfile::tempdir().unwrap();
    let server = patient(folder.path());
    let _worker = Worker::start(&server, &["--handle", "webhook", "--allow-private"]);
    let (address, asked) =
        site(&["200 OK", "503 Busy\r\nretry-after: 1", "201 Made", "404 Gone", "418 Tea"]);
    let url = format!("http://{address}/hook?a=b");
    let hook = |more: Value| {
        let mut payload = json!({"url": url});
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"type": "webhook", "payload": payload})
    };
    let id = server.submit(hook(json!({"body": {"x": 1}, "headers": {"x-team": "blue"}})));
    let task = server.await_state(&id, "completed", SOON);
    assert_eq!((&task["result"]["status"], &task["result"]["body"]), (&json!(200), &json!("hi")));
    let request = asked.recv().unwrap();
    assert!(request.starts_with("POST /hook?a=b HTTP/1.1"), "{request}");
    assert!(request.contains("x-team: blue") && request.ends_with("{\"x\":1}"), "{request}");
    assert!(request.contains(&format!("idempotency-key: {id}")), "{request}");
    assert!(request.contains(&format!("host: {address}")), "{request}");
    let id = server.submit(hook(json!({"text": "a word"})));
    let task = server.await_state(&id, "completed", SOON);
    assert_eq!((&task["attempts"], &task["result"]["status"]), (&json!(2), &json!(201)));
    assert_eq!(dead(&server, hook(json!({})))["code"], "http-404");
    assert_eq!(done(&server, hook(json!({"expect": [418]})))["status"], 418);
    assert_eq!(dead(&server, hook(json!({"body": 1, "text": "x"})))["code"], "invalid-request");
    assert_eq!(dead(&server, hook(json!({"bodi": 1})))["code"], "invalid-payload");
}

#[test]
fn a_webhook_calls_nothing_behind_the_door() {
    let folder = tempfile::tempdir().unwrap();
    let server = patient(folder.path());
    let _worker = Worker::start(&server, &["--handle", "webhook"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1", "2130706433"] {
        let url = format!("http://{host}:{port}/");
        let task = json!({"type": "webhook", "payload": {"url": url}, "max_retries": 0});
        let error = dead(&server, task);
        let refused = error["code"] == "forbidden-target" || error["code"] == "unreachable";
        assert!(refused, "{host}: {error}");
    }
    assert!(listener.accept().is_err(), "nobody has called");
}

#[test]
fn a_command_gets_the_payload_and_its_output_is_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let server = patient(folder.path());
    let script = folder.path().join("script");
    std::fs::write(&script, SCRIPT).unwrap();
    let allowed = format!("it=sh {}", script.display());
    let arguments = ["--exec", &allowed, "--exec", "none=/no/such/program"];
    let secret = [("TASKLANE_SMTP_SERVER", "smtp://u:canary@h"), ("TASKLANE_API_KEY", "canary")];
    let worker = Worker::start_with(&server, &arguments, &secret);
    let task = |how: &str| json!({"type": "exec", "payload": {"command": "it", "how": how}});
    let told = done(&server, task("echo"));
    assert_eq!(told["how"], "echo", "{told}");
    assert_eq!(done(&server, task("words")), "two words");
    let variables = done(&server, task("variables")).to_string();
    assert!(variables.contains("TASKLANE_FENCE=") && !variables.contains("canary"), "{variables}");
    let fails = |how: &str| {
        let mut task = task(how);
        task["max_retries"] = json!(0);
        let error = dead(&server, task);
        (error["kind"].as_str().unwrap().to_owned(), error["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(fails("later"), ("transient".into(), "exit-75".into()));
    assert_eq!(fails("never"), ("permanent".into(), "exit-65".into()));
    assert_eq!(fails("odd"), ("unknown".into(), "exit-3".into()));
    assert_eq!(fails("flood"), ("permanent".into(), "output-too-large".into()));
    let other = json!({"type": "exec", "payload": {"command": "rm"}});
    assert_eq!(dead(&server, other)["code"], "unknown-command");
    let none = json!({"type": "exec", "payload": {"command": "none"}});
    assert_eq!(dead(&server, none)["code"], "cannot-run");
    worker.stop();
}

const SCRIPT: &str = r#"
read -r payload
case "$payload" in
  *echo*) echo "$payload" ;;
  *words*) echo "two words" ;;
  *variables*) env ;;
  *later*) echo "not now" >&2; exit 75 ;;
  *never*) exit 65 ;;
  *odd*) exit 3 ;;
  *flood*) head -c 1000000 /dev/zero ;;
esac
"#;

#[test]
fn a_command_that_takes_too_long_ends_with_all_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let server = patient(folder.path());
    let (script, mark) = (folder.path().join("script"), folder.path().join("mark"));
    let text = format!("sleep 300 & echo $! > {}; wait", mark.display());
    std::fs::write(&script, text).unwrap();
    let allowed = format!("it=sh {}", script.display());
    let _worker = Worker::start(&server, &["--exec", &allowed]);
    let payload = json!({"command": "it"});
    let error = dead(
        &server,
        json!({"type": "exec", "payload": payload, "timeout_seconds": 10, "max_retries": 0}),
    );
    assert_eq!(error["kind"], "timeout");
    let child = std::fs::read_to_string(&mark).unwrap();
    let gone = Path::new("/proc").join(child.trim());
    let started = Instant::now();
    while gone.exists() {
        assert!(started.elapsed() < SOON, "what it started still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Takes one message by SMTP; gives what was said.
fn mail_server(verdict: &'static str) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (told, heard) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        write!(stream, "220 here\r\n").unwrap();
        let (mut said, mut inside) = (String::new(), false);
        while let Some(Ok(line)) = lines.next() {
            said += &line;
            said.push('\n');
            let answer = match line.split(' ').next().unwrap_or_default() {
                "." => {
                    inside = false;
                    verdict
                }
                _ if inside => continue,
                "DATA" => {
                    inside = true;
                    "354 go on"
                }
                "QUIT" => "221 bye",
                _ => "250 fine",
            };
            write!(stream, "{answer}\r\n").unwrap();
            if line == "." {
                told.send(said.clone()).unwrap();
            }
        }
    });
    (address, heard)
}

#[test]
fn a_message_is_sent_and_a_refusal_for_good_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = patient(folder.path());
    let letter = json!({"type": "email", "payload": {"to": "Ada <ada@example.org>", "from": "q@example.org", "subject": "Hello", "text": "in words"}});
    let (address, heard) = mail_server("250 taken");
    let url = format!("smtp://{address}");
    let worker =
        Worker::start_with(&server, &["--handle", "email"], &[("TASKLANE_SMTP_SERVER", &url)]);
    let id = server.submit(letter.clone());
    server.await_state(&id, "completed", SOON);
    let said = heard.recv().unwrap();
    for words in ["RCPT TO:<ada@example.org>", "Subject: Hello", "in words", &id] {
        assert!(said.contains(words), "{words} in {said}");
    }
    worker.stop();
    let (address, _heard) = mail_server("550 no such user");
    let url = format!("smtp://{address}");
    let _worker =
        Worker::start_with(&server, &["--handle", "email"], &[("TASKLANE_SMTP_SERVER", &url)]);
    let error = dead(&server, letter);
    assert_eq!((&error["kind"], &error["code"]), (&json!("permanent"), &json!("smtp-550")));
}

#[test]
fn probes_and_metrics_tell_how_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = patient(folder.path());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = folder.path().join("worker.toml");
    let text = format!("handlers = [\"sleep\"]\nlisten = \"{free}\"\ndrain_seconds = 20\n");
    std::fs::write(&file, text).unwrap();
    let worker = Worker::start(&server, &["--config", file.to_str().unwrap()]);
    let status =
        |path: &str| try_call(free, "GET", path, &Value::Null).map_or(0, |(status, _)| status);
    let id = server.submit(json!({"type": "sleep", "payload": {"seconds": 15}}));
    server.await_state(&id, "running", SOON);
    assert_eq!((status("/livez"), status("/readyz"), status("/none")), (200, 200, 404));
    assert_eq!(status("/metrics"), 200);
    signal(&worker.0, "TERM");
    let started = Instant::now();
    while status("/readyz") != 503 {
        assert!(started.elapsed() < Duration::from_secs(10), "still ready");
    }
    assert_eq!(status("/livez"), 200);
    server.await_state(&id, "completed", SOON);
    let mut worker = worker;
    assert_eq!(worker.0.wait().unwrap().code(), Some(0));
}
