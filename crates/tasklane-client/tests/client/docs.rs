//! What the docs show is what runs.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tasklane_client::{NewTask, StateName};

use crate::shift::{Shift, ended_as, submit, worker};
use crate::site::Site;

#[path = "../../examples/first_task.rs"]
#[expect(dead_code, reason = "its main is not run here")]
mod first_task;
#[path = "../../examples/first_worker.rs"]
#[expect(dead_code, reason = "its main is not run here")]
mod first_worker;

const PYTHON: &str = "docs/worker.py";

fn text(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    std::fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn the_guide_shows_the_workers_that_are_tested() {
    let guide = text("docs/worker-guide.md");
    let rust = text("crates/tasklane-client/examples/first_worker.rs");
    assert!(guide.contains(&format!("```rust\n{rust}```")), "the worker in Rust differs");
    assert!(guide.contains(&format!("```python\n{}```", text(PYTHON))), "that in Python differs");
    // The front page shows its heart, as a user writes it.
    let (rust, readme) = (rust.replace("pub(crate) ", ""), text("README.md"));
    let heart = &rust[rust.find("async fn send").unwrap()..];
    let shown = readme.split("  ```rust\n").nth(1).and_then(|rest| rest.split("  ```\n").next());
    let shown: String = shown
        .unwrap()
        .lines()
        .map(|l| format!("{}\n", l.strip_prefix("  ").unwrap_or(l)))
        .collect();
    assert_eq!(shown, heart);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_worker_does_the_first_task() {
    let site = Site::new().await;
    let client = site.client();
    let shift = Shift::begin(worker(&client).handle("email.send", first_worker::send));
    let told = first_task::send_email(&client).await.unwrap();
    assert_eq!(told, r#"completed: {"characters":12}"#);
    let bad = json!({"to": "ada", "text": ""});
    let id = submit(&client, NewTask::new("email.send").payload(&bad)).await;
    ended_as(&client, id, StateName::DeadLetter).await;
    shift.end().await;
}

/// A process that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_in_python_works() {
    let mut site = Site::new().await;
    let client = site.client();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let python = Command::new("python3")
        .arg(root.join(PYTHON))
        .arg(site.url())
        .stderr(Stdio::null())
        .spawn()
        .expect("python3 is there");
    let _python = Running(python);
    let greet = |payload| NewTask::new("greet").payload(&payload).max_retries(0);
    let id = submit(&client, greet(json!({"name": "ada"}))).await;
    let task = ended_as(&client, id, StateName::Completed).await;
    let result: serde_json::Value = serde_json::from_slice(&task.result.unwrap().0).unwrap();
    assert_eq!(result, json!({"greeting": "hello ada"}));
    let id = submit(&client, greet(json!({}))).await;
    let error = ended_as(&client, id, StateName::DeadLetter).await.error.unwrap();
    assert!(error.message.contains("KeyError"), "{}", error.message);
    // It finds a server again that was away.
    site.stop().await;
    site.start().await;
    let id = submit(&client, greet(json!({"name": "bob"}))).await;
    ended_as(&client, id, StateName::Completed).await;
}
