//! Copies of stores, stores from copies, and their checks.

use super::{Site, printed, said, tasklane};
use crate::server::Server;

#[test]
fn a_copy_of_a_running_server_becomes_a_store_that_is_whole() {
    let site = Site::new();
    let id = site.submit(&["a", "{\"n\":1}"]);
    let home = site.folder.path();
    let path = |name: &str| home.join(name).to_str().unwrap().to_owned();
    let (copy, other) = (path("copy.db"), format!("sqlite:{}", path("other")));
    let told = site.done(&["backup", &copy]);
    assert!(told.starts_with(&format!("copied to {copy} in ")), "{told}");
    assert!(site.said(&["backup", &copy], 1).contains("choose a new file"));
    let run = |arguments: &[&str]| tasklane(home, arguments).output().unwrap();
    let restored = printed(&run(&["restore", &copy, "--store", &other]), 0);
    assert!(restored.starts_with(&format!("restored to {other} in ")), "{restored}");
    let again = said(&run(&["restore", &copy, "--store", &other]), 1);
    assert!(again.contains("is not empty"), "{again}");
    let whole = printed(&run(&["check", "--store", &other]), 0);
    assert_eq!(whole, format!("{other} is whole\n"));
    let findings = printed(&run(&["check", "--store", &other, "-o", "json"]), 0);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&findings).unwrap()["findings"][0],
        serde_json::Value::Null
    );
    // Without a server, the store itself is copied.
    printed(&run(&["backup", &path("second.db"), "--store", &other]), 0);
    let server = Server::start(&home.join("other"), &[]);
    assert_eq!(server.task(&id)["payload"]["n"], 1);
    let in_use = said(&run(&["check", "--store", &other]), 1);
    assert!(in_use.contains("a server has the store open"), "{in_use}");
}

#[test]
fn a_damaged_store_is_told_by_place_and_nothing_opens_it() {
    let site = Site::new();
    let tasks = r#"{"type":"a","payload":"some text to fill the pages of the file"}"#;
    printed(&site.fed(&["submit", "--bulk", "-"], &format!("{tasks}\n").repeat(500)), 0);
    let Site { folder, mut server } = site;
    server.signal("TERM");
    assert!(server.child.wait().unwrap().success());
    let home = folder.path();
    let run = |arguments: &[&str]| tasklane(home, arguments).output().unwrap();
    printed(&run(&["check", "--store", "sqlite:store"]), 0);
    let file = home.join("store/tasklane.db");
    let whole = std::fs::read(&file).unwrap();
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8_192].fill(0x5a);
    std::fs::write(&file, &bytes).unwrap();
    let found = run(&["check", "--store", "sqlite:store"]);
    let table = printed(&found, 1);
    assert!(table.starts_with("PLACE ") && table.contains("malformed"), "{table}");
    assert!(said(&found, 1).contains("→ let no server open it"), "{found:?}");
    let json = printed(&run(&["check", "--store", "sqlite:store", "-o", "json"]), 1);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["findings"][0]["place"].is_string(), "{json}");
    // What cannot be opened at all says so, and stays as it is.
    let mut bytes = whole;
    bytes[..100].fill(0);
    std::fs::write(&file, &bytes).unwrap();
    let table = printed(&run(&["check", "--store", "sqlite:store"]), 1);
    assert!(table.contains("\nstore  file is not a database\n"), "{table}");
    for verb in [&["serve", "--listen", "127.0.0.1:0"][..], &["keys", "list"]] {
        let text = said(&run(&[verb, &["--store", "sqlite:store"]].concat()), 1);
        assert!(text.contains("the store is damaged") && text.contains("→ let no"), "{text}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
}

#[test]
fn what_is_no_store_is_not_taken_for_one() {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| tasklane(home.path(), arguments).output().unwrap();
    let missing = said(&run(&["check", "--store", "sqlite:./nowhere"]), 3);
    assert!(missing.contains("there is no store at sqlite:./nowhere"), "{missing}");
    assert!(!home.path().join("nowhere").exists(), "looking makes nothing");
    std::fs::create_dir(home.path().join("empty")).unwrap();
    said(&run(&["check", "--store", "sqlite:./empty"]), 3);
    assert_eq!(std::fs::read_dir(home.path().join("empty")).unwrap().count(), 0);
    std::fs::write(home.path().join("text"), "no copy").unwrap();
    let refused = said(&run(&["restore", "text", "--store", "sqlite:./new"]), 1);
    assert!(refused.contains("cannot restore text"), "{refused}");
    assert!(!home.path().join("new").exists());
    let nothing = said(&run(&["restore", "absent", "--store", "sqlite:./new2"]), 1);
    assert!(nothing.contains("absent"), "{nothing}");
}
