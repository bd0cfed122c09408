//! What goes wrong, and how it is told.

use super::{Site, first_key, said, tasklane};

const NOBODY: &str = "0199f3a4-5b6c-7d8e-9f01-23456789abcd";

#[test]
fn every_sort_of_failure_has_its_code_and_says_what_to_do() {
    let site = Site::new();
    let waiting = site.submit(&["a"]);
    for (arguments, code, words) in [
        // The server says no.
        (&["submit", "a:b"][..], 1, &["/type: ", "→ names have no", "422 invalid-characters"][..]),
        (&["submit", "a", "--max-retries", "500"], 1, &["/max_retries", "→ bring the value"]),
        (&["retry", &waiting], 1, &["its state: pending", "→ tasklane get", "409 invalid-state"]),
        (&["events", "--cursor", "x"], 1, &["→ use a cursor as this server gave it"]),
        (&["list", "--cursor", "x"], 1, &["400 invalid-cursor, request "]),
        (&["check", "--store", "sqlite:store"], 1, &["a server has the store open: stop it"]),
        (&["backup", "c.db", "--store", "sqlite:store"], 1, &["ask it instead, with --server"]),
        (&["restore", "nowhere", "--store", "sqlite:new"], 1, &["cannot restore nowhere"]),
        // It was asked for in a way that cannot be.
        (&["submit", "a", "{b"], 2, &["the payload is no JSON", "→ a text has quotes"]),
        (&["submit"], 2, &["<TYPE"]),
        (&["get", "7"], 2, &["must be a UUID"]),
        (&["top"], 2, &["draws on a terminal"]),
        (&["bench", "submit", "--queue", "a{b"], 2, &["--queue a{b"]),
        (&["worker"], 2, &["--handle"]),
        (&["purge", "normal"], 2, &["→ give --yes"]),
        (&["serve", "--no-such-flag"], 2, &["--no-such-flag"]),
        (&["list", "--state", "gone"], 2, &["give one of scheduled, blocked"]),
        (&["list", "--priority", "urgent"], 2, &["critical, high, normal or low"]),
        (&["cancel"], 2, &["give the ids of tasks, or say which"]),
        (&["dlq", "replay"], 2, &["--all"]),
        (&["submit", "a", "--delay", "5"], 2, &["a number with s, m, h or d"]),
        (&["submit", "a", "--bulk", "-"], 2, &["cannot be used with"]),
        (&["get", NOBODY, "--server", "127.0.0.1"], 2, &["http:// or https://"]),
        // It is not there.
        (&["get", NOBODY], 3, &["no such task", "→ check the id", "404 not-found"]),
        (&["explain", NOBODY], 3, &["no such task"]),
        (&["dlq", "show", NOBODY], 3, &["404"]),
        (&["wait", NOBODY], 3, &["no such task"]),
        (&["cancel", NOBODY], 3, &["no such task"]),
        (&["workers", NOBODY], 3, &["no such worker"]),
        (&["keys", "revoke", "tl_0123456789ab", "--yes"], 3, &["404"]),
        (&["check", "--store", "sqlite:nowhere"], 3, &["there is no store"]),
        (&["drain", NOBODY], 3, &["no such worker", "404 not-found"]),
        (&["queues", "show", "nowhere"], 3, &["404"]),
        // Nobody is there.
        (
            &["stats", "--server", "http://127.0.0.1:1"],
            4,
            &["http://127.0.0.1:1: ", "→ is it running", "--server URL"],
        ),
        (&["submit", "a", "--server", "http://127.0.0.1:1"], 4, &["cannot be reached"]),
        (&["events", "--server", "http://127.0.0.1:1"], 4, &["cannot be reached"]),
        (&["bench", "submit", "--server", "http://127.0.0.1:1"], 4, &["→ is it running"]),
        (&["doctor", "--server", "http://127.0.0.1:1", "-o", "json"], 4, &[]),
        (&["keys", "list", "--server", "http://127.0.0.1:1"], 4, &["→ is it running"]),
        (&["backup", "/x", "--server", "http://127.0.0.1:1"], 4, &["→ is it running"]),
    ] {
        let text = site.said(arguments, code);
        for word in words {
            assert!(text.contains(word), "{arguments:?}: no {word:?} in {text}");
        }
    }
}

#[test]
fn a_key_that_is_missing_or_too_small_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let root = first_key(&folder.path().join("store"));
    let server = crate::server::Server::start(&folder.path().join("store"), &[]);
    let ask = |key: &str, arguments: &[&str]| {
        let mut command = tasklane(folder.path(), arguments);
        command.env("TASKLANE_SERVER", format!("http://{}", server.address));
        command.env("TASKLANE_API_KEY", key).output().unwrap()
    };
    let text = said(&ask("", &["list"]), 1);
    assert!(text.contains("→ put a good key into TASKLANE_API_KEY"), "{text}");
    let create = ["keys", "create", "--name", "reader", "--scope", "read"];
    let reader = String::from_utf8(ask(&root, &create).stdout).unwrap();
    assert_eq!(ask(reader.trim(), &["list"]).status.code(), Some(0));
    let text = said(&ask(reader.trim(), &["submit", "a"]), 1);
    assert!(text.contains("403 insufficient-scope") && text.contains("→ use a key"), "{text}");
    let file = folder.path().join("key");
    std::fs::write(&file, &root).unwrap();
    let mut by_file = tasklane(folder.path(), &["submit", "a"]);
    by_file.env("TASKLANE_SERVER", format!("http://{}", server.address));
    let by_file = by_file.env("TASKLANE_API_KEY_FILE", &file).output().unwrap();
    assert!(by_file.status.success(), "{by_file:?}");
}
