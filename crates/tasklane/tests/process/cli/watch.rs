//! Waiting for tasks, and following events.

use serde_json::{Value, json};

use super::{Site, masked, printed, said};

#[test]
fn a_submission_waits_for_the_end_and_its_code_tells_how_it_was() {
    let site = Site::new();
    let wait = |report: Value| {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| site.work(report));
            let arguments = ["submit", "a", "--wait=60s", "--max-retries", "0", "-o", "json"];
            let output = site.command(&arguments).output().unwrap();
            worker.join().unwrap();
            output
        })
    };
    let completed = wait(json!({"status": "completed", "result": {"sum": 3}}));
    let task: Value = serde_json::from_str(&printed(&completed, 0)).unwrap();
    assert_eq!(task["result"], json!({"sum": 3}));
    let failed = wait(json!({"status": "failed", "error": {"message": "no"}}));
    assert!(said(&failed, 1).contains("ended as dead_letter"), "{failed:?}");
}

#[test]
fn waiting_has_an_end() {
    let site = Site::new();
    let (first, second) = (site.submit(&["a"]), site.submit(&["a"]));
    site.work(json!({"status": "completed"}));
    assert_eq!(site.json(&["wait", &first])["tasks"][0]["state"], "completed");
    let text = site.said(&["wait", &first, &second, "--timeout", "1s"], 1);
    assert!(text.contains(&format!("{second} is still pending")), "{text}");
    assert!(text.contains(&format!("→ tasklane explain {second}")), "{text}");
}

#[test]
fn events_are_followed_filtered_and_gone_on_with() {
    let site = Site::new();
    let first = site.submit(&["a", "--queue", "mail"]);
    let cursor = {
        let events = site.server.address;
        let (_, history) = crate::client::call(
            events,
            "GET",
            &format!("/api/v1/tasks/{first}/history"),
            &json!(null),
        );
        assert_eq!(history["history"][0]["type"], "task.submitted");
        // The cursor of an event of another queue, by following while they come.
        let seen = std::thread::scope(|scope| {
            let follow = scope.spawn(|| {
                let kind = ["events", "--kind", "task.submitted", "--queue", "other"];
                site.done(&[&kind[..], &["--count", "1", "-o", "json"]].concat())
            });
            while !follow.is_finished() {
                site.submit(&["b", "--queue", "other"]);
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            follow.join().unwrap()
        });
        let event: Value = serde_json::from_str(&seen).unwrap();
        assert_eq!(event["data"]["queue"], "other", "the filter counts");
        event["cursor"].as_str().unwrap().to_owned()
    };
    let third = site.submit(&["c", "--queue", "mail"]);
    let arguments = ["events", "--cursor", &cursor, "--queue", "mail", "--count", "1"];
    let output = site.command(&arguments).output().unwrap();
    let line = printed(&output, 0);
    assert!(line.contains(&third), "{line}");
    assert_eq!(masked(&line), "TIME task.submitted ID type=c queue=mail priority=normal");
    assert!(said(&output, 0).contains("to go on after this: --cursor "), "{output:?}");
}
