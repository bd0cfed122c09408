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
fn damage_is_found_and_what_is_no_store_is_not_taken_for_one() {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| tasklane(home.path(), arguments).output().unwrap();
    let missing = said(&run(&["check", "--store", "sqlite:./nowhere"]), 3);
    assert!(missing.contains("there is no store at sqlite:./nowhere"), "{missing}");
    assert!(!home.path().join("nowhere").exists(), "looking makes nothing");
    std::fs::write(home.path().join("text"), "no copy").unwrap();
    let refused = said(&run(&["restore", "text", "--store", "sqlite:./new"]), 1);
    assert!(refused.contains("cannot restore text"), "{refused}");
    assert!(!home.path().join("new").exists());
    let nothing = said(&run(&["restore", "absent", "--store", "sqlite:./new2"]), 1);
    assert!(nothing.contains("absent"), "{nothing}");
}
